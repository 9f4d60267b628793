"""Track a camera: the filter over places, image by image, with odometry if there is any."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.maps.between import Between
from mappable.maps.drive_model import (
    DOUBT_FACTOR,
    DRIVE_CONTRAST,
    IMAGES_AROUND,
    RESEMBLANCE_IMAGES,
    DriveModel,
    blended,
    sights_of,
)
from mappable.maps.found_places import FoundPlaces, find_places, mass_around
from mappable.maps.fusion import fuse
from mappable.maps.headings import headings_at, mean_angle
from mappable.maps.looks import Looks, look_among, look_at, resemblance
from mappable.maps.place_filter import BACK, Belief, Layout, Motion, PlaceFilter, Sight, tie_images
from mappable.maps.smoothing import JUMP_RADII, JUMP_STEPS
from mappable.maps.steps import STEP_CHOICES
from mappable.maps.store import Store

# The constants here were tuned by hand on calibration drives of both worlds; no script repeats the choice. Results on
# test drives were seen in between, so figures on these worlds are not blind. studies/live measures the result.
TRAIL = 24  # number of images whose positions are smoothed together
SET_STEP, EVERY = 60, 10  # images whose feature distances set the usual step, and images between two estimates
FEWEST_STEPS = 4  # smallest number of images that set the usual step
MEMORY = 300.0  # weight of images that count for the resemblance of landmarks; older images fade
# A position is trusted if its place had at least this probability in this many images,
LIVE_SURE, CERTAIN = 0.6, 3
ALIKE = -0.4  # if the last images look like the map: least median of their log odds,
MOVED, TOO_FAR = 0.3, 3.0  # if positions moved by this share of the way that images or odometry tell,
MOST_JUMPS = 0  # and if they jumped at most this often among the last images
ODOMETRY_ERROR = 0.05  # usual error of odometry, as a share of the way
# A map with more landmarks is searched around the likeliest landmarks, if these have this probability together.
SEARCH_WHOLE, LOCAL_PLACES, LOCAL_MASS = 2048, 16, 0.95
LOCAL_SAMPLE = 256  # landmarks that show which feature distance is usual, in such a search
STRAY = 0.5  # an image lies about this far from the place that it looks like, in radii of a place

Pose = tuple[float, float, float]  # x, y and heading


@dataclass(frozen=True)
class Seen:
    """What the tracker remembers of an image."""

    descriptor: Floats32
    belief: Belief
    pose: Pose  # by odometry alone, from any start
    variance: float  # of its position by odometry, added up since the start


@dataclass(frozen=True)
class Trace:
    """The position of an image by itself, for smoothing."""

    position: Floats  # (k,)
    covariance: Floats  # (k, k)
    heading: float  # NaN if not known
    pose: Pose
    drift: float  # variance of the position by odometry

    @property
    def numbers(self) -> list[float]:
        """All of it, in order."""
        return [*self.position.tolist(), *self.covariance.ravel().tolist(), self.heading, *self.pose, self.drift]


@dataclass(frozen=True)
class Tracked:
    """Where the camera is after an image."""

    belief: Belief
    found: FoundPlaces
    position: Floats  # (k,)
    covariance: Floats  # (k, k) of the position, if the place is right
    heading: float  # NaN if not known
    contrast: float  # of the last images
    doubt: str  # why not to trust the position; empty if nothing speaks against it


class Tracker:
    """Follows one camera by descriptors; its memory does not grow."""

    def __init__(
        self,
        store: Store,
        layout: Layout,
        between: Between,
        model: DriveModel,
        temperature: float,
        yaw: Floats | None = None,
    ) -> None:
        self.store, self.layout, self.between, self.model = store, layout, between, model
        self.temperature, self.yaw, self.count = temperature, yaw, len(layout.positions)
        shortest = layout.spacing / 4
        self._steps = np.geomspace(shortest, max(model.steps.reach(0.98), 2 * shortest), STEP_CHOICES)
        self._filter = lru_cache(STEP_CHOICES)(self._filter_of)
        self.reset()

    def reset(self) -> None:
        """Forget all images: the camera may be anywhere."""
        self.seen: deque[Seen] = deque(maxlen=BACK)
        self.trail: deque[Trace] = deque(maxlen=TRAIL)
        self.path: deque[Floats] = deque(maxlen=2 * IMAGES_AROUND)  # smoothed positions
        self.starts: deque[bool] = deque(maxlen=2 * IMAGES_AROUND)  # whether the position jumped there
        self.masses: deque[float] = deque(maxlen=CERTAIN)  # probabilities of the last places
        self.contrasts: deque[float] = deque(maxlen=SET_STEP)
        self.squared: deque[float] = deque(maxlen=SET_STEP)
        self.nearer, self.weight = np.zeros(self.count), 0.0
        self.usual: float | None = None
        self.images = 0
        self.unbroken = 0  # number of images since one that resembled none before

    def update(
        self,
        descriptor: Floats32,
        moved: Motion | None = None,
        *,
        apart: bool = False,
        check: Callable[[Belief], Belief] | None = None,
    ) -> Tracked:
        """Take the next image (D,). `moved` is the motion since the image before; `apart` says that it is unknown.

        `check` changes the belief by what else is known of the image.
        """
        looks = self._look(descriptor)
        squared, parent = (0.0, None) if apart or not self.seen else self._tie(descriptor)
        pose, variance = self._carried(moved)
        sight = self._sight(looks, squared, parent is None)
        broken = True
        if parent is None:
            belief = self._filter(None).start(sight)
            self.trail.clear()
            self.path.clear()
        else:
            motion = None if moved is None else self._since(parent, pose, variance, squared)
            places = self._filter(self.usual)
            belief, broken = places.update(parent.belief, sight, squared, motion), places.breaks(squared)
        belief = belief if check is None else check(belief)
        self.seen.append(Seen(descriptor, belief, pose, variance))
        self.images += 1
        if broken:
            self.unbroken = 0
            self.starts.clear()
            self.masses.clear()
        self.unbroken += 1
        return self._tracked(looks, belief, moved is not None)

    def memory(self) -> dict[str, NDArray[Any]]:
        """Everything that the tracker remembers, as arrays by name; `restore` takes them back."""
        seen, trail = list(self.seen), list(self.trail)
        k, numbers = self.layout.positions.shape[1], self.store.dimensions
        return {
            "descriptors": np.array([one.descriptor for one in seen], dtype=np.float32).reshape(-1, numbers),
            "rows": np.concatenate([np.empty(0, np.int64), *(one.belief.rows for one in seen)]),
            "probability": np.concatenate([np.empty(0), *(one.belief.probability for one in seen)]),
            "beliefs": np.array([(len(one.belief.rows), one.belief.away) for one in seen]).reshape(-1, 2),
            "poses": np.array([(*one.pose, one.variance) for one in seen]).reshape(-1, 4),
            "trail": np.array([one.numbers for one in trail]).reshape(-1, k + k * k + 5),
            "path": np.array(self.path).reshape(-1, k),
            "starts": np.array(self.starts, dtype=bool),
            "masses": np.array(self.masses),
            "contrasts": np.array(self.contrasts),
            "squared": np.array(self.squared),
            "nearer": self.nearer,
            "numbers": np.array(
                [self.weight, np.nan if self.usual is None else self.usual, self.images, self.unbroken]
            ),
        }

    def restore(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `memory` returned. Raises KeyError, ValueError or IndexError for anything else."""
        self.reset()
        k, start = self.layout.positions.shape[1], 0
        if memory["nearer"].shape != (self.count,) or memory["descriptors"].shape[1] != self.store.dimensions:
            raise ValueError("its landmarks or descriptors are not those of the map")
        for (count, away), pose, descriptor in zip(
            memory["beliefs"].tolist(), memory["poses"].tolist(), memory["descriptors"], strict=True
        ):
            some = slice(start, start := start + int(count))
            belief = Belief(memory["rows"][some], memory["probability"][some], away)
            self.seen.append(Seen(descriptor, belief, (pose[0], pose[1], pose[2]), pose[3]))
        for one in memory["trail"]:
            heading, x, y, turn, drift = one[k + k * k :].tolist()
            covariance = one[k : k + k * k].reshape(k, k)
            self.trail.append(Trace(one[:k], covariance, heading, (x, y, turn), drift))
        self.path.extend(memory["path"])
        self.starts.extend(memory["starts"].tolist())
        self.masses.extend(memory["masses"].tolist())
        self.contrasts.extend(memory["contrasts"].tolist())
        self.squared.extend(memory["squared"].tolist())
        self.nearer = memory["nearer"].copy()
        self.weight, usual, images, unbroken = memory["numbers"].tolist()
        self.usual, self.images, self.unbroken = None if np.isnan(usual) else usual, int(images), int(unbroken)

    def _look(self, descriptor: Floats32) -> Looks:
        """Search the landmarks: where the camera is believed to be, and everywhere if it does not look like that."""
        rows = self._believed()
        if rows is not None:
            looks = look_among(self.store, descriptor, rows, self._sample)
            if float(self.model.seen_presence.log(looks.contrast[:, None])[0]) >= 0:
                return looks
        return look_at(self.store, descriptor[None])

    @cached_property
    def _sample(self) -> Floats32:
        return self.store.take(evenly(self.count, LOCAL_SAMPLE))

    def _believed(self) -> Ints | None:
        """Landmarks around the believed places of the last image; None if the map is small, or the belief is wide."""
        if self.count <= SEARCH_WHOLE or not self.seen:
            return None
        belief = self.seen[-1].belief
        order = np.argsort(-belief.probability)[:LOCAL_PLACES]
        if belief.probability[order].sum() < LOCAL_MASS:
            return None
        return np.unique(np.concatenate([self.layout.near(row) for row in belief.rows[order].tolist()]))

    def _filter_of(self, usual: float | None) -> PlaceFilter:
        return PlaceFilter(self.layout, self.model.steps, usual)

    def _tie(self, descriptor: Floats32) -> tuple[float, Seen]:
        """The squared feature distance to the image that this one is tied to, and that image."""
        before = np.full((1, BACK), np.inf)
        for back in range(len(self.seen)):
            off = descriptor - self.seen[-1 - back].descriptor
            before[0, back] = float(off @ off)
        back = -int(tie_images(before, self.model.steps.plateau)[0])
        return float(before[0, back - 1]), self.seen[-back]

    def _carried(self, moved: Motion | None) -> tuple[Pose, float]:
        """The pose by odometry, and its variance."""
        (x, y, turn), variance = (self.seen[-1].pose, self.seen[-1].variance) if self.seen else ((0.0, 0.0, 0.0), 0.0)
        if moved is None:
            return (x, y, turn), variance + self.layout.spacing**2
        cos, sin = np.cos(turn), np.sin(turn)
        x, y = x + cos * moved.forward - sin * moved.left, y + sin * moved.forward + cos * moved.left
        return (float(x), float(y), turn + moved.turn), variance + moved.variance

    def _since(self, parent: Seen, pose: Pose, variance: float, squared: float) -> Motion:
        """The motion since the parent. Its variance allows for images that look like places ahead or behind."""
        x, y = pose[0] - parent.pose[0], pose[1] - parent.pose[1]
        cos, sin = np.cos(parent.pose[2]), np.sin(parent.pose[2])
        change = max(squared / self.model.steps.plateau, float(np.hypot(x, y)) / self.model.radius)
        stray = (STRAY * self.model.radius) ** 2 * min(1.0, change)
        return Motion(
            float(cos * x + sin * y),
            float(cos * y - sin * x),
            pose[2] - parent.pose[2],
            variance - parent.variance + stray,
        )

    def _sight(self, looks: Looks, squared: float, first: bool) -> Sight:
        model = self.model
        fresh = 1.0 if first else min(squared / model.steps.plateau, 1.0)
        self.contrasts.append(float(looks.contrast[0]))
        keep = min(1.0, MEMORY / (self.weight + fresh))
        self.nearer = keep * (self.nearer + resemblance(looks, np.array([fresh]), self.count))
        self.weight = keep * (self.weight + fresh)
        if not first:
            self.squared.append(squared)
            if self.images % EVERY == 0 or len(self.squared) < EVERY:
                self._set_step()
        return sights_of(
            looks,
            model,
            self.count,
            fresh=np.array([fresh]),
            nearer=self.nearer / (self.weight + RESEMBLANCE_IMAGES),
            contrast=float(np.quantile(self.contrasts, DRIVE_CONTRAST)),
        )[0]

    def _set_step(self) -> None:
        if len(self.squared) >= FEWEST_STEPS:
            usual = self.model.steps.usual(np.array(self.squared), self.layout.spacing / 4)
            self.usual = float(self._steps[int(np.abs(np.log(self._steps / usual)).argmin())])

    def _tracked(self, looks: Looks, belief: Belief, carried: bool) -> Tracked:
        model, at = self.model, self.layout.positions
        found = find_places([belief], at, model.radius)
        own = blended(model, self.between, self.temperature, looks, found)[0]
        heading = np.nan
        if self.yaw is not None:
            given = {"radius": model.radius, "temperature": self.temperature}
            heading = float(headings_at(self.yaw, at, looks.rows, looks.squared, own[None], **given)[0])
        contrast = float(np.median(list(self.contrasts)[-IMAGES_AROUND:]))
        covariance = model.live_errors.covariances(found.covariance, np.array([contrast]))[0]
        covariance = covariance * (DOUBT_FACTOR**2 if found.away[0] > 0.5 else 1.0)
        last = self.seen[-1]
        step = self.usual or self.layout.spacing
        self.trail.append(Trace(own, covariance, heading, last.pose, last.variance))
        position, covariance, heading, since = self._smoothed(step, carried)
        self.starts.append(since == 1 and self._certain)
        self.path.append(position)
        self.masses.append(float(mass_around([belief], at, position[None], model.radius)[0]))
        return Tracked(
            belief=belief,
            found=found,
            position=position,
            covariance=covariance,
            heading=heading,
            contrast=contrast,
            doubt=self._doubt(float(found.away[0]), self._moved(step, carried, since)),
        )

    @property
    def _certain(self) -> bool:
        """Whether the place was certain for the last images, since the path last broke."""
        return len(self.masses) == CERTAIN and min(self.masses) >= LIVE_SURE

    def _doubt(self, away: float, moved: float) -> str:
        """Why not to trust the last position, which `moved` this share of what images or odometry tell."""
        if away >= 0.5:
            return f"off the map with probability {away:.2f}"
        lately = np.array(self.contrasts)[-min(self.unbroken, 2 * IMAGES_AROUND) :, None]
        if np.median(self.model.seen_presence.log(lately)) < ALIKE:
            return "the last images look unlike the map"
        if self.masses[-1] < LIVE_SURE:
            return f"the place has probability {self.masses[-1]:.2f}, expected at least {LIVE_SURE:.2f}"
        if not self._certain:
            return f"the place has been certain for fewer than {CERTAIN} images"
        if sum(self.starts) > MOST_JUMPS:
            return f"the position jumped {sum(self.starts)} times lately"
        if not MOVED <= moved <= TOO_FAR:
            return f"the position moved {moved:.1f} times as far as the images tell"
        return ""

    def _smoothed(self, step: float, carried: bool) -> tuple[Floats, Floats, float, int]:
        """The last position, its covariance, the last heading, and the number of images since a jump.

        Odometry carries earlier positions to the last image. Without it, its own position is as good as a smoothed one.
        """
        measured = np.array([one.position for one in self.trail])
        far = np.linalg.norm(np.diff(measured, axis=0), axis=1) > JUMP_STEPS * step + JUMP_RADII * self.model.radius
        start = int(np.flatnonzero(far)[-1]) + 1 if far.any() else 0
        measured, trail = measured[start:], list(self.trail)[start:]
        last = trail[-1]
        if len(trail) < 3 or not carried:
            return last.position, last.covariance, last.heading, len(trail)
        poses, covariances = (np.array([getattr(one, name) for one in trail]) for name in ("pose", "covariance"))
        drift, heading = last.drift - np.array([one.drift for one in trail]), last.heading
        headings = np.array([one.heading for one in trail])
        if np.isfinite(headings).all():
            weight = 1 / (np.trace(covariances, axis1=1, axis2=2) + drift)
            heading = float(mean_angle(headings - poses[:, 2], weight) + poses[-1, 2])
        errors = self.model.live_errors
        flat, spread = fuse(measured[:, :2], covariances[:, :2, :2], poses, drift, errors.share, errors.reach)
        position, covariance = last.position.copy(), last.covariance.copy()
        position[:2], covariance[:2, :2] = flat, errors.carried * spread
        covariance[:2, 2:], covariance[2:, :2] = 0.0, 0.0  # odometry is planar: the height is that of the last image
        return position, covariance, heading, len(trail)

    def _moved(self, step: float, carried: bool, since: int) -> float:
        """How far positions moved since the last jump, as a share of the way by odometry, or by the usual step.

        The share is 1 if that way is short.
        """
        path = np.array(self.path)[-since:]
        way = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
        expected = (len(path) - 1) * step
        if carried:
            poses = np.array([one.pose[:2] for one in self.trail])[-len(path) :]
            expected = float(np.linalg.norm(np.diff(poses, axis=0), axis=1).sum())
        return way / expected if expected > self.model.radius else 1.0
