"""Conditions: light, weather and time of day."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import radians

from mappable_worlds.scene import Color


@dataclass(frozen=True)
class Condition:
    """Light and weather of a run. Colors are linear red, green, blue.

    The unit of light is such that white paper under an open gray sky is about 1.
    """

    ambient: Color  # light from all sides
    sky_low: Color  # sky at the horizon
    sky_high: Color  # sky above
    sun: Color = (0.0, 0.0, 0.0)
    sun_azimuth: float = 0.0  # direction that the sun shines from, in radians
    sun_elevation: float = 0.8  # radians
    clouds: float = 0.0  # 0 to 1
    snow: float = 0.0  # 0 to 1
    wet: float = 0.0  # 0 to 1
    rain: float = 0.0  # 0 to 1
    fog: float = 0.001  # share of light lost per metre
    lamps: float = 0.0  # power of street or ceiling lamps
    lamps_lit: float = 1.0  # share of the lamps that are on
    headlights: float = 0.0  # power of the vehicle's own lights
    # 0 to 1: share of windows with light behind them; indoors, brightness of screens.
    lit: float = 0.0
    exposure: float = 0.4  # brightness that the camera aims at
    noise: float = 1.0  # multiplies the noise of the camera
    blur: float = 1.0  # multiplies the blur of the camera
    hours_later: float = 0.0  # start time of a run, after runs by day


STREET: Mapping[str, Condition] = {
    "sun": Condition(
        ambient=(0.50, 0.56, 0.66),
        sky_low=(0.62, 0.78, 0.98),
        sky_high=(0.16, 0.36, 0.85),
        sun=(1.3, 1.15, 0.95),
        sun_azimuth=radians(215),
        sun_elevation=radians(38),
        clouds=0.3,
    ),
    "overcast": Condition(
        ambient=(0.86, 0.9, 0.96),
        sky_low=(0.80, 0.83, 0.86),
        sky_high=(0.58, 0.62, 0.68),
        clouds=0.6,
        fog=0.002,
    ),
    "snow": Condition(
        ambient=(0.88, 0.93, 1.02),
        sky_low=(0.86, 0.88, 0.90),
        sky_high=(0.74, 0.77, 0.81),
        clouds=0.2,
        snow=0.8,
        fog=0.004,
        exposure=0.5,
    ),
    "night-rain": Condition(
        hours_later=11.0,
        ambient=(0.05, 0.05, 0.06),
        sky_low=(0.035, 0.026, 0.018),
        sky_high=(0.006, 0.007, 0.012),
        wet=1.0,
        rain=0.3,
        fog=0.003,
        lamps=1.0,
        headlights=1.0,
        lit=0.35,
        exposure=0.3,
        noise=1.5,
        blur=1.2,
    ),
    "night": Condition(
        hours_later=11.0,
        ambient=(0.012, 0.013, 0.020),
        sky_low=(0.030, 0.026, 0.026),
        sky_high=(0.005, 0.006, 0.012),
        lamps=1.0,
        lamps_lit=0.7,
        headlights=1.0,
        lit=0.4,
        exposure=0.18,
        noise=3.3,
        blur=1.4,
    ),
    "rain": Condition(
        ambient=(0.50, 0.54, 0.60),
        sky_low=(0.52, 0.55, 0.58),
        sky_high=(0.36, 0.39, 0.43),
        clouds=0.8,
        wet=0.8,
        rain=0.9,
        fog=0.010,
        lit=0.12,
        exposure=0.36,
        noise=1.5,
        blur=1.7,
    ),
}

ROOMS: Mapping[str, Condition] = {
    "cloudy": Condition(
        ambient=(0.26, 0.28, 0.31),
        sky_low=(1.5, 1.6, 1.75),
        sky_high=(1.2, 1.3, 1.45),
        lamps=0.45,
        lamps_lit=0.5,
        fog=0.0,
        lit=1.0,
    ),
    "sunny": Condition(
        ambient=(0.20, 0.18, 0.15),
        sky_low=(3.4, 3.2, 2.9),
        sky_high=(1.6, 2.1, 3.0),
        sun=(10.0, 8.0, 5.4),
        sun_azimuth=radians(245),
        sun_elevation=radians(30),
        fog=0.0,
        exposure=0.45,
    ),
    "night": Condition(
        hours_later=11.0,
        ambient=(0.020, 0.016, 0.012),
        sky_low=(0.012, 0.013, 0.02),
        sky_high=(0.004, 0.005, 0.01),
        lamps=0.5,
        lamps_lit=0.4,
        fog=0.0,
        lit=1.0,
        exposure=0.22,
        noise=3.0,
        blur=1.5,
    ),
}
