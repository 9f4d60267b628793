"""What a simulated world asks of a method, in numbers that come from positions alone, before anything is trained."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.places.neighbours import neighbours
from mappable.places.routes import steps
from mappable.places.sampling import farthest_points
from mappable.places.table import Places
from mappable.places.worlds.presets import Preset
from mappable.places.worlds.scene import World

POSITIVES, NEGATIVES = 6, 5  # of a quadruplet, which has one more negative that is far from all others
TUPLES = 2_000  # drawn to estimate how many of them are dropped
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
    within_positive_radius: float
    within_negative_radius: float
    covering_radius: float


@dataclass(frozen=True)
class Training:
    """Shares of training images without and with too few positives, and of quadruplets that must be dropped."""

    without_positives: float
    with_few_positives: float
    quadruplets_dropped: float


@dataclass(frozen=True)
class Statistics:
    """Counts are by split, or by part where a run belongs to none; lengths are in metres, None without such images."""

    images: dict[str, int]
    runs: dict[str, int]
    extent: tuple[float, float, float]
    facts: dict[str, float]
    look_alikes: dict[str, int]
    route: Route | None
    bound: Bound | None
    test_with_positives: float | None
    training: Training | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Statistics":
        kinds = {"route": Route, "bound": Bound, "training": Training}
        return cls(**(fields | {name: fields[name] and kind(**fields[name]) for name, kind in kinds.items()}))

    def rows(self) -> list[tuple[str, str]]:
        """A line for each number: what it is, and how much."""
        found = [(label, f"{count:,} images of {self.runs[label]} runs") for label, count in self.images.items()]
        found.append(("extent", " x ".join(f"{side:,.1f}" for side in self.extent) + " m"))
        if self.route:
            route = self.route
            found.append(("route", f"{route.length:,.0f} m, of these {route.driven_again:,.0f} m for a second time"))
            found.append(("spacing", f"{route.spacing:.2f} m"))
            found.append(("turns", f"{route.turns} of at least 45 degrees"))
            found.append(("on the spot", f"{route.images_on_the_spot:,} images of a run"))
        found += [(f"layout: {name.replace('_', ' ')}", f"{value:,.6g}") for name, value in self.facts.items()]
        alike = sum(self.look_alikes.values())
        found.append(("look alike", f"{alike:,} surfaces or rooms of {len(self.look_alikes):,} kinds"))
        if self.bound:
            bound = self.bound
            found.append(
                ("landmarks", f"{bound.landmarks}; no training image is farther than {bound.covering_radius:.2f} m")
            )
            found.append(("upper bound, positive radius", f"{bound.within_positive_radius:.2%} of the test images"))
            found.append(("upper bound, negative radius", f"{bound.within_negative_radius:.2%} of the test images"))
        if self.test_with_positives is not None:
            found.append(("with positives in training", f"{self.test_with_positives:.2%} of the test images"))
        if self.training:
            training = self.training
            found.append(("without positives", f"{training.without_positives:.2%} of the training images"))
            found.append((f"fewer than {POSITIVES} positives", f"{training.with_few_positives:.2%} of them"))
            found.append(("quadruplets dropped", f"{training.quadruplets_dropped:.2%}"))
        return found


def statistics(places: Places, preset: Preset, world: World) -> Statistics:
    """The numbers of a simulated table; see the classes above."""
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
        route=_route(train.where(sequence=train.sequence[0]), preset) if len(train) else None,
        bound=_bound(train, test, preset) if len(train) and len(test) else None,
        test_with_positives=_share(_positives(train, preset, of=test) > 0) if len(train) and len(test) else None,
        training=_training(train, preset) if len(train) else None,
    )


def turns(x: Floats, y: Floats, yaw: Floats, window: float = 20.0) -> int:
    """How many times the heading changes by at least 45 degrees within `window` metres of a drive."""
    along = np.append(0.0, np.cumsum(steps(np.column_stack([x, y]))))
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
    moved = steps(places.positions)
    along = np.append(0.0, np.cumsum(moved))
    found = neighbours(places, near)
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


def _positives(places: Places, preset: Preset, of: Places | None = None) -> Ints:
    """How many positives each place has, or each of `of` has among the places."""
    return neighbours(places, preset.positive_radius, of=of, max_yaw=preset.yaw_limit).counts


def _bound(train: Places, test: Places, preset: Preset) -> Bound:
    chosen = farthest_points(train.positions, min(preset.landmarks, len(train)), seed=0)
    landmarks = KDTree(train.positions[chosen])
    nearest: Floats = landmarks.query(test.positions)[0]
    return Bound(
        landmarks=len(chosen),
        within_positive_radius=_share(nearest <= preset.positive_radius),
        within_negative_radius=_share(nearest <= preset.negative_radius),
        covering_radius=float(landmarks.query(train.positions)[0].max()),
    )


def _training(train: Places, preset: Preset) -> Training:
    positives = _positives(train, preset)
    return Training(
        without_positives=_share(positives == 0),
        with_few_positives=_share(positives < POSITIVES),
        quadruplets_dropped=quadruplets_dropped(train.positions, preset.negative_radius),
    )


def quadruplets_dropped(positions: Floats, radius: float, tuples: int = TUPLES, seed: int = 0) -> float:
    """Share of quadruplets for which no position lies `radius` or more from the anchor and from all its negatives.

    Anchors and negatives are random, the negatives at least `radius` from their anchor; an anchor with fewer than five
    of them is dropped as well.
    """
    generator, dropped = np.random.default_rng(seed), 0
    for anchor in generator.integers(len(positions), size=tuples):
        far = np.flatnonzero(_apart(positions, positions[anchor]) >= radius)
        if len(far) < NEGATIVES:
            dropped += 1
            continue
        left = positions[far]
        for negative in generator.choice(far, NEGATIVES, replace=False):
            left = left[_apart(left, positions[negative]) >= radius]
        dropped += len(left) == 0
    return dropped / tuples


def _apart(positions: Floats, point: Floats) -> Floats:
    apart: Floats = np.linalg.norm(positions - point, axis=1)
    return apart


def _share(which: Any) -> float:
    return float(np.mean(which))
