"""`Localizer`: locates a camera while it moves. Each image gives a pose, its covariance, and whether to trust it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from mappable.arrays import Floats, Floats32, Pixels
from mappable.checksums import seal
from mappable.containers import parse_safetensors, read_bytes
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.formats import KEY, Format
from mappable.maps.found_places import likely_places
from mappable.maps.location import documented
from mappable.maps.opened import OpenMap
from mappable.maps.place_filter import Belief, Motion
from mappable.maps.tracking import LIVE_SURE, ODOMETRY_ERROR, Tracked, Tracker
from mappable.maps.verification import Verifier
from mappable.places.angles import wrap

State = Literal["lost", "several places", "tracking", "off the map"]
FORMAT = Format("mappable localizer", 2, "start a new localizer", sealed_since=1)

# The constants here were tuned by hand on calibration drives of both worlds; no script repeats the choice. Results on
# test drives were seen in between, so figures on these worlds are not blind. studies/live measures the result.
SEVERAL = 4  # largest number of places that count as several; beyond, the camera is lost
LISTED, LEAST_LISTED = 5, 0.01  # number of places that an estimate lists, and their least probability
CLOUD, LEAST_CLOUD = 200, 0.001  # largest number of landmarks in a cloud, and their least probability
ONE_DEVIATION = 0.683  # share of errors within one standard deviation
GAP = 30.0  # a pause this many times longer than usual separates images
FARTHEST = 1e6  # largest motion between two updates, in the unit of the map or in radians; beyond, a sensor is broken
MOST_BYTES = 2**30  # of a file of `save`
NEW_CLOCK = 3  # number of updates in a row with earlier times after which the clock counts as set back


@dataclass(frozen=True)
class Odometry:
    """Planar motion since the update before, in the frame of the robot at that time.

    `forward` and `left` are in the unit of the map, usually metres. `turn` is in radians, counter-clockwise.
    `covariance` (3 x 3) belongs to (forward, left, turn). By default, positions err by 5 % of the way.
    """

    forward: float
    left: float
    turn: float
    covariance: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class PossiblePlace:
    """A place where the camera may be."""

    landmark: str = documented("Id of its likeliest landmark.", "sun/0048.jpg")
    position: tuple[float, ...] = documented("Position of that landmark.", [48.0, 6.1])
    probability: float = documented("Probability that the camera is there.", 0.97)


@dataclass(frozen=True)
class Estimate:
    """Where the camera is; positions are in the frame and the unit of the map, angles in radians."""

    time: float = documented("Time of the image, in seconds.", 12.3)
    state: State = documented("lost, several places, tracking, or off the map.", "tracking")  # noqa: RUF009
    trusted: bool = documented("Whether to use the pose.", True)
    reason: str = documented("Why the estimate is not trusted; empty if it is.", "")
    position: tuple[float, ...] = documented("x, y (and z) in the frame of the map, in its unit.", [51.3, 7.9])
    covariance: tuple[tuple[float, ...], ...] = documented(
        "Covariance of the position if the place is right, in squares of the unit.", [[1.4, 0.1], [0.1, 0.9]]
    )
    heading: float | None = documented(
        "Direction in which the camera looks, in radians counter-clockwise from +x; None if the map has no headings.",
        1.57,
    )
    heading_deviation: float | None = documented("Standard deviation of the heading, in radians.", 0.05)
    on_map: float = documented("Probability of being on the map.", 0.99)
    landmark: str = documented("Id of the likeliest landmark.", "sun/0048.jpg")
    places: tuple[PossiblePlace, ...] = documented("Where the camera may be, likeliest first.", [])
    revision: str = documented("Revision of the map.", "0f3c9a51d2b7")
    frame: str = documented("Name of the coordinate frame.", "utm-30N")
    unit: str = documented("Unit of positions: m (metres) or frames (of a route).", "m")


class Localizer:
    """Follows one camera on a map. With `verify`, local features check the likeliest places of each image.

    >>> localizer = Localizer(open_map("map"))  # doctest: +SKIP
    >>> estimate = localizer.update("frame0001.jpg", time=12.3)  # doctest: +SKIP
    """

    def __init__(self, opened: OpenMap, *, verify: bool = False) -> None:
        self.map, locator = opened.map, opened.locator
        self._opened, calibration = opened, locator.calibration
        yaw = self.map.places.yaw
        self._tracker = Tracker(
            self.map.store,
            locator.layout,
            locator.between,
            calibration.drive,
            calibration.temperature,
            yaw if np.isfinite(yaw).all() else None,
        )
        self._verifier = None
        if verify:
            about, radius = opened.encoder.about, calibration.drive.radius
            self._verifier = Verifier(self.map, locator.positions, radius, about.size, about.fit)
        self.revision = self.map.origin.sha256[:12] if self.map.origin else ""
        self.reset()

    @property
    def time(self) -> float | None:
        """Time of the last image, in seconds; None if there was none."""
        return self._time

    def reset(self) -> None:
        """Forget all images: the camera may be anywhere."""
        self._tracker.reset()
        self._time: float | None = None  # of the last image
        self._pauses: list[float] = []  # seconds between the last images
        self._earlier = 0  # number of updates in a row with an earlier time
        self._pending: Motion | None = None  # motion since the last image, from updates that brought none
        self._unknown = False  # whether a part of that motion is unknown

    def update(
        self,
        image: str | Path | Pixels | Floats32,
        time: float,
        odometry: Odometry | None = None,
        *,
        descriptor: Floats32 | None = None,
    ) -> Estimate:
        """Locate an image taken at `time`, in seconds.

        The image is a file, an array (height, width, 3) of uint8, or a descriptor (D,). If its `descriptor` is known
        already, the image is only used for verification. An update that raises changes nothing. But if only the image
        cannot be used, its odometry still counts.
        """
        pause = self._pause(time)
        usual = float(np.median(self._pauses)) if self._pauses else np.inf
        apart = pause > GAP * usual
        motion = self._motion(odometry)
        described = self._describe(image if descriptor is None else descriptor)
        check = None
        if self._verifier is not None and not (isinstance(image, np.ndarray) and image.ndim == 1):
            check = partial(self._verifier.check, image=self._verifier.describe(image))
        tracked = self._tracker.update(described, motion, apart=apart, check=check)
        if apart:
            self._pauses = []  # images may come less often from now on
        elif pause > 0:
            self._pauses = [*self._pauses[-20:], pause]
        self._time, self._pending, self._unknown = time, None, False
        doubt = f"no image came for {pause:.1f} s, usually {usual:.1f} s; the camera may be anywhere" if apart else ""
        return self._estimate(time, tracked, doubt or tracked.doubt)

    def cloud(self) -> list[list[float]]:
        """Where the camera may be after the last update: x, y and probability of the likeliest landmarks, rounded."""
        if not self._tracker.seen:
            return []
        belief, at = self._tracker.seen[-1].belief, self._opened.locator.positions
        order = np.argsort(-belief.probability)[:CLOUD]
        order = order[belief.probability[order] >= LEAST_CLOUD]
        return np.column_stack([at[belief.rows[order], :2], belief.probability[order]]).round(3).tolist()  # type: ignore[no-any-return]

    def save(self, file: Path | str) -> None:
        """Write everything that the localizer remembers to a file, so that `load` goes on from there."""
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        content = self.to_bytes()
        write_atomically(Path(file), lambda stream: stream.write(content))

    def load(self, file: Path | str) -> None:
        """Go on from a file of `save`. Raises if the file belongs to another map or another revision of it."""
        with FORMAT.reading(Path(file)):
            content = read_bytes(Path(file), MOST_BYTES)
        self.restore(content, str(file))

    def to_bytes(self, note: Any = None) -> bytes:
        """The content of the file that `save` writes. `note` is any JSON value to keep with it; see `read_note`."""
        pending = None if self._pending is None else asdict(self._pending)
        about = {
            "encoder": self.map.encoder,
            "revision": self.revision,
            "time": self._time,
            "earlier": self._earlier,
            "pauses": self._pauses,
            "pending": pending,
            "unknown": self._unknown,
            "note": note,
        }
        return seal(save(self._tracker.memory(), {KEY: FORMAT.text(about, indent=None)}))

    def restore(self, content: bytes, name: str) -> Any:
        """Go on from what `to_bytes` returned, and return its note. Errors call the content by its `name`."""
        about, arrays = _parse(content, name)
        with FORMAT.reading(Path(name)):
            if (about["encoder"], about["revision"]) != (self.map.encoder, self.revision):
                what = "belongs to another map, or to another revision of it; start a new localizer"
                raise BadInputError(f"{name}: {what}")
            self.reset()
            self._tracker.restore(arrays)
            self._time, self._earlier, self._unknown = about["time"], int(about["earlier"]), bool(about["unknown"])
            self._pauses = list(about["pauses"])
            self._pending = None if about["pending"] is None else Motion(**about["pending"])
            return about["note"]

    def _pause(self, time: float) -> float:
        """Seconds since the last image; 0 without one, or if the clock was set back. Raises if the time is refused."""
        if not isfinite(time):
            raise BadInputError(f"time is {time}, expected a number of seconds")
        if self._time is None:
            return 0.0
        pause = time - self._time
        if pause <= 0:
            self._earlier = self._earlier + 1 if pause < 0 else 0
            if self._earlier < NEW_CLOCK:
                raise BadInputError(f"time is {time:.3f}, expected later than {self._time:.3f}; the image was skipped")
            self._unknown = True  # the motion of the images that were skipped
        self._earlier = 0
        return max(pause, 0.0)

    def _motion(self, odometry: Odometry | None) -> Motion | None:
        """The motion since the last image, with what earlier updates left over; None if it is unknown."""
        if odometry is None:
            self._unknown = True
            return None
        try:
            motion = _checked(odometry)
        except BadInputError:
            self._unknown = True
            raise
        self._pending = motion if self._pending is None else self._pending.then(motion)
        return None if self._unknown else self._pending

    def _describe(self, image: str | Path | NDArray[Any]) -> Floats32:
        if isinstance(image, np.ndarray) and image.ndim == 1:
            descriptor = np.ascontiguousarray(image, dtype=np.float32)
            wanted = self.map.store.dimensions
            if len(descriptor) != wanted:
                raise BadInputError(f"the descriptor has {len(image):,} numbers, expected {wanted:,} as in the map")
            length = float(np.linalg.norm(descriptor))
            if not abs(length - 1) < 1e-3:
                raise BadInputError(f"the descriptor has length {length:.4g}, expected 1")
            return descriptor
        return self._opened.describe(image)

    def _estimate(self, time: float, tracked: Tracked, doubt: str) -> Estimate:
        calibration, found, position = self._opened.locator.calibration, tracked.found, tracked.position
        away = float(found.away[0])
        places = self._places(tracked.belief)
        state: State = "lost"
        if away >= 0.5:
            state = "off the map"
        elif not doubt:
            state = "tracking"
        elif sum(one.probability for one in places[:SEVERAL]) >= LIVE_SURE * (1 - away):
            state = "several places"
        known = np.isfinite(tracked.heading)
        return Estimate(
            time=float(time),
            state=state,
            trusted=not doubt,
            reason=doubt,
            position=tuple(position.tolist()),
            covariance=tuple(map(tuple, tracked.covariance.tolist())),
            heading=float(wrap(tracked.heading)) if known else None,
            heading_deviation=calibration.heading_error(ONE_DEVIATION) if known else None,
            on_map=1 - away,
            landmark=str(self.map.places.place_id[found.landmark[0]]),
            places=places,
            revision=self.revision,
            frame=self.map.frame.name,
            unit=self.map.unit,
        )

    def _places(self, belief: Belief) -> tuple[PossiblePlace, ...]:
        at, ids, radius = self._opened.locator.positions, self.map.places.place_id, self._tracker.model.radius
        found = likely_places(belief, at, radius, LISTED, LEAST_LISTED)
        return tuple(PossiblePlace(str(ids[row]), tuple(at[row].tolist()), mass) for row, mass in found)


def read_note(content: bytes, name: str) -> Any:
    """The note in what `Localizer.to_bytes` returned."""
    return _parse(content, name)[0]["note"]


def _parse(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with FORMAT.reading(Path(name)):
        metadata, arrays = parse_safetensors(content, Path(name))
        return FORMAT.parse(metadata.get(KEY), Path(name)), arrays


def _checked(odometry: Odometry) -> Motion:
    for name in ("forward", "left", "turn"):
        if not abs(getattr(odometry, name)) <= FARTHEST:
            given = getattr(odometry, name)
            raise BadInputError(f"odometry: {name} is {given}, expected a finite number of at most {FARTHEST:,.0f}")
    way = float(np.hypot(odometry.forward, odometry.left))
    if odometry.covariance is None:
        variance = (ODOMETRY_ERROR * way) ** 2
    else:
        covariance: Floats = np.asarray(odometry.covariance, dtype=np.float64)
        if (
            covariance.shape != (3, 3)
            or not (np.abs(covariance) <= FARTHEST**2).all()
            or (np.diag(covariance) < 0).any()
        ):
            raise BadInputError("odometry: covariance should be 3 x 3 finite numbers, with variances of 0 or more")
        variance = float(covariance[0, 0] + covariance[1, 1]) / 2
    return Motion(float(odometry.forward), float(odometry.left), float(odometry.turn), variance)
