"""The entry point `mappable.worlds`: the presets as worlds that `mappable` draws, trains on and scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from mappable.places.images import Size
from mappable.places.table import Places
from mappable_worlds.presets import PRESETS as DRAWN
from mappable_worlds.presets import Preset

PRESETS = resources.files("mappable_worlds") / "settings"
# For the paper's rows: 1,200 steps of 8 anchors (Oxford: 15,006 of 2), at ten times the paper's
# rate.
SCHEDULE = ("iterations=1200", "learning_rate=1e-5")
FULL = ("street-v1", "rooms-v1")  # each scores the models of the other
SMALL = ("street-v1-demo", "street-v1-brief")  # for machines without a GPU


@dataclass(frozen=True)
class DrawnWorld:
    """A preset with the interface `mappable.worlds.World`."""

    drawn: Preset

    @property
    def name(self) -> str:
        return self.drawn.name

    @property
    def summary(self) -> str:
        return self.drawn.summary

    @property
    def parts(self) -> Mapping[str, str]:
        return {run.name: run.part for run in self.drawn.runs}

    @property
    def preset(self) -> str:
        return "street-laptop" if self.name in SMALL else self.drawn.world

    @property
    def paper(self) -> tuple[str, ...]:
        return () if self.name in SMALL else SCHEDULE

    @property
    def away(self) -> tuple[str, ...]:
        return tuple(name for name in FULL if name != self.name) if self.name in FULL else ()

    @property
    def block(self) -> float:
        return 25.0 if self.drawn.world == "street" else 2.0

    @property
    def condition(self) -> str:
        return "overcast" if self.drawn.world == "street" else "cloudy"

    def draw(
        self,
        out: Path,
        *,
        parts: Sequence[str] | None = None,
        size: Size | None = None,
        device: str = "cpu",
        overwrite: bool = False,
        pixels: bool = True,
        every: int = 1,
    ) -> Places:
        from mappable_worlds.simulation import write_simulated

        how: dict[str, Any] = {"overwrite": overwrite, "pixels": pixels, "every": every}
        return write_simulated(self.name, out, parts=parts, size=size, device=device, **how)

    def find_drawn(self, out: Path, *, every: int = 1) -> Places | None:
        from mappable_worlds.simulation import find_simulated

        return find_simulated(self.name, out, every=every)

    def describe(self, record: Mapping[str, Any]) -> list[tuple[str, str]]:
        from mappable_worlds.statistics import Statistics

        return Statistics(**record["statistics"]).rows()


WORLDS = {name: DrawnWorld(preset) for name, preset in DRAWN.items()}
