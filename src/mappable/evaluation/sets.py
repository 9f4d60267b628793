"""The sets that `mappable reproduce` knows: where their images come from and how they are evaluated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Ints
from mappable.errors import BadImageError, BadInputError
from mappable.evaluation.setup import Region, Setup, setup_of
from mappable.learning.settings import Settings
from mappable.places.files import TABLE, save_places
from mappable.places.joining import concatenate
from mappable.places.notes import Note
from mappable.places.packing import pack_images
from mappable.places.pixels import Images
from mappable.places.readers import read_places
from mappable.places.table import Places
from mappable.worlds.presets import PRESETS, Preset
from mappable.worlds.simulation import find_simulated, write_simulated

# Of the paper's rows on our sets: 1,200 steps of 8 anchors where Oxford has 15,006 of 2, at ten times the paper's rate.
OUR_SCHEDULE = ("iterations=1200", "learning_rate=1e-5")
PLACES = "places"  # the folder of the table and the packed images, below that of all results
STREET_BLOCK, ROOMS_BLOCK, FRAMES_BLOCK = 25.0, 2.0, 20.0  # of the bootstrap, in the unit of the places


@dataclass(frozen=True)
class NamedSet:
    """A set by name. `preset` has its settings; `special` gives fields of its `Setup` that are not the usual ones.

    `read` gives the places of a folder that the user has; None of a world that is drawn. `choosing` gives the same
    places with other splits, to choose settings by: what is tested on then is none of the test images. `paper` are
    settings of the paper's rows, where those of the preset are not the paper's.
    """

    name: str
    summary: str
    preset: str
    block: float  # of the bootstrap, in the unit of the places
    special: Callable[[Places, Settings], dict[str, object]]
    read: Callable[[Path], Places] | None = None
    choosing: Callable[[Places], Places] | None = None
    paper: tuple[str, ...] = ()

    def load(
        self,
        root: Path | None,
        out: Path,
        settings: Settings,
        *,
        every: int = 1,
        overwrite: bool = False,
        choose: bool = False,
    ) -> tuple[Setup, Images]:
        """Read or draw the set, pack its images below `out`, and say how it is evaluated on."""
        folder = out / PLACES
        if self.read is None:
            if root is not None:
                raise BadInputError(f"{self.name} is drawn, not read: leave {root} out")
            places = find_simulated(self.name, folder, every=every) or write_simulated(
                self.name, folder, every=every, overwrite=overwrite
            )
        elif root is None:
            raise BadInputError(f"{self.name}: give the folder that holds the images (--images FOLDER)")
        else:
            places = self.read(root)
            save_places(places, folder / TABLE)
        setup = self.setup(places, settings, choose=choose)
        pack = partial(pack_images, places, folder, size=settings.size, fit=settings.fit, wait=True)
        try:
            packed, _ = pack()
        except BadImageError:
            if self.read is not None:
                raise
            write_simulated(self.name, folder, every=every, overwrite=overwrite)  # draws again what is damaged
            packed, _ = pack()
        return setup, packed.view(places)

    def setup(self, places: Places, settings: Settings, *, choose: bool = False) -> Setup:
        """How its places are evaluated on; or how settings are chosen, without its test images."""
        if choose and self.choosing is None:
            raise BadInputError(f"{self.name} has no images beside those of the test to choose settings by")
        places = self.choosing(places) if choose and self.choosing else places
        radii = {"positive_radius": settings.positive_radius, "negative_radius": settings.negative_radius}
        usual = {"landmarks": settings.landmarks, "block": self.block}
        return setup_of(self.name, places, **radii, **usual | self.special(places, settings))  # type: ignore[arg-type]


def find_set(name: str) -> NamedSet:
    """The set of that name."""
    if name not in SETS:
        raise BadInputError(f"there is no set {name!r}; there are {', '.join(SETS)}")
    return SETS[name]


def _drawn(world: Preset) -> NamedSet:
    """A simulated world: region B, the wing and the other camera ask what carries over; a route that leaves the map."""
    block, usual = (STREET_BLOCK, "overcast") if world.world == "street" else (ROOMS_BLOCK, "cloudy")

    def special(places: Places, settings: Settings) -> dict[str, object]:
        part = {run.name: run.part for run in world.runs}
        parts = np.array([part[sequence] for sequence in places.sequence], dtype=object)
        references, queries = places.references(), places.queries()
        own = {
            title: Region(
                title,
                np.flatnonzero((parts == of) & (places.role == "reference")),
                np.flatnonzero((parts == of) & (places.role == "query")),
            )
            for title, of in (("region B", "region-b"), ("unseen wing", "wing"), ("other camera", "camera"))
        }
        first = references[places.condition[references] == usual]
        own["other camera"] = Region(
            "other camera", first[places.sequence[first] == places.sequence[first[0]]], own["other camera"].queries
        )
        leaving = np.flatnonzero(parts == "leaving")
        return {
            "regions": tuple(one for one in own.values() if len(one.reference) and len(one.queries)),
            "elsewhere": own["region B"].queries,
            "absent": _away(places, leaving, references, settings.negative_radius),
            "proportional": tuple(places[queries].sequences()) if len(queries) else (),
            **_route(places, usual),
        }

    preset = "street-laptop" if world.name.endswith("-demo") else world.world
    paper = OUR_SCHEDULE if preset == world.world else ()
    return NamedSet(world.name, world.summary, preset, block, special, choosing=_by_calibration, paper=paper)


def _by_calibration(places: Places) -> Places:
    """The images for calibration are tested on, those of the test not used at all.

    In the street nothing is trained on at night: as in the test, some of what is tested on is of an unseen condition.
    """
    others = {"calibration": "test", "test": ""}
    split = np.array([others.get(split, split) for split in places.split], dtype=object)
    split[(split == "train") & (places.condition == "night-rain")] = ""
    return places.replace(split=split)


def _by_stretch(places: Places) -> Places:
    """The second half of the training stretch is tested on, a gap before it left out, and the test stretch too."""
    train = places.split == "train"
    ends = np.quantile(places.x[train], [0.5, 0.54])
    split = np.full(len(places), "", dtype=object)
    split[train & (places.x < ends[0])] = "train"
    split[train & (places.x >= ends[1])] = "test"
    return places.replace(split=split)


def _away(places: Places, rows: Ints, references: Ints, radius: float) -> Ints:
    """Those rows whose position is farther than the radius from all references."""
    if not len(rows):
        return rows
    apart, _ = KDTree(places.positions[references]).query(places.positions[rows])
    away: Ints = rows[np.asarray(apart) > radius]
    return away


def _oxford(places: Places, settings: Settings) -> dict[str, object]:
    """The paper: the 672 m whose map is recovered are not named; we take the overcast test run, from its beginning."""
    train = np.flatnonzero(places.split == "train")
    snow = train[places.condition[train] == "snow"]
    gallery = snow if len(snow) else train
    return {"gallery": gallery, "gallery_landmarks": 1000, **_route(places, "overcast")}


def _route(places: Places, condition: str) -> dict[str, object]:
    """The test run whose map is recovered: one in this condition, where there is such."""
    rows = np.flatnonzero((places.split == "test") & (places.condition == condition))
    return {"route": str(places.sequence[rows[0]])} if len(rows) else {}


def _cold(places: Places, settings: Settings) -> dict[str, object]:
    """The paper's sequences and regions, as far as they are there."""
    area = "freiburg-a/seq2_"
    there = set(places.sequence)

    def region(title: str, reference: str, *queries: str) -> Region:
        known = np.flatnonzero(places.sequence == reference)
        return Region(title, known, np.flatnonzero(np.isin(places.sequence.astype(str), queries)))

    regions = [region("Freiburg A", f"{area}sunny2", f"{area}sunny3", f"{area}cloudy3", f"{area}night3")]
    for title, frame in (("Freiburg B", "freiburg-b"), ("Saarbrücken B", "saarbruecken-b")):
        rows = np.flatnonzero(places.frame == frame)
        role = places.role[rows]
        regions.append(Region(title, rows[role == "reference"], rows[role == "query"]))
    shown = [f"{area}{run}" for run in ("sunny3", "cloudy3", "night3") if f"{area}{run}" in there]
    pair = (f"{area}cloudy2", f"{area}cloudy3")
    gallery = np.flatnonzero(places.sequence == f"{area}sunny1")
    others: dict[str, object] = {"matrices": pair} if there.issuperset(pair) else {}
    others |= {"proportional": tuple(shown)} if shown else {}
    others |= {"gallery": gallery} if len(gallery) else {}
    return {
        "regions": tuple(one for one in regions if len(one.reference) and len(one.queries)),
        "elsewhere": regions[2].queries,
        "absent": regions[1].queries,
        **others,
    }


def _nordland(places: Places, settings: Settings) -> dict[str, object]:
    """Winter queries against all summer images of the test region, which no encoder trained on."""
    winter, summer = (
        np.flatnonzero((places.split == "test") & (places.condition == season)) for season in ("winter", "summer")
    )
    return {
        "landmarks": None,
        "tolerance": 50.0,
        "queries": winter,
        "references": summer,
        "proportional": ("winter",),
        "matrices": ("summer", "winter"),
        "gallery": summer,
        "gallery_landmarks": 1000,
    }


def _read_cold(root: Path) -> Places:
    """What the paper trains and tests on, and the regions that it generalises to, as far as they are there."""
    tables = [read_places("cold", root, protocol="paper")]
    missing = []
    for region in ("freiburg-b", "saarbruecken-b"):
        try:
            tables.append(read_places("cold", root, protocol=f"generalisation-{region}").replace(split=""))
        except BadInputError as error:
            missing.append(Note(f"no generalisation to {region}: {error}"))
    return concatenate(tables).noting(*missing)


SETS: Mapping[str, NamedSet] = {
    one.name: one
    for one in (
        NamedSet(
            "oxford",
            "Oxford RobotCar, the paper's seven traversals",
            "oxford",
            STREET_BLOCK,
            _oxford,
            lambda root: read_places("robotcar", root, protocol="paper"),
        ),
        NamedSet(
            "cold", "COLD Freiburg A, and the paper's regions to generalise to", "cold", ROOMS_BLOCK, _cold, _read_cold
        ),
        *(_drawn(world) for world in PRESETS.values()),
        NamedSet(
            "nordland",
            "Nordland, winter against summer, in frames of the film",
            "nordland",
            FRAMES_BLOCK,
            _nordland,
            lambda root: read_places("manifest", root, unit="frames", other_splits="clear"),
            choosing=_by_stretch,
            paper=OUR_SCHEDULE,
        ),
    )
}
