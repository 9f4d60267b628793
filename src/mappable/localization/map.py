"""`Map`: landmarks, their encoder and the place model. It says where images were taken, and how sure that is."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np

from mappable.arrays import Floats32, Ints, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.localization.answers import Answers
from mappable.localization.fitting import calibrate, model_of
from mappable.localization.location import Candidate, Location, NotLocated, Outcome
from mappable.localization.place_model import PlaceModel, Posterior
from mappable.localization.queries import (
    Queries,
    check_pixels,
    listed_files,
    queries_of_arrays,
    queries_of_descriptors,
    queries_of_files,
    queries_of_places,
)
from mappable.maps.calibration import Calibration, Way
from mappable.maps.folder import find_map
from mappable.maps.landmarks import Landmarks
from mappable.maps.store import squared_lengths
from mappable.places.images import load_image, resize_image
from mappable.places.pixels import Images
from mappable.places.table import Places
from mappable.readers.unposed import is_table

if TYPE_CHECKING:  # these need PyTorch, which locating descriptors does not
    from mappable.features.image_encoder import ImageEncoder
    from mappable.features.opening import Backend

CANDIDATES = 5  # default number of landmarks that a location lists as candidates

# How the reason of an image that is not confident begins; docs/maps.md explains these words.
OFF_THE_MAP = "off the map"
TWO_PLACES = "looks like two places"
SEVERAL_PLACES = "looks like several places"
NO_DRIVE = "the images do not move as a camera moves"


class Asking(TypedDict, total=False):
    """Options of `Map.locate_all` and `Map.locate_drive`.

    `coverage` applies to intervals (default: the calibration's). `candidates` is the number of
    landmarks that each location lists. `names` are names of descriptors. `pixels` are the packed
    images of a table.
    """

    coverage: float | None
    candidates: int
    names: Sequence[str]
    pixels: Images | None


def open_map(
    folder: Path | str,
    *,
    encoder: "Path | str | ImageEncoder | None" = None,
    device: str = "auto",
    backend: "Backend | None" = None,
    trust_code: bool = False,
) -> "Map":
    """Open the map in a folder, or in a folder that `mappable start` wrote.

    By default, the encoder is the copy in the map's folder. `encoder` can be a file or a folder
    with the encoder, or the encoder itself. It opens on `device` ("auto", "cpu", "cuda", "cuda:N")
    when the first image is located, and stays open. If it is a torch.hub model, its code runs only
    with `trust_code`, or after earlier consent.
    """
    landmarks = Landmarks.open(find_map(Path(folder)))
    return Map(landmarks, encoder, device=device, backend=backend, trust_code=trust_code)


class Map:
    """A map that locates images. `open_map` opens one, `build_map` builds one.

    `landmarks` holds the data of the map. Several threads may use one map at the same time.
    """

    def __init__(
        self,
        landmarks: Landmarks,
        encoder: "Path | str | ImageEncoder | None" = None,
        *,
        device: str = "auto",
        backend: "Backend | None" = None,
        trust_code: bool = False,
    ) -> None:
        self.landmarks = landmarks
        self._encoder, self._device, self._backend, self._trust_code = (
            encoder,
            device,
            backend,
            trust_code,
        )

    def __len__(self) -> int:
        return len(self.landmarks)

    def __repr__(self) -> str:
        return f"<Map of {self.landmarks!r}>"

    @cached_property
    def encoder(self) -> "ImageEncoder":
        """The encoder of the map."""
        from mappable.maps.encoders import encoder_of

        if self._encoder is None or isinstance(self._encoder, str | Path):
            return encoder_of(
                self.landmarks,
                self._encoder,
                self._device,
                self._backend,
                trust_code=self._trust_code,
            )
        self.landmarks.check_encoder(self._encoder.fingerprint)
        return self._encoder

    @cached_property
    def calibration(self) -> Calibration:
        """The calibration of the map; a map without one is calibrated on its own visits."""
        return self.landmarks.calibration or calibrate(self.landmarks)

    @cached_property
    def model(self) -> PlaceModel:
        """The place model of the map."""
        return model_of(self.landmarks)

    def save(self, folder: Path | str) -> "Map":
        """Write the map and its encoder to a folder of its own; see `Landmarks.save`. Return the
        saved map.
        """
        saved = self.landmarks.save(folder, None if self._encoder is None else self.encoder)
        return Map(
            saved,
            self._encoder,
            device=self._device,
            backend=self._backend,
            trust_code=self._trust_code,
        )

    def locate(
        self, image: str | Path | Pixels | Floats32, *, coverage: float | None = None
    ) -> Location:
        """Locate one image: a file, an array (height, width, 3) of uint8, or a descriptor (D,) of
        float32.

        Raise `BadImageError` if the file cannot be read.
        """
        if isinstance(image, np.ndarray):
            if image.dtype != np.float32 or image.ndim != 1:
                check_pixels(image, 3)
            images: Any = image[None]
        elif is_table(Path(image)) or Path(image).is_dir():
            raise BadInputError(
                f"{image}: is not one image; use locate_all, or locate_drive for a drive"
            )
        else:
            images = [image]
        outcome: Outcome = self.locate_all(images, coverage=coverage)[0]
        if isinstance(outcome, Location):
            return outcome
        raise BadImageError(str(image), outcome.error.removeprefix(f"{outcome.image}: "))

    @overload
    def locate_all(self, images: Floats32, **asking: Unpack[Asking]) -> list[Location]: ...

    @overload
    def locate_all(
        self, images: str | Path | Sequence[str | Path] | Pixels | Places, **asking: Unpack[Asking]
    ) -> list[Outcome]: ...

    def locate_all(self, images: Any, **asking: Unpack[Asking]) -> Any:
        """Locate each image by itself. The images share only what all of them have in common, such
        as their light.

        `images` are a folder of images, a folder that `mappable convert` wrote, a list of files, or
        a table, whose positions are ignored. They can also be an array (n, height, width, 3) of
        uint8, of any size, or descriptors (n, D) of float32 by the map's encoder.

        The result has one entry per image, in order. A file that cannot be read gives a
        `NotLocated`; descriptors and arrays give locations only. `Asking` lists the options.
        """
        queries = self._queries(images, asking)
        return self._outcomes(queries, [np.arange(len(queries.rows))], "single", asking)

    @overload
    def locate_drive(self, images: Floats32, **asking: Unpack[Asking]) -> list[Location]: ...

    @overload
    def locate_drive(
        self, images: str | Path | Sequence[str | Path] | Pixels | Places, **asking: Unpack[Asking]
    ) -> list[Outcome]: ...

    def locate_drive(self, images: Any, **asking: Unpack[Asking]) -> Any:
        """Locate the images of a drive, in the order taken: all of them help to locate each.

        `images`, options and result are those of `locate_all`. Each folder is a drive, and so is
        each sequence of a table.
        """
        queries = self._queries(images, asking)
        return self._outcomes(queries, queries.drives, "drive", asking)

    def describe(self, image: str | Path | Pixels) -> Floats32:
        """The descriptor (D,) of one image: a file, or an array (height, width, 3) of uint8."""
        about = self.encoder.about
        if isinstance(image, np.ndarray):
            check_pixels(image, 3)
            pixels = resize_image(image, about.size, about.fit)
        else:
            pixels = load_image(image, about.size, about.fit, self.landmarks.places.decoding)
        descriptor: Floats32 = self._for_queries(pixels[None])[0]
        return descriptor

    def answers(self, posterior: Posterior, way: Way) -> Answers:
        """What the place model says, with the calibration's radius of a place and width of
        intervals.
        """
        known = self.calibration
        return Answers(self.model, posterior, known.radius, known.width[way])

    def reason(self, answers: Answers, row: int, way: Way) -> str:
        """Why not to trust the place of an image; "" if it is sure. This is the one rule of
        `confident`.
        """
        place, away = answers.places[row], float(answers.away[row])
        if away > 0.5:
            return f"{OFF_THE_MAP}: with probability {away:.2f}"
        if answers.posterior.evidence < 0:
            return f"{NO_DRIVE}: their order says less than each of them by itself"
        least = self.calibration.sure[way]
        if place.mass >= least:
            return ""
        if place.rival < 0 or place.rival_mass + place.mass < least:
            return (
                f"{SEVERAL_PLACES}: the likeliest has probability {place.mass:.2f}, expected"
                f" {least:.2f}"
            )
        states, ids = self.model.states, self.landmarks.places.place_id
        here, there = (
            ids[self.landmark_of(int(state))]
            for state in (place.states[place.share.argmax()], place.rival)
        )
        apart = np.linalg.norm(states.positions[place.rival] - answers.positions[row])
        return (
            f"{TWO_PLACES}: {here}, and nearly as much {there}, {apart:.1f} {self.landmarks.unit}"
            " away"
        )

    def landmark_of(self, state: int) -> int:
        """The landmark that is nearest to a state."""
        states = self.model.states
        return int((states.first if states.blend[state] < 0.5 else states.second)[state])

    @cached_property
    def _for_queries(self) -> Callable[[Pixels], Floats32]:
        return self.encoder.for_queries()

    def _queries(self, images: Any, asking: Asking) -> Queries:
        if isinstance(images, Places):
            return queries_of_places(self.encoder, images, asking.get("pixels"))
        if not isinstance(images, np.ndarray):
            return queries_of_files(
                self.encoder, listed_files(images), self.landmarks.places.decoding
            )
        if images.dtype == np.float32 and images.ndim == 2:
            return queries_of_descriptors(images, asking.get("names"))
        return queries_of_arrays(self.encoder, images)

    def _outcomes(
        self, queries: Queries, groups: Sequence[Ints], way: Way, asking: Asking
    ) -> list[Outcome]:
        """One outcome per image, in the order asked. A drive of one image is a single image."""
        outcomes: dict[int, Outcome] = {
            row: NotLocated(queries.names[row], str(error)) for row, error in queries.errors.items()
        }
        for group in groups:
            if len(group):
                rows = queries.rows[group].tolist()
                names = [queries.names[row] for row in rows]
                located = self._located(
                    names, queries.descriptors[group], way if len(group) > 1 else "single", asking
                )
                outcomes |= zip(rows, located, strict=True)
        return [outcomes[row] for row in queries.order]

    def _located(
        self, names: Sequence[str], descriptors: Floats32, way: Way, asking: Asking
    ) -> list[Location]:
        landmarks, known = self.landmarks, self.calibration
        coverage = asking.get("coverage")
        if coverage is None:
            coverage = known.coverage
        if not 0 < coverage < 1:
            raise BadInputError(f"coverage must be between 0 and 1, got {coverage}")
        candidates = min(asking.get("candidates", CANDIDATES), len(landmarks))
        nearest, squared = landmarks.store.nearest(descriptors, max(1, candidates))
        posterior = (
            self.model.drive(descriptors) if way == "drive" else self.model.single(descriptors)
        )
        answers = self.answers(posterior, way)
        landmark = answers.landmarks()
        places, frame = landmarks.places, landmarks.frame
        feature = np.sqrt(squared_lengths(descriptors - landmarks.store.take(landmark)))
        distance = np.linalg.norm(answers.positions - places.positions[landmark], axis=1)
        half = answers.intervals(coverage)
        degrees = frame.degrees(answers.positions)
        headings = answers.headings(places.yaw)
        error = known.heading_error(coverage)
        reasons = [self.reason(answers, row, way) for row in range(len(names))]
        return [
            Location(
                image=name,
                coordinates=tuple(answers.positions[row].tolist()),
                latitude=degrees[row][0],
                longitude=degrees[row][1],
                frame=frame.name,
                unit=landmarks.unit,
                landmark=str(places.place_id[landmark[row]]),
                feature_distance=float(feature[row]),
                distance=float(distance[row]),
                low=float(max(distance[row] - half[row], 0.0)),
                high=float(distance[row] + half[row]),
                coverage=coverage,
                covariance=tuple(map(tuple, answers.covariances[row].tolist())),
                heading=(
                    float(headings[row])
                    if error is not None and np.isfinite(headings[row])
                    else None
                ),
                heading_error=error if np.isfinite(headings[row]) else None,
                refined=bool(distance[row] > 0),
                confident=not reasons[row],
                reason=reasons[row],
                candidates=_candidates(
                    places, nearest[row, :candidates], squared[row, :candidates]
                ),
                together=way == "drive",
                calibrated_on=known.calibrated_on,
            )
            for row, name in enumerate(names)
        ]


def _candidates(places: Places, rows: Ints, squared: Floats32) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(str(places.place_id[row]), tuple(places.positions[row].tolist()), float(distance))
        for row, distance in zip(rows, np.sqrt(squared), strict=True)
    )
