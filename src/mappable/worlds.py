"""Simulated worlds, which other distributions draw: the entry points `mappable.worlds` name them.

Such an entry point is a module with `WORLDS`, the worlds by name, and `PRESETS`, a folder with
settings for them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.places.images import Size
    from mappable.places.table import Places

GROUP = "mappable.worlds"
INSTALL = "simulated worlds need another package: pip install 'mappable[demo]'"


class World(Protocol):
    """A world that can be drawn, and the defaults of `mappable reproduce` for it.

    `parts` maps each sequence to its part: "main" or an unseen part, such as "wing". `preset` names
    its settings, and `paper` has settings of the paper's rows that differ from them. `away` names
    other worlds that score its models. `block` is the block length of the bootstrap, in metres.
    `condition` is the condition of the recovered route.
    """

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def parts(self) -> Mapping[str, str]: ...
    @property
    def preset(self) -> str: ...
    @property
    def paper(self) -> tuple[str, ...]: ...
    @property
    def away(self) -> tuple[str, ...]: ...
    @property
    def block(self) -> float: ...
    @property
    def condition(self) -> str: ...

    def draw(
        self,
        out: Path,
        *,
        parts: Sequence[str] | None = None,
        size: "Size | None" = None,
        device: str = "cpu",
        overwrite: bool = False,
        pixels: bool = True,
        every: int = 1,
    ) -> "Places":
        """Draw the world into a folder: see `mappable simulate`. A stopped drawing continues."""

    def find_drawn(self, out: Path, *, every: int = 1) -> "Places | None":
        """The table of a folder that has the whole world; None for any other folder."""

    def describe(self, record: Mapping[str, Any]) -> list[tuple[str, str]]:
        """A label and a text for each number that the `world.json` of a drawn folder states."""


class WorldModule(Protocol):
    """The module that an entry point names."""

    WORLDS: Mapping[str, World]
    PRESETS: Traversable


@cache
def world_modules() -> list[WorldModule]:
    """The modules of all installed distributions that draw worlds."""
    return [entry_point.load() for entry_point in entry_points(group=GROUP)]


def worlds() -> dict[str, World]:
    """All installed worlds by name."""
    return {name: world for module in world_modules() for name, world in module.WORLDS.items()}


def find_world(name: str) -> World:
    """Find a world by name; the error lists the known names, or says what to install."""
    known = worlds()
    if not known:
        raise BadInputError(INSTALL)
    if name not in known:
        raise BadInputError(f"unknown world {name!r}: use one of {', '.join(known)}")
    return known[name]
