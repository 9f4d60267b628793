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
from mappable.places.routes import thinned
from mappable.places.table import Places
from mappable.readers.registry import read_places
from mappable.worlds import INSTALL, World, find_world, worlds

# For the paper's rows on our sets: 1,200 steps of 8 anchors (Oxford: 15,006 of 2), at ten times the
# paper's rate.
OUR_SCHEDULE = ("iterations=1200", "learning_rate=1e-5")
WORLDS = ("street-v1", "rooms-v1")  # on which the models of the other sets are scored too
PLACES = "places"  # folder of the table and the packed images, inside the folder of a study
# Block lengths of the bootstrap, in the unit of the places.
STREET_BLOCK, ROOMS_BLOCK, FRAMES_BLOCK = 25.0, 2.0, 20.0


@dataclass(frozen=True)
class NamedSet:
    """A named set. `preset` and the file `settings` have its settings.

    `special` returns fields of its `Setup` that are not the defaults.
    `read` reads the places from the user's folder; it is None for a world that is rendered.
    `choosing` returns the same places with other splits, to choose settings without the test
    images. `paper` holds settings of the paper's rows that differ from the preset.
    """

    name: str
    summary: str
    preset: str | None
    block: float  # block length of the bootstrap, in the unit of the places
    special: Callable[[Places, Settings], dict[str, object]]
    read: Callable[[Path], Places] | None = None
    choosing: Callable[[Places], Places] | None = None
    paper: tuple[str, ...] = ()
    away: tuple[str, ...] = ()  # other worlds, on which its models are scored too
    settings: Path | None = None  # a file of settings, which lie over the preset

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
        """Read or render the set, pack its images into `out`, and return its setup and images."""
        folder = out / PLACES
        if self.read is None:
            if root is not None:
                raise BadInputError(
                    f"{self.name} is rendered, not read from {root}; leave out --images"
                )
            world = find_world(self.name)
            drawn = world.find_drawn(folder, every=every)
            places = drawn or world.draw(folder, every=every, overwrite=overwrite)
        elif root is None:
            raise BadInputError(f"{self.name}: no folder of images given; add --images FOLDER")
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
            # Renders damaged images again.
            find_world(self.name).draw(folder, every=every, overwrite=overwrite)
            packed, _ = pack()
        return setup, packed.view(places)

    def setup(self, places: Places, settings: Settings, *, choose: bool = False) -> Setup:
        """The setup of its evaluation; with `choose`, a setup to choose settings without its test
        images.
        """
        if choose and self.choosing is None:
            raise BadInputError(
                f"{self.name} has no images besides its test images, so --choose is not possible"
            )
        places = self.choosing(places) if choose and self.choosing else places
        radii = {
            "positive_radius": settings.positive_radius,
            "negative_radius": settings.negative_radius,
        }
        usual = {"landmarks": settings.landmarks, "block": self.block}
        return setup_of(self.name, places, **radii, **usual | self.special(places, settings))  # type: ignore[arg-type]


def find_set(name: str) -> NamedSet:
    """The set with that name."""
    if name in SETS:
        return SETS[name]
    if name in worlds():
        return _drawn(find_world(name))
    more = "" if worlds() else f"; {INSTALL}"
    raise BadInputError(f"unknown set {name!r}, expected one of {', '.join(set_names())}{more}")


def set_names() -> list[str]:
    """The names of all sets, also of installed worlds."""
    return [*SETS, *worlds()]


def _drawn(world: World) -> NamedSet:
    """A simulated world. Region B, the wing and the other camera test generalization; one route
    leaves the map.
    """

    def special(places: Places, settings: Settings) -> dict[str, object]:
        part_of = world.parts
        parts = np.array([part_of[sequence] for sequence in places.sequence], dtype=object)
        references, queries = places.references(), places.queries()
        first = references[places.condition[references] == world.condition]
        first = first[places.sequence[first] == places.sequence[first[0]]]

        def region(title: str, part: str) -> Region:
            known = np.flatnonzero((parts == part) & (places.role == "reference"))
            asked = np.flatnonzero((parts == part) & (places.role == "query"))
            return Region(title, first if part == "camera" else known, asked)

        named = {"region B": "region-b", "unseen wing": "wing", "other camera": "camera"}
        regions = [region(title, part) for title, part in named.items()]
        leaving = np.flatnonzero(parts == "leaving")
        return {
            "regions": tuple(one for one in regions if len(one.reference) and len(one.queries)),
            "elsewhere": regions[0].queries,
            "absent": _away(places, leaving, references, settings.negative_radius),
            "proportional": tuple(places[queries].sequences()) if len(queries) else (),
            **_route(places, world.condition),
        }

    return NamedSet(
        world.name,
        world.summary,
        world.preset,
        world.block,
        special,
        choosing=_by_calibration,
        paper=world.paper,
        away=world.away,
    )


def _by_calibration(places: Places) -> Places:
    """Test on the calibration images, and do not use the test images.

    In the street, the night run is left out of training. As in the real test, some images then have
    an unseen condition.
    """
    others = {"calibration": "test", "test": ""}
    split = np.array([others.get(split, split) for split in places.split], dtype=object)
    split[(split == "train") & (places.condition == "night-rain")] = ""
    return places.replace(split=split)


def _by_stretch(places: Places) -> Places:
    """Test on the second half of the training stretch; leave out a gap before it, and the test
    stretch.
    """
    train = places.split == "train"
    ends = np.quantile(places.x[train], [0.5, 0.54])
    split = np.full(len(places), "", dtype=object)
    split[train & (places.x < ends[0])] = "train"
    split[train & (places.x >= ends[1])] = "test"
    return places.replace(split=split)


def _away(places: Places, rows: Ints, references: Ints, radius: float) -> Ints:
    """The rows whose positions are farther than the radius from all references."""
    if not len(rows):
        return rows
    apart, _ = KDTree(places.positions[references]).query(places.positions[rows])
    away: Ints = rows[np.asarray(apart) > radius]
    return away


def _oxford(places: Places, settings: Settings) -> dict[str, object]:
    """The paper's set. It does not say which 672 m it recovers; we use the start of the overcast
    test run.
    """
    train = np.flatnonzero(places.split == "train")
    snow = train[places.condition[train] == "snow"]
    gallery = snow if len(snow) else train
    return {"gallery": gallery, "gallery_landmarks": 1000, **_route(places, "overcast")}


def _boreas(places: Places, settings: Settings) -> dict[str, object]:
    """Our splits by date; region B, on which no encoder trained, with one drive as its map."""
    region = Region(
        "region B",
        np.flatnonzero(places.role == "reference"),
        np.flatnonzero(places.role == "query"),
    )
    known = (
        {"regions": (region,), "elsewhere": region.queries}
        if len(region.reference) and len(region.queries)
        else {}
    )
    return {**known, **_route(places, "sun")}


def _route(places: Places, condition: str) -> dict[str, object]:
    """The test run whose route is recovered: one in this condition, if any."""
    rows = np.flatnonzero((places.split == "test") & (places.condition == condition))
    return {"route": str(places.sequence[rows[0]])} if len(rows) else {}


def _cold(places: Places, settings: Settings) -> dict[str, object]:
    """The paper's sequences and regions, as far as they exist in the folder."""
    area = "freiburg-a/seq2_"
    there = set(places.sequence)

    def region(title: str, reference: str, *queries: str) -> Region:
        known = np.flatnonzero(places.sequence == reference)
        return Region(title, known, np.flatnonzero(np.isin(places.sequence.astype(str), queries)))

    regions = [
        region("Freiburg A", f"{area}sunny2", f"{area}sunny3", f"{area}cloudy3", f"{area}night3")
    ]
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
    """Winter queries against all summer images of the test region, on which no encoder trained."""
    winter, summer = (
        np.flatnonzero((places.split == "test") & (places.condition == season))
        for season in ("winter", "summer")
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
    """The paper's training and test images, and its generalization regions if they exist in the
    folder.
    """
    tables = [read_places("cold", root, protocol="paper")]
    missing = []
    for region in ("freiburg-b", "saarbruecken-b"):
        try:
            tables.append(
                read_places("cold", root, protocol=f"generalization-{region}").replace(split="")
            )
        except BadInputError as error:
            missing.append(Note(f"no generalization test in {region}: {error}"))
    return concatenate(tables).noting(*missing)


def _read_boreas(root: Path) -> Places:
    """One image every 2 m, so a standing car adds no images."""
    places = read_places("boreas", root, protocol="seasons")
    return places[thinned(places, 2.0)]


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
            "cold",
            "COLD Freiburg A, and the paper's generalization regions",
            "cold",
            ROOMS_BLOCK,
            _cold,
            _read_cold,
        ),
        NamedSet(
            "boreas",
            "Boreas, five drives of a year against five others, and a part of the route without"
            " training",
            "street",
            STREET_BLOCK,
            _boreas,
            _read_boreas,
            choosing=_by_calibration,
            paper=OUR_SCHEDULE,
        ),
        NamedSet(
            "nordland",
            "Nordland, winter against summer, in frames of the film",
            None,  # studies/nordland/nordland.yaml
            FRAMES_BLOCK,
            _nordland,
            lambda root: read_places("manifest", root, unit="frames", other_splits="clear"),
            choosing=_by_stretch,
            paper=OUR_SCHEDULE,
            away=WORLDS,
        ),
    )
}
