"""`Localizer`: locates a camera while it moves. Each image gives a pose, its covariance, and whether to trust it."""

from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from mappable.arrays import Floats32, Pixels
from mappable.checksums import seal
from mappable.containers import parse_safetensors, read_bytes
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.formats import KEY, Format
from mappable.localization.answers import Answers
from mappable.localization.location import documented
from mappable.localization.map import Map
from mappable.localization.place_model import Posterior
from mappable.odometry import Odometry
from mappable.places.angles import wrap

State = Literal["lost", "several places", "tracking", "off the map"]
FORMAT = Format("mappable localizer", 3, "start a new localizer", sealed_since=1)

SURE_OF_SEVERAL = 0.6  # probability of the listed places together; below, the camera is lost
# Largest error of a known motion, as a share of its way, and in metres.
MOST_ERROR, SMALL_WAY = 0.5, 1.0
# Number of places that an estimate lists, and their least probability.
LISTED, LEAST_LISTED = 5, 0.01
# Largest number of landmarks in a cloud, and their least probability.
CLOUD, LEAST_CLOUD = 200, 0.001
ONE_DEVIATION = 0.683  # share of errors within one standard deviation
GAP = 30.0  # a pause this many times longer than usual separates images
# Largest motion between two updates, in the unit of the map or in radians; beyond, a sensor is
# broken.
FARTHEST = 1e6
MOST_BYTES = 2**30  # largest state file that `Localizer.load` reads
# Number of updates in a row with earlier times after which the clock counts as set back.
NEW_CLOCK = 3


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
    position: tuple[float, ...] = documented(
        "x, y (and z) in the frame of the map, in its unit.", [51.3, 7.9]
    )
    covariance: tuple[tuple[float, ...], ...] = documented(
        "Covariance of the position if the place is right, in squares of the unit.",
        [[1.4, 0.1], [0.1, 0.9]],
    )
    heading: float | None = documented(
        "Direction in which the camera looks, in radians counter-clockwise from +x; None if the map"
        " has no headings.",
        1.57,
    )
    heading_deviation: float | None = documented(
        "Standard deviation of the heading, in radians.", 0.05
    )
    on_map: float = documented("Probability of being on the map.", 0.99)
    landmark: str = documented("Id of the likeliest landmark.", "sun/0048.jpg")
    places: tuple[PossiblePlace, ...] = documented("Where the camera may be, likeliest first.", [])
    revision: str = documented("Revision of the map.", "0f3c9a51d2b7")
    frame: str = documented("Name of the coordinate frame.", "utm-30N")
    unit: str = documented("Unit of positions: m (metres) or frames (of a route).", "m")
    calibrated_on: str = field(
        default="own visit",
        metadata={
            "description": "What calibrated the map: own visit, other visits, or a drive.",
            "examples": ["other visits"],
        },
    )


class Localizer:
    """Follows one camera on a map.

    >>> localizer = Localizer(open_map("map"))  # doctest: +SKIP
    >>> estimate = localizer.update("frame0001.jpg", time=12.3)  # doctest: +SKIP
    """

    def __init__(self, opened: Map) -> None:
        self.map = opened
        self._live = opened.model.live()
        self._last: Posterior | None = None
        self.revision = opened.landmarks.origin.sha256[:12] if opened.landmarks.origin else ""
        self.reset()

    @property
    def time(self) -> float | None:
        """Time of the last image, in seconds; None if there was none."""
        return self._time

    def reset(self) -> None:
        """Forget all images: the camera may be anywhere. What its images share stays."""
        self._live.forget()
        self._last = None
        self._time: float | None = None  # of the last image
        self._pauses: list[float] = []  # seconds between the last images
        self._earlier = 0  # number of updates in a row with an earlier time
        # Motion since the last image, from updates that brought none.
        self._pending: Odometry | None = None
        self._unknown = False  # whether a part of that motion is unknown

    def update(
        self, image: str | Path | Pixels | Floats32, time: float, odometry: Odometry | None = None
    ) -> Estimate:
        """Locate an image taken at `time`, in seconds.

        The image is a file, an array (height, width, 3) of uint8, or a descriptor (D,). An update
        that raises changes nothing. But if only the image cannot be used, its odometry still
        counts.
        """
        pause = self._pause(time)
        usual = float(np.median(self._pauses)) if self._pauses else np.inf
        apart = pause > GAP * usual
        motion = self._motion(odometry)
        described = self._describe(image)
        if apart:
            self._live.forget()
            self._pauses = []  # images may come less often from now on
        elif pause > 0:
            self._pauses = [*self._pauses[-20:], pause]
        metres = None if motion is None or apart else float(np.hypot(motion.forward, motion.left))
        self._last = self._live.update(described, metres)
        self._time, self._pending, self._unknown = time, None, False
        doubt = (
            f"no image came for {pause:.1f} s, usually {usual:.1f} s; the camera may be anywhere"
            if apart
            else ""
        )
        return self._estimate(time, self._last, doubt)

    def cloud(self) -> list[list[float]]:
        """Where the camera may be after the last update: x, y and probability of the likeliest
        landmarks, rounded.
        """
        if self._last is None:
            return []
        states, row = self.map.model.states, self._last.states.tocoo()
        order = row.col[np.argsort(-row.data)[:CLOUD]]
        probability = np.sort(row.data)[::-1][:CLOUD]
        points = np.column_stack([states.positions[order, :2], probability])[
            probability >= LEAST_CLOUD
        ]
        return points.round(3).tolist()  # type: ignore[no-any-return]

    def save(self, file: Path | str) -> None:
        """Write everything that the localizer remembers to a file, so that `load` goes on from
        there.
        """
        state = {
            "encoder": self.map.landmarks.encoder,
            "revision": self.revision,
            "time": self._time,
            "earlier": self._earlier,
            "pauses": self._pauses,
            "pending": None if self._pending is None else asdict(self._pending),
            "unknown": self._unknown,
        }
        content = seal(save(self._live.memory(), {KEY: FORMAT.text(state, indent=None)}))
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(file), lambda stream: stream.write(content))

    def load(self, file: Path | str) -> None:
        """Go on from a file of `save`. Raises if the file belongs to another map or another
        revision of it.
        """
        with FORMAT.reading(Path(file)):
            metadata, arrays = parse_safetensors(read_bytes(Path(file), MOST_BYTES), Path(file))
            state = FORMAT.parse(metadata.get(KEY), Path(file))
            if (state["encoder"], state["revision"]) != (self.map.landmarks.encoder, self.revision):
                what = "belongs to another map, or to another revision of it; start a new localizer"
                raise BadInputError(f"{file}: {what}")
            self.reset()
            self._live.restore(arrays)
            self._time, self._earlier, self._unknown = (
                state["time"],
                int(state["earlier"]),
                bool(state["unknown"]),
            )
            self._pauses = list(state["pauses"])
            self._pending = None if state["pending"] is None else Odometry(**state["pending"])

    def _pause(self, time: float) -> float:
        """Seconds since the last image; 0 without one, or if the clock was set back. Raises if the
        time is refused.
        """
        if not isfinite(time):
            raise BadInputError(f"time is {time}, expected a number of seconds")
        if self._time is None:
            return 0.0
        pause = time - self._time
        if pause <= 0:
            self._earlier = self._earlier + 1 if pause < 0 else 0
            if self._earlier < NEW_CLOCK:
                raise BadInputError(
                    f"time is {time:.3f}, expected later than {self._time:.3f}; the image was"
                    " skipped"
                )
            self._unknown = True  # the motion of the images that were skipped
        self._earlier = 0
        return max(pause, 0.0)

    def _motion(self, odometry: Odometry | None) -> Odometry | None:
        """The motion since the last image, with what earlier updates left over; None if it is
        unknown.
        """
        if odometry is None:
            self._unknown = True
            return None
        try:
            self._unknown = not _is_known(odometry) or self._unknown
        except BadInputError:
            self._unknown = True
            raise
        self._pending = odometry if self._pending is None else self._pending.then(odometry)
        return None if self._unknown else self._pending

    def _describe(self, image: str | Path | NDArray[Any]) -> Floats32:
        if isinstance(image, np.ndarray) and image.ndim == 1:
            descriptor = np.ascontiguousarray(image, dtype=np.float32)
            wanted = self.map.landmarks.store.dimensions
            if len(descriptor) != wanted:
                raise BadInputError(
                    f"the descriptor has {len(image):,} numbers, expected {wanted:,} as in the map"
                )
            length = float(np.linalg.norm(descriptor))
            if not abs(length - 1) < 1e-3:
                raise BadInputError(f"the descriptor has length {length:.4g}, expected 1")
            return descriptor
        return self.map.describe(image)

    def _estimate(self, time: float, found: Posterior, doubt: str) -> Estimate:
        landmarks = self.map.landmarks
        answers = self.map.answers(found, "live")
        reason = doubt or self.map.reason(answers, 0, "live")
        away = float(answers.away[0])
        places = self._places(answers)
        state: State = "lost"
        if away >= 0.5 and not doubt:
            state = "off the map"
        elif not reason:
            state = "tracking"
        elif not doubt and sum(one.probability for one in places) >= SURE_OF_SEVERAL * (1 - away):
            state = "several places"
        heading = float(answers.headings(landmarks.places.yaw)[0])
        error = self.map.calibration.heading_error(ONE_DEVIATION)
        known = error is not None and np.isfinite(heading)
        return Estimate(
            time=float(time),
            state=state,
            trusted=not reason,
            reason=reason,
            position=tuple(answers.positions[0].tolist()),
            covariance=tuple(map(tuple, answers.covariances[0].tolist())),
            heading=float(wrap(heading)) if known else None,
            heading_deviation=error if known else None,
            on_map=1 - away,
            landmark=str(landmarks.places.place_id[answers.landmarks()[0]]),
            places=places,
            revision=self.revision,
            frame=landmarks.frame.name,
            unit=landmarks.unit,
            calibrated_on=self.map.calibration.calibrated_on,
        )

    def _places(self, answers: Answers) -> tuple[PossiblePlace, ...]:
        known = self.map.landmarks.places
        rows = [
            (self.map.landmark_of(state), mass)
            for state, mass in answers.possible(0, LISTED, LEAST_LISTED)
        ]
        return tuple(
            PossiblePlace(str(known.place_id[row]), tuple(known.positions[row].tolist()), mass)
            for row, mass in rows
        )


def _is_known(odometry: Odometry) -> bool:
    """False if a motion errs by more than MOST_ERROR of its way; raise if it cannot be a motion."""
    for name in ("forward", "left", "turn"):
        value = getattr(odometry, name)
        if not abs(value) <= FARTHEST:
            raise BadInputError(
                f"odometry: {name} is {value}, expected a finite number of at most {FARTHEST:,.0f}"
            )
    if odometry.covariance is None:
        return True
    covariance = np.asarray(odometry.covariance, dtype=np.float64)
    sound = covariance.shape == (3, 3) and bool((np.abs(covariance) <= FARTHEST**2).all())
    if not sound or (np.diag(covariance) < 0).any():
        raise BadInputError(
            "odometry: covariance should be 3 x 3 finite numbers, with variances of 0 or more"
        )
    way = float(np.hypot(odometry.forward, odometry.left))
    deviation = float(np.sqrt((covariance[0, 0] + covariance[1, 1]) / 2))
    return deviation <= max(MOST_ERROR * way, SMALL_WAY)
