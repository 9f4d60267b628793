"""What a simulated world asks of a method, in numbers that come from positions alone, before anything is trained."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, path_length
from mappable.places.neighbours import find_neighbours
from mappable.places.routes import steps
from mappable.places.sampling import farthest_points
from mappable.places.table import Places
from mappable.worlds.presets import Preset
from mappable.worlds.scene import World

TURN = np.pi / 4  # a change of heading from which on it counts as a turn
STILL = 0.02  # metres; a shorter step is a turn on the spot


@dataclass(frozen=True)
class Route:
    """The first training run: metres driven, driven along for a second time, and between images; turns of the car."""

    length: float
    driven_again: float
    spacing: float
    turns: int
    images_on_the_spot: int


@dataclass(frozen=True)
class Bound:
    """How near the nearest of the greedy landmarks is: shares of the test images, and metres to a training image."""

    landmarks: int
    positive_radius: float
    negative_radius: float
    within_positive_radius: float
    within_negative_radius: float
    covering_radius: float


@dataclass(frozen=True)
class Statistics:
    """Counts are by split, or by part where a run belongs to none; lengths are in metres, None without such images.

    `facts` are those of the whole layout, whatever part of it was driven.
    """

    images: dict[str, int]
    runs: dict[str, int]
    extent: tuple[float, float, float]
    facts: dict[str, float]
    look_alikes: dict[str, int]
    route: Route | None
    bound: Bound | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Statistics":
        kinds = {"route": Route, "bound": Bound}
        known = {name: fields[name] for name in cls.__dataclass_fields__}
        return cls(**(known | {name: known[name] and kind(**known[name]) for name, kind in kinds.items()}))

    def rows(self) -> list[tuple[str, str]]:
        """A line for each number that a summary of the places lacks: what it is, and how much."""
        found = [(label, f"{count:,} images of {_runs(self.runs[label])}") for label, count in self.images.items()]
        if self.extent[2]:
            found.append(("height", f"{self.extent[2]:,.1f} m from the lowest image to the highest"))
        return found + self._route_rows() + self._layout_rows() + self._bound_rows()

    def _route_rows(self) -> list[tuple[str, str]]:
        if not self.route:
            return []
        route = self.route
        found = [
            ("route", f"{route.length:,.0f} m, {route.driven_again:,.0f} m of it for a second time"),
            ("turns", f"{route.turns} of at least 45 degrees"),
            ("spacing of images", f"{route.spacing:.2f} m"),
        ]
        if route.images_on_the_spot:
            found.append(("turning on the spot", f"{route.images_on_the_spot:,} images of a run"))
        return found

    def _layout_rows(self) -> list[tuple[str, str]]:
        """What the layout alone knows, of the parts that were drawn."""
        found = []
        if "houses" in self.facts:
            found.append(("houses", f"{self.facts['houses']:,.0f} in the whole town"))
        if "rooms" in self.facts:
            beside = {"wing": "wing_rooms", "region-b": "region_b_rooms"}
            more = [f"{self.facts[fact]:.0f} more in {part}" for part, fact in beside.items() if part in self.images]
            found.append(("rooms", ", ".join([f"{self.facts['rooms']:.0f} without corridors", *more])))
            found.append(("free floor", f"{self.facts['free_floor']:,.0f} m²"))
        if "leaving" in self.images and "leaving_off_map_m" in self.facts:
            found.append(("leaving the map", f"{self.facts['leaving_off_map_m']:,.0f} m of that route lie off it"))
        alike: dict[str, list[int]] = {}
        for group, count in self.look_alikes.items():
            alike.setdefault(group.rpartition("-")[0] or group, []).append(count)
        if alike:
            kinds = [f"{sum(counts):,} {what}s of {_kinds(len(counts))}" for what, counts in alike.items()]
            share = f", {self.facts['pool_share']:.1%} of the houses" if "pool_share" in self.facts else ""
            found.append(("alike on purpose", ", ".join(kinds) + share))
        return found

    def _bound_rows(self) -> list[tuple[str, str]]:
        if not self.bound:
            return []
        bound, near = self.bound, "of the test images have a landmark so near"
        return [
            ("landmarks", f"{bound.landmarks}, one within {bound.covering_radius:.2f} m of each training image"),
            (f"upper bound at {bound.positive_radius:g} m", f"{bound.within_positive_radius:.2%} {near}"),
            (f"upper bound at {bound.negative_radius:g} m", f"{bound.within_negative_radius:.2%} {near}"),
        ]


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _kinds(count: int) -> str:
    return "one kind" if count == 1 else f"{count} kinds"


def statistics(places: Places, preset: Preset, world: World, *, every: int = 1) -> Statistics:
    """The numbers of a simulated table; see the classes above.

    With only each `every`-th image of a run nothing is said of the route: spacing and turns need neighbouring images.
    """
    runs = [run for run in preset.runs if (places.sequence == run.name).any()]
    labels = list(dict.fromkeys(run.split or run.part for run in runs))
    sequences = {label: [run.name for run in runs if (run.split or run.part) == label] for label in labels}
    train, test = places.where(split="train"), places.where(split="test")
    xyz = np.column_stack([places.x, places.y, places.z])
    groups = [alias.group for alias in world.aliases]
    return Statistics(
        images={label: len(places.where(sequence=names)) for label, names in sequences.items()},
        runs={label: len(names) for label, names in sequences.items()},
        extent=(*np.ptp(xyz, axis=0).tolist(),),
        facts={name: float(value) for name, value in world.facts.items()},
        look_alikes={group: groups.count(group) for group in dict.fromkeys(groups)},
        route=_route(train.where(sequence=train.sequence[0]), preset) if len(train) and every == 1 else None,
        bound=_bound(train, test, preset) if len(train) and len(test) else None,
    )


def turns(x: Floats, y: Floats, yaw: Floats, window: float = 20.0) -> int:
    """How many times the heading changes by at least 45 degrees within `window` metres of a drive."""
    along = path_length(np.column_stack([x, y]))
    unrolled = np.unwrap(yaw)
    middle = np.arange(along[0] + window / 2, along[-1] - window / 2, 0.5)
    before, after = (np.interp(middle + shift, along, unrolled) for shift in (-window / 2, window / 2))
    found, way = 0, 0.0
    for change in after - before:
        if abs(change) < TURN / 2:
            way = 0.0  # straight again, so that what follows is another turn
        elif abs(change) >= TURN and np.sign(change) != way:
            found, way = found + 1, float(np.sign(change))
    return found


def driven_again(places: Places, near: float, gap: float) -> float:
    """Metres of one run along a line that it came along before: within `near`, either way, over `gap` metres ago."""
    moved, along = steps(places.positions), path_length(places.positions)
    found = find_neighbours(places, near)
    query = np.repeat(np.arange(len(places)), found.counts)
    before = along[query] - along[found.rows] >= gap
    parallel = np.abs(np.sin(places.yaw[query] - places.yaw[found.rows])) < np.sin(TURN)
    again = np.unique(query[before & parallel])
    return float(moved[again - 1].sum())


def _route(run: Places, preset: Preset) -> Route:
    moved = steps(run.positions)
    return Route(
        length=float(moved.sum()),
        driven_again=driven_again(run, 0.6 * preset.positive_radius, 5 * preset.positive_radius),
        spacing=float(np.median(moved[moved >= STILL])) if (moved >= STILL).any() else 0.0,
        turns=turns(run.x, run.y, run.yaw, window=2 * preset.positive_radius),
        images_on_the_spot=int(np.count_nonzero(moved < STILL)),
    )


def _bound(train: Places, test: Places, preset: Preset) -> Bound:
    chosen = farthest_points(train.positions, min(preset.landmarks, len(train)), seed=0)
    landmarks = KDTree(train.positions[chosen])
    nearest: Floats = landmarks.query(test.positions)[0]
    return Bound(
        landmarks=len(chosen),
        positive_radius=preset.positive_radius,
        negative_radius=preset.negative_radius,
        within_positive_radius=_share(nearest <= preset.positive_radius),
        within_negative_radius=_share(nearest <= preset.negative_radius),
        covering_radius=float(landmarks.query(train.positions)[0].max()),
    )


def _share(which: Any) -> float:
    return float(np.mean(which))
