"""What a map knows about whole drives: how its filter over places weighs images, and how sure the outcome is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.errors import BadInputError
from mappable.maps.between import Between, interpolate
from mappable.maps.conformal import conformal_quantile
from mappable.maps.odds import Odds
from mappable.maps.place_filter import BACK, Belief, Layout, PlaceFilter, Sight, tie_images
from mappable.maps.smoothing import lasting_jumps, smooth_path, step_along
from mappable.maps.steps import Steps
from mappable.maps.store import Store, check_search, squared_between

WHOLE, CHOICES = 512, 256  # landmarks up to which all are looked at for each image, and else the nearest by feature
SORTED, SAMPLE = 4096, 512  # landmarks up to which all show what is usual for an image, and else that many
AT_ONCE, TAKEN = 1024, 512  # images that are looked at together, and landmarks that are read together
LEAST = 0.01  # of the usual squared distance: least deviation of such
BLIND = 0.02  # probability that an image on the map shows nothing of its place
RESEMBLING = 30.0  # images before the resemblance of a landmark to all of a drive counts half; by scripts/real.py
UNLIKELY = 1e-3  # of the likeliest landmark's probability: less does not count
SPARSE = 0.25  # nats: steps that tell less of the next place, in the median, do not help
PARTED = 0.9  # of the growth of squared feature distances: images that differ more do not continue one path
ALIKE = 0.5  # radii of a place: images along such a way err alike, and count as one; as the others by scripts/real.py
DOUBTED = 5.0  # factor for the deviation of an image that is likely not on the map
AROUND = 10  # images before and after one that tell whether its drive is on the map
STEADIER = 0.85  # factor for deviations of distances along a drive, whose positions are smoothed


@dataclass(frozen=True)
class DriveModel:
    """What calibration found for the filter over places; metres stand for the unit of the map's frame."""

    images: int  # that it was fitted to
    steps: Steps
    radius: float  # metres within which a place is the same
    contrasts: tuple[float, ...]  # rising: of images that differ less and less from the landmarks of their place
    sharpness: tuple[float, ...]  # at these: log odds between two landmarks per deviation that one is nearer by feature
    presence: Odds  # of being on the map, by how many deviations the nearest landmark is nearer than usual
    seen_presence: Odds  # the same in conditions that calibration saw; `presence` allows for others
    clear_ratio: float  # of feature distances, first to second place, below which few images from elsewhere are
    sure: float  # probability of the place from which on an image is confident
    deviation: float  # of the distance to the landmark where the place is certain, in metres
    blend: float  # how much a position is the mean of its place, and not what the image alone says around its landmark
    covariance_factor: float  # covariance of a position = factor x that of its place + deviation² x identity
    covariance_deviation: float
    bend: float  # standard deviation of the change of velocity between images, in usual steps
    scores: tuple[float, ...]  # rising: errors of stated distances to the landmark, in their own deviations
    seen_scores: tuple[float, ...]  # the same in conditions that calibration saw; () if it saw the map's own visit only
    usual_contrast: float  # median contrast of a drive from which on it looks like these conditions

    def width(self, coverage: float, contrast: float) -> float:
        """Deviations within which a share `coverage` of errors lies; infinite if there are too few scores for that.

        `contrast` is the median of the images: it tells whether they look like those that calibration saw.
        """
        if not 0 < coverage < 1:
            raise BadInputError(f"coverage must be between 0 and 1, got {coverage}")
        seen = conformal_quantile(np.array(self.seen_scores), coverage) if self.seen_scores else 0.0
        if seen and contrast >= self.usual_contrast:
            return seen
        return max(seen, conformal_quantile(np.array(self.scores), coverage))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "DriveModel":
        """What `dataclasses.asdict` gave, with lists for tuples."""
        made: dict[str, Any] = {
            "steps": Steps(**{name: tuple(value) for name, value in values["steps"].items()}),
            **{name: Odds.from_json(values[name]) for name in ("presence", "seen_presence")},
            **{name: tuple(values[name]) for name in ("contrasts", "sharpness", "scores", "seen_scores")},
        }
        return cls(**{**values, **made})


@dataclass(frozen=True)
class Looks:
    """Images (n,) looked at: landmarks (n, c), nearest first, their squared distances, and what is usual for each."""

    rows: Ints
    squared: Floats
    usual: Floats  # median over all landmarks
    deviation: Floats  # of them, robust

    @property
    def contrast(self) -> Floats:
        """How many deviations the nearest landmark is nearer than usual (n,)."""
        return (self.usual - self.squared[:, 0]) / self.deviation


def look_at(store: Store, descriptors: Floats32) -> Looks:
    """Look at images (n, D): the landmarks that may be theirs, and what is usual for each.

    What is usual is known by all landmarks, or of more than `SORTED` by a sample.
    """
    queries = check_search(store, descriptors, 1, None)
    parts = [_look_at(store, queries[start : start + AT_ONCE]) for start in range(0, len(queries), AT_ONCE)]
    return Looks(*(np.concatenate([getattr(one, each.name) for one in parts]) for each in fields(Looks)))


def _look_at(store: Store, queries: Floats32) -> Looks:
    landmarks = len(store)
    count = landmarks if landmarks <= WHOLE else CHOICES
    among = evenly(landmarks, landmarks if landmarks <= SORTED else SAMPLE)
    some = [among[start : start + TAKEN] for start in range(0, len(among), TAKEN)]
    sampled = np.concatenate([squared_between(queries, store.take(rows)) for rows in some], axis=1)
    if landmarks <= SORTED:
        rows = np.argsort(sampled, axis=1, kind="stable")[:, :count]
        squared = np.take_along_axis(sampled, rows, 1)
    else:
        rows, squared = store.nearest(queries, count)
    usual = np.median(sampled, axis=1).astype(np.float64)
    deviation = 1.4826 * np.median(np.abs(sampled - usual[:, None]), axis=1)
    deviation = np.maximum(deviation, LEAST * np.maximum(usual, 1e-6))
    return Looks(rows, squared.astype(np.float64), usual, deviation)


def first_to_second(looks: Looks, positions: Floats, radius: float) -> Floats:
    """Ratio (n,) of two feature distances (not squared): to the nearest landmark, and to the next place's nearest.

    The next place is farther than `radius` from the nearest landmark. If no candidate is that far, the farthest
    candidate by feature takes its place.
    """
    away = np.linalg.norm(positions[looks.rows] - positions[looks.rows[:, :1]], axis=2) > radius
    images = np.arange(len(away))
    second = np.where(away.any(1), looks.squared[images, away.argmax(1)], looks.squared[:, -1])
    ratio: Floats = np.sqrt(looks.squared[:, 0] / np.maximum(second, 1e-9))
    return ratio


@dataclass(frozen=True)
class Links:
    """Ties between the images of a drive: each image's earlier one, and squared feature distances to it."""

    parents: Ints
    squared: Floats
    fresh: Floats  # (n,) how much an image shows that the one before did not: 0 nothing, 1 all


def link(descriptors: Floats32, steps: Steps) -> Links:
    """Tie each image (n, D) to one before it; the first is tied to none."""
    count = len(descriptors)
    before = np.full((count, BACK), np.inf)
    for back in range(1, min(BACK, count - 1) + 1):
        dots = np.einsum("nd,nd->n", descriptors[back:], descriptors[:-back], dtype=np.float32)
        lengths = np.einsum("nd,nd->n", descriptors, descriptors, dtype=np.float32)
        before[back:, back - 1] = np.maximum(lengths[back:] + lengths[:-back] - 2 * dots, 0.0)
    parents = tie_images(before, steps.plateau)
    squared = np.zeros(count)
    squared[1:] = before[np.arange(1, count), np.arange(1, count) - parents[1:] - 1]
    fresh = np.minimum(squared / steps.plateau, 1.0)
    fresh[0] = 1.0
    return Links(parents, squared, fresh)


def sights_of(looks: Looks, model: DriveModel, landmarks: int, fresh: Floats | None = None) -> list[Sight]:
    """What each image says alone. An image counts less that is not `fresh` (n,); without that, all count fully.

    With it, landmarks that all of the drive resembles are taken for farther than they seem, the more the longer it is.
    """
    squared, count = looks.squared, len(looks.rows)
    weight = np.ones(count) if fresh is None else fresh
    if fresh is not None:
        middle = squared[:, min(squared.shape[1] - 1, landmarks // 2), None]
        nearer = np.bincount(looks.rows.ravel(), (weight[:, None] * np.minimum(squared - middle, 0.0)).ravel())
        squared = squared - (nearer / (weight.sum() + RESEMBLING))[looks.rows]
    contrast = looks.contrast if fresh is None else np.full(count, np.quantile(looks.contrast, 0.35))
    sharpness = np.interp(contrast, model.contrasts, model.sharpness)
    logs = sharpness[:, None] * (looks.usual[:, None] - squared) / looks.deviation[:, None] * weight[:, None]
    likely = np.exp(logs - logs.max(1, keepdims=True))
    least = likely.min(1)
    likely *= landmarks / (likely.sum(1) + (landmarks - squared.shape[1]) * least)[:, None]
    odds = np.clip(weight * model.presence.log(looks.contrast[:, None]), -30, 30)
    here, away = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))
    likely = here[:, None] * ((1 - BLIND) * likely + BLIND)
    order = np.argsort(looks.rows, axis=1)
    rows, likely = np.take_along_axis(looks.rows, order, 1), np.take_along_axis(likely, order, 1)
    return [Sight(rows[n], likely[n], float(likely[n].min()), float(away[n])) for n in range(count)]


@dataclass(frozen=True)
class FoundPlaces:
    """Where images are by beliefs about them: arrays (n,), and of positions (n, k)."""

    likeliest: Ints  # landmark within the likeliest place
    landmark: Ints  # the same, or one that is given, from which distances are stated
    mass: Floats  # probability of that place
    away: Floats  # probability of not being on the map
    spread: Floats  # root of the mean squared distance of likely landmarks from that landmark, if on the map
    rival: Ints  # the likeliest landmark of another place; -1 where there is none
    rival_mass: Floats  # its probability
    position: Floats  # (n, k) mean over the place
    covariance: Floats  # (n, k, k) over the place


@dataclass(frozen=True)
class Followed:
    """Beliefs about the images of a drive, and the path that ties them; without one, each is known by itself."""

    beliefs: list[Belief]
    step: float | None = None  # the usual one, in metres
    breaks: Bools | None = None  # (n,) images before which the camera may have moved anywhere

    @property
    def together(self) -> bool:
        """Whether the drive helped."""
        return self.step is not None


def follow(model: DriveModel, layout: Layout, looks: Looks, descriptors: Floats32) -> Followed:
    """Beliefs about the images (n, D) of a drive, in order; where its steps do not help, about each by itself."""
    landmarks, links = len(layout.positions), link(descriptors, model.steps)
    if len(descriptors) > 1 and landmarks > 1:
        usual = model.steps.usual(links.squared[1:], layout.spacing / 4)
        places = PlaceFilter(layout, model.steps, usual)
        if np.median(places.information(links.squared[1:])) >= SPARSE:
            sights = sights_of(looks, model, landmarks, links.fresh)
            return Followed(places.smooth(sights, links.parents, links.squared), usual, _breaks(links, model.steps))
    return Followed(believe_alone(model, layout, looks))


def _breaks(links: Links, steps: Steps) -> Bools:
    """Images (n,) that no two images alike, one before and the other not, tie to those before.

    All are, if less than half are alike the image before: then the order of images is not that of a path.
    """
    count, limit = len(links.parents), steps.mean[1] + PARTED * (steps.plateau - steps.mean[1])
    alike = np.flatnonzero(links.squared[1:] < limit) + 1
    if 2 * np.count_nonzero(links.parents[alike] == alike - 1) < count - 1:
        return np.ones(count, dtype=bool)
    tied = np.bincount(links.parents[alike] + 1, minlength=count) - np.bincount(alike + 1, minlength=count + 1)[:count]
    breaks: Bools = np.cumsum(tied) == 0
    return breaks


def believe_alone(model: DriveModel, layout: Layout, looks: Looks) -> list[Belief]:
    """Beliefs about images, each by itself."""
    places = PlaceFilter(layout, model.steps)
    return [places.start(sight) for sight in sights_of(looks, model, len(layout.positions))]


def coordinates_of(
    model: DriveModel, between: Between, temperature: float, looks: Looks, places: FoundPlaces, drive: Followed
) -> Floats:
    """Coordinates (n, k): between what the image alone says around its landmark, and what the belief says.

    Those of a drive that helped are smoothed.
    """
    found = interpolate(between, places.likeliest, looks.rows, looks.squared, temperature)
    alone = between.positions[places.likeliest]
    blended = (1 - model.blend) * found.position + model.blend * places.position
    coordinates: Floats = np.where(found.supported[:, None], blended, alone)
    if drive.step is None or drive.breaks is None:
        return coordinates
    variance = np.trace(places.covariance, axis1=1, axis2=2) / coordinates.shape[1] + model.deviation**2
    step = max(drive.step, min(step_along(coordinates), between.spacing))
    variance *= max(1.0, ALIKE * model.radius / step)
    deviations = np.sqrt(variance) * np.where(places.away > 0.5, DOUBTED, 1.0)
    breaks = drive.breaks | lasting_jumps(coordinates, step, model.radius)
    return smooth_path(coordinates, deviations, model.bend * step, breaks)


def find_places(
    beliefs: Sequence[Belief], positions: Floats, radius: float, landmarks: Ints | None = None
) -> FoundPlaces:
    """The likeliest place of each image: most probability within `radius` of one landmark.

    Distances are stated from `landmarks` (n,), or from the likeliest landmark of each place.
    """
    given = [None] * len(beliefs) if landmarks is None else landmarks.tolist()
    found = [_place(belief, positions, radius, one) for belief, one in zip(beliefs, given, strict=True)]
    return FoundPlaces(*(np.array(values) for values in zip(*found, strict=True)))


def deviations_of(model: DriveModel, places: FoundPlaces, drive: Followed) -> Floats:
    """Deviations (n,) of stated distances to the landmark, in metres."""
    deviations: Floats = np.hypot(places.spread, (STEADIER if drive.together else 1.0) * model.deviation)
    return deviations


def alike_around(model: DriveModel, looks: Looks) -> Floats:
    """Log odds (n,) to be on the map: the median of those that the images around each one have by themselves.

    A filter may tie a drive through another town to a few landmarks that look alike. Its images still look less like
    the map than images of the map do.
    """
    odds = np.pad(
        model.seen_presence.log(looks.contrast[:, None]), AROUND, mode="reflect" if len(looks.rows) > AROUND else "edge"
    )
    medians: Floats = np.median(np.lib.stride_tricks.sliding_window_view(odds, 2 * AROUND + 1), axis=1)
    return medians


def mass_around(beliefs: Sequence[Belief], positions: Floats, coordinates: Floats, radius: float) -> Floats:
    """Probabilities (n,) that images are at landmarks within `radius` of their coordinates (n, k)."""
    away = [np.linalg.norm(positions[one.rows] - at, axis=1) for one, at in zip(beliefs, coordinates, strict=True)]
    return np.array([one.probability @ (far <= radius) for one, far in zip(beliefs, away, strict=True)])


def _place(belief: Belief, positions: Floats, radius: float, landmark: int | None) -> tuple[Any, ...]:
    likely = np.flatnonzero(belief.probability >= UNLIKELY * belief.probability.max())
    rows, chance = belief.rows[likely], belief.probability[likely]
    at = positions[rows]
    near: Bools = np.linalg.norm(at[:, None] - at, axis=2) <= radius
    masses = near @ chance
    here = near[int(masses.argmax())]
    best, other = int(np.where(here, chance, -1.0).argmax()), int(np.where(here, -1.0, chance).argmax())
    weight = np.where(here, chance, 0.0) / masses.max()
    mean = weight @ at
    covariance = (weight[:, None] * (at - mean)).T @ (at - mean)
    stated = rows[best] if landmark is None else landmark
    spread = np.sqrt(chance @ np.square(at - positions[stated]).sum(1) / chance.sum())
    rival = (-1, 0.0) if here.all() else (rows[other], chance[other])
    return rows[best], stated, masses.max(), belief.away, spread, *rival, mean, covariance
