"""The model of drives: how the filter over places weighs images, and how sure its result is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints, path_length
from mappable.errors import BadInputError
from mappable.maps.between import Between, interpolate
from mappable.maps.conformal import conformal_quantile
from mappable.maps.found_places import FoundPlaces
from mappable.maps.looks import Looks, resemblance
from mappable.maps.odds import Odds
from mappable.maps.place_filter import BACK, Belief, Layout, PlaceFilter, Sight, tie_images
from mappable.maps.smoothing import lasting_jumps, smooth_path, step_along
from mappable.maps.steps import Steps

# One image favors a place over another by at most this, in nats, because a look-alike place may fit better. Chosen by
# `studies/live run --choose` in the rooms.
LARGEST_EVIDENCE = 4.0
BLIND = 0.02  # probability that an image on the map shows nothing of its place
# A landmark that resembles all images of a drive counts less. This many images give that effect half its weight.
RESEMBLANCE_IMAGES = 30.0  # chosen by studies/drives
DRIVE_CONTRAST = 0.35  # quantile of the contrasts of a drive that sets the sharpness of all its images
LEAST_INFORMATION = 0.25  # nats: the order of images is used if its steps tell at least this about the next place
BREAK_GROWTH = 0.9  # images beyond this share of the growth of squared feature distances do not continue a path
# Images within this distance along a drive have similar errors and count as one; in radii of a place.
SIMILAR_ERRORS = 0.5  # chosen by studies/drives, as the other tuned constants here
DOUBT_FACTOR = 5.0  # factor for the standard deviation of an image that is probably off the map
IMAGES_AROUND = 10  # number of images before and after an image that show whether its drive is on the map
FARTHEST_CONTRAST = 3.0  # contrasts farther from the usual one count as this far
SMOOTHED_FACTOR = 0.85  # factor for deviations along a drive, because smoothing reduces errors


@dataclass(frozen=True)
class LiveErrors:
    """Errors of positions while a camera is tracked: of each image alone, and of many carried together by odometry."""

    factor: float  # covariance of an image's position = factor x covariance of its place + variance x identity
    deviation: float  # this variance is the square of the deviation in metres, at the usual contrast
    slope: float  # the variance grows by exp(slope) per unit of contrast below the usual one
    contrast: float  # usual contrast of the images
    share: float  # correlation of the errors of two images that are near each other
    reach: float  # metres over which this correlation fades
    carried: float  # factor for covariances of positions that odometry carried

    def covariances(self, spread: Floats, contrast: Floats) -> Floats:
        """Covariances (n, k, k) of positions, by the covariance (n, k, k) of the place and the contrast (n,)."""
        below = np.clip(self.contrast - contrast, -FARTHEST_CONTRAST, FARTHEST_CONTRAST)
        variance = self.deviation**2 * np.exp(self.slope * below)
        covariances: Floats = self.factor * spread + variance[:, None, None] * np.eye(spread.shape[1])
        return covariances


@dataclass(frozen=True)
class DriveModel:
    """What calibration measured for the filter over places; metres mean the unit of the map's frame."""

    images: int  # number of images that it was fitted to
    steps: Steps
    radius: float  # radius of a place, in metres
    contrasts: tuple[float, ...]  # rising contrasts at which the sharpness was fitted; see `Looks.contrast`
    sharpness: tuple[float, ...]  # at these: log odds between two landmarks, per deviation of feature distance
    presence: Odds  # odds of being on the map, by contrast; allows for conditions that calibration did not see
    seen_presence: Odds  # the same in conditions that calibration saw
    clear_ratio: float  # few images from elsewhere have a ratio of feature distances, first to second place, below this
    sure: float  # an image is confident if its place has at least this probability
    deviation: float  # standard deviation of the distance to the landmark if the place is certain, in metres
    blend: float  # position = blend x mean of the place + (1 - blend) x position from the image alone
    covariance_factor: float  # covariance of a position = factor x covariance of its place + deviation² x identity
    covariance_deviation: float  # the deviation in this formula, in metres
    bend: float  # standard deviation of the change of velocity between images, in usual steps
    scores: tuple[float, ...]  # rising errors of stated distances to the landmark, in standard deviations
    seen_scores: tuple[float, ...]  # the same in conditions that calibration saw; () if it saw only the map's own visit
    usual_contrast: float  # a drive with at least this median contrast looks like these conditions
    live: LiveErrors | None = None  # None: calibration saw no other visit

    def width(self, coverage: float, contrast: float) -> float:
        """Half the width of an interval, in standard deviations; infinite if there are too few scores.

        A share `coverage` of errors lies within it. `contrast` is the median contrast of the images. It shows whether
        they look like the images of calibration.
        """
        if not 0 < coverage < 1:
            raise BadInputError(f"coverage must be between 0 and 1, got {coverage}")
        seen = conformal_quantile(np.array(self.seen_scores), coverage) if self.seen_scores else 0.0
        if seen and contrast >= self.usual_contrast:
            return seen
        return max(seen, conformal_quantile(np.array(self.scores), coverage))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "DriveModel":
        """Read what `dataclasses.asdict` returned, with lists in place of tuples."""
        made: dict[str, Any] = {
            "steps": Steps(**{name: tuple(value) for name, value in values["steps"].items()}),
            **{name: Odds.from_json(values[name]) for name in ("presence", "seen_presence")},
            **{name: tuple(values[name]) for name in ("contrasts", "sharpness", "scores", "seen_scores")},
            "live": LiveErrors(**values["live"]) if isinstance(values.get("live"), Mapping) else None,
        }
        return cls(**{name: value for name, value in {**values, **made}.items() if name != "carried"})  # of early maps

    @property
    def live_errors(self) -> LiveErrors:
        """Errors of a tracked camera; those of a drive as a whole, if calibration did not measure them."""
        plain = self.covariance_factor, self.covariance_deviation
        return self.live or LiveErrors(*plain, slope=0.0, contrast=0.0, share=0.5, reach=self.radius, carried=1.0)


@dataclass(frozen=True)
class Links:
    """Ties between the images (n,) of a drive: each image is tied to an earlier one, its parent."""

    parents: Ints  # (n,) number of the parent
    squared: Floats  # (n,) squared feature distance to the parent
    fresh: Floats  # (n,) share of an image that its parent did not show: 0 nothing new, 1 all new


def link(descriptors: Floats32, steps: Steps) -> Links:
    """Tie each image (n, D) to an earlier one; the first image is tied to none."""
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


def sights_of(
    looks: Looks,
    model: DriveModel,
    landmarks: int,
    *,
    fresh: Floats | None = None,
    nearer: Floats | None = None,
    contrast: float | None = None,
) -> list[Sight]:
    """What each image says alone. `fresh` (n,) are weights: an image counts less if it shows little that is new.

    `nearer` (m,) is by how much each landmark is nearer to the whole drive than usual (see `resemblance`), and
    `contrast` is that of the drive. Without them, each image is judged by itself.
    """
    squared, count = looks.squared, len(looks.rows)
    weight = np.ones(count) if fresh is None else fresh
    if nearer is not None:
        squared = squared - nearer[looks.rows]
    contrasts = looks.contrast if contrast is None else np.full(count, contrast)
    sharpness = np.interp(contrasts, model.contrasts, model.sharpness)
    logs = sharpness[:, None] * (looks.usual[:, None] - squared) / looks.deviation[:, None] * weight[:, None]
    likely = np.exp(np.maximum(logs - logs.max(1, keepdims=True), -LARGEST_EVIDENCE))
    least = likely.min(1)
    likely *= landmarks / (likely.sum(1) + (landmarks - squared.shape[1]) * least)[:, None]
    odds = np.clip(weight * model.presence.log(looks.contrast[:, None]), -30, 30)
    here, away = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))
    likely = here[:, None] * ((1 - BLIND) * likely + BLIND)
    order = np.argsort(looks.rows, axis=1)
    rows, likely = np.take_along_axis(looks.rows, order, 1), np.take_along_axis(likely, order, 1)
    return [Sight(rows[n], likely[n], float(likely[n].min()), float(away[n])) for n in range(count)]


@dataclass(frozen=True)
class Followed:
    """Beliefs about the images of a drive, and facts about its path; without a path, each image stands alone."""

    beliefs: list[Belief]
    step: float | None = None  # usual step of the drive in metres; None: the order of images did not help
    breaks: Bools | None = None  # (n,) images before which the camera may have moved anywhere

    @property
    def together(self) -> bool:
        """Whether the order of the images helped."""
        return self.step is not None


def follow(model: DriveModel, layout: Layout, looks: Looks, descriptors: Floats32) -> Followed:
    """Beliefs about the images (n, D) of a drive, in order; if its steps do not help, about each image alone."""
    landmarks, links = len(layout.positions), link(descriptors, model.steps)
    if len(descriptors) > 1 and landmarks > 1:
        usual = model.steps.usual(links.squared[1:], layout.spacing / 4)
        places = PlaceFilter(layout, model.steps, usual)
        breaks = _breaks(links, model.steps)
        if not breaks.all() and np.median(places.information(links.squared[1:])) >= LEAST_INFORMATION:
            nearer = resemblance(looks, links.fresh, landmarks) / (links.fresh.sum() + RESEMBLANCE_IMAGES)
            contrast = float(np.quantile(looks.contrast, DRIVE_CONTRAST))
            sights = sights_of(looks, model, landmarks, fresh=links.fresh, nearer=nearer, contrast=contrast)
            return Followed(places.smooth(sights, links.parents, links.squared), usual, breaks)
    return Followed(believe_alone(model, layout, looks))


def _breaks(links: Links, steps: Steps) -> Bools:
    """Images (n,) at which the path breaks: no image from there on resembles its parent among the images before.

    If fewer than half of the images resemble the one before, every image is a break. The images then follow no path.
    """
    count, limit = len(links.parents), steps.growth(BREAK_GROWTH)
    alike = np.flatnonzero(links.squared[1:] < limit) + 1
    if 2 * np.count_nonzero(links.parents[alike] == alike - 1) < count - 1:
        return np.ones(count, dtype=bool)
    tied = np.bincount(links.parents[alike] + 1, minlength=count) - np.bincount(alike + 1, minlength=count + 1)[:count]
    breaks: Bools = np.cumsum(tied) == 0
    return breaks


def believe_alone(model: DriveModel, layout: Layout, looks: Looks) -> list[Belief]:
    """Beliefs about images, each one alone."""
    places = PlaceFilter(layout, model.steps)
    return [places.start(sight) for sight in sights_of(looks, model, len(layout.positions))]


def coordinates_of(
    model: DriveModel, between: Between, temperature: float, looks: Looks, places: FoundPlaces, drive: Followed
) -> Floats:
    """Coordinates (n, k): a blend of the position from the image alone, and of the mean position by the belief.

    If the order of the images helped, the coordinates are smoothed along the drive.
    """
    coordinates = blended(model, between, temperature, looks, places)
    if drive.step is None or drive.breaks is None:
        return coordinates
    variance = np.trace(places.covariance, axis1=1, axis2=2) / coordinates.shape[1] + model.deviation**2
    step = max(drive.step, min(step_along(coordinates), between.spacing))
    variance *= max(1.0, SIMILAR_ERRORS * model.radius / step)
    deviations = np.sqrt(variance) * np.where(places.away > 0.5, DOUBT_FACTOR, 1.0)
    breaks = drive.breaks | lasting_jumps(coordinates, step, model.radius)
    return smooth_path(coordinates, deviations, model.bend * step, breaks)


def blended(model: DriveModel, between: Between, temperature: float, looks: Looks, places: FoundPlaces) -> Floats:
    """Coordinates (n, k), each from its image and its belief alone."""
    found = interpolate(between, places.likeliest, looks.rows, looks.squared, temperature)
    both = (1 - model.blend) * found.position + model.blend * places.position
    coordinates: Floats = np.where(found.supported[:, None], both, between.positions[places.likeliest])
    return coordinates


def deviations_of(model: DriveModel, places: FoundPlaces, drive: Followed) -> Floats:
    """Standard deviations (n,) of stated distances to the landmark, in metres."""
    deviations: Floats = np.hypot(places.spread, (SMOOTHED_FACTOR if drive.together else 1.0) * model.deviation)
    return deviations


def alike_around(model: DriveModel, looks: Looks) -> Floats:
    """Log odds (n,) of being on the map: the median over the images around each image, each judged alone.

    The filter may place a drive through another town at a few landmarks that look similar. The images of that drive
    still look less like the map than images of the map do.
    """
    odds = np.pad(
        model.seen_presence.log(looks.contrast[:, None]),
        IMAGES_AROUND,
        mode="reflect" if len(looks.rows) > IMAGES_AROUND else "edge",
    )
    medians: Floats = np.median(np.lib.stride_tricks.sliding_window_view(odds, 2 * IMAGES_AROUND + 1), axis=1)
    return medians


def moved_around(model: DriveModel, drive: Followed, coordinates: Floats) -> Floats:
    """How far the camera moved around each image (n,), as a share of what feature distances between the images tell.

    A drive that is not on the map may be tied to one landmark that all of it resembles. Then positions stand still,
    although the images differ. The share is 1 if the way would be shorter than the radius of a place.
    """
    if drive.step is None:
        return np.ones(len(coordinates))
    along = path_length(coordinates)
    first = np.maximum(np.arange(len(along)) - IMAGES_AROUND, 0)
    last = np.minimum(np.arange(len(along)) + IMAGES_AROUND, len(along) - 1)
    expected = (last - first) * drive.step
    share: Floats = np.where(expected > model.radius, (along[last] - along[first]) / np.maximum(expected, 1e-12), 1.0)
    return share
