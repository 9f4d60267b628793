"""Conditions: what the light, the weather and the hour make of a world."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import radians

from mappable.places.worlds.scene import Colour


@dataclass(frozen=True)
class Condition:
    """Light in units in which white paper under an open grey sky is about 1; colours are linear red, green, blue.

    `sun` shines from `sun_azimuth`, `sun_elevation` (radians); `ambient` comes from everywhere; `sky_low` and `sky_high`
    are the sky's colours at the horizon and above; `clouds`, `snow`, `wet`, `rain` and `lit` (the share of windows
    with light behind them) are 0 to 1; `fog` is the share of light lost a metre; `lamps` is the power of street or
    ceiling lamps, `headlights` of the vehicle's own; `exposure` is what the camera aims at, `noise` and `blur`
    multiply the camera's.
    """

    ambient: Colour
    sky_low: Colour
    sky_high: Colour
    sun: Colour = (0.0, 0.0, 0.0)
    sun_azimuth: float = 0.0
    sun_elevation: float = 0.8
    clouds: float = 0.0
    snow: float = 0.0
    wet: float = 0.0
    rain: float = 0.0
    fog: float = 0.001
    lamps: float = 0.0
    headlights: float = 0.0
    lit: float = 0.0
    exposure: float = 0.4
    noise: float = 1.0
    blur: float = 1.0


STREET: Mapping[str, Condition] = {
    "sun": Condition(
        ambient=(0.32, 0.40, 0.55),
        sky_low=(0.62, 0.78, 0.98),
        sky_high=(0.16, 0.36, 0.85),
        sun=(1.9, 1.65, 1.3),
        sun_azimuth=radians(215),
        sun_elevation=radians(38),
        clouds=0.3,
    ),
    "overcast": Condition(
        ambient=(0.86, 0.9, 0.96), sky_low=(0.80, 0.83, 0.86), sky_high=(0.58, 0.62, 0.68), clouds=0.6, fog=0.002
    ),
    "snow": Condition(
        ambient=(0.88, 0.93, 1.02),
        sky_low=(0.86, 0.88, 0.90),
        sky_high=(0.74, 0.77, 0.81),
        clouds=0.2,
        snow=1.0,
        fog=0.008,
        exposure=0.5,
    ),
    "night-rain": Condition(
        ambient=(0.010, 0.011, 0.016),
        sky_low=(0.035, 0.026, 0.018),
        sky_high=(0.006, 0.007, 0.012),
        wet=1.0,
        rain=0.5,
        fog=0.004,
        lamps=1.0,
        headlights=1.0,
        lit=0.35,
        exposure=0.2,
        noise=2.5,
        blur=1.6,
    ),
    "night": Condition(
        ambient=(0.012, 0.013, 0.020),
        sky_low=(0.030, 0.026, 0.026),
        sky_high=(0.005, 0.006, 0.012),
        lamps=1.0,
        headlights=1.0,
        lit=0.45,
        exposure=0.2,
        noise=2.5,
        blur=1.2,
    ),
    "rain": Condition(
        ambient=(0.50, 0.54, 0.60),
        sky_low=(0.52, 0.55, 0.58),
        sky_high=(0.36, 0.39, 0.43),
        clouds=0.8,
        wet=0.8,
        rain=1.0,
        fog=0.010,
        lit=0.12,
        exposure=0.36,
        noise=1.5,
        blur=1.8,
    ),
}

ROOMS: Mapping[str, Condition] = {
    "cloudy": Condition(
        ambient=(0.30, 0.31, 0.33), sky_low=(1.5, 1.55, 1.6), sky_high=(1.2, 1.25, 1.35), lamps=0.35, fog=0.0, lit=1.0
    ),
    "sunny": Condition(
        ambient=(0.34, 0.32, 0.29),
        sky_low=(2.4, 2.5, 2.6),
        sky_high=(1.2, 1.7, 2.6),
        sun=(6.0, 5.0, 3.6),
        sun_azimuth=radians(245),
        sun_elevation=radians(32),
        lamps=0.0,
        fog=0.0,
    ),
    "night": Condition(
        ambient=(0.045, 0.040, 0.034),
        sky_low=(0.012, 0.013, 0.02),
        sky_high=(0.004, 0.005, 0.01),
        lamps=0.55,
        fog=0.0,
        lit=1.0,
        exposure=0.32,
        noise=2.0,
    ),
}
