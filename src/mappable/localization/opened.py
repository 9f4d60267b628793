"""`open_map`: open a map with its encoder, to locate image files, folders and arrays."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.features.foreign.filed import FiledDescriptors
from mappable.features.image_encoder import ImageEncoder
from mappable.features.opening import Backend
from mappable.localization.locate import Locator
from mappable.localization.location import Location, Outcome
from mappable.localization.queries import Readable, describe_readable, locate_readable
from mappable.maps.encoders import encoder_of
from mappable.maps.folder import find_map
from mappable.maps.map import Map
from mappable.places.cache import find_packed
from mappable.places.images import load_image, resize_image
from mappable.places.pixels import Images
from mappable.places.table import Places
from mappable.readers.unposed import find_images, is_table

Asked = str | Path | Pixels | Sequence[str | Path]  # image files, folders of them, or arrays


def open_map(
    folder: Path | str,
    *,
    encoder: Path | str | ImageEncoder | None = None,
    device: str = "auto",
    backend: Backend | None = None,
    trust_code: bool = False,
) -> "OpenMap":
    """Open the map in a folder, or in a folder that `mappable start` wrote, to locate images in it.

    By default, the encoder is the copy in the map's folder. `encoder` can be a file or a folder with the encoder, or
    the encoder itself. It opens on `device` ("auto", "cpu", "cuda", "cuda:N") when the first image is located, and
    stays open. If it is a torch.hub model, its code runs only with `trust_code`, or after earlier consent.
    """
    return OpenMap(
        Map.open(find_map(Path(folder))), encoder=encoder, device=device, backend=backend, trust_code=trust_code
    )


class OpenMap:
    """A `map`, its `encoder`, and a `locator` for descriptors; see `open_map`."""

    def __init__(
        self,
        landmarks: Map,
        *,
        encoder: Path | str | ImageEncoder | None = None,
        device: str = "auto",
        backend: Backend | None = None,
        trust_code: bool = False,
    ) -> None:
        self.map = landmarks
        self._encoder, self._device, self._backend, self._trust_code = encoder, device, backend, trust_code

    def __repr__(self) -> str:
        return f"<OpenMap of {self.map!r}>"

    @cached_property
    def encoder(self) -> ImageEncoder:
        """The encoder of the map."""
        if self._encoder is None or isinstance(self._encoder, str | Path):
            return encoder_of(self.map, self._encoder, self._device, self._backend, trust_code=self._trust_code)
        self.map.check_encoder(self._encoder.fingerprint)
        return self._encoder

    @cached_property
    def locator(self) -> Locator:
        """The locator, which locates images by their descriptors."""
        return Locator(self.map)

    @overload
    def locate(self, images: Asked, *, sequence: Literal[True], coverage: float | None = None) -> list[Outcome]: ...

    @overload
    def locate(
        self, images: list[str] | list[Path], *, sequence: bool = False, coverage: float | None = None
    ) -> list[Outcome]: ...

    @overload  # the type does not show whether it is one image or several
    def locate(
        self, images: str | Path | Pixels, *, sequence: Literal[False] = False, coverage: float | None = None
    ) -> Any: ...

    def locate(
        self, images: Asked, *, sequence: bool = False, coverage: float | None = None
    ) -> Location | list[Outcome]:
        """Locate one image or several.

        One image is a file, or an array (height, width, 3) of uint8. The result is a `Location`. A file that cannot be
        read raises `BadImageError`.

        Several images are a folder of images, a folder made by `mappable convert`, a list of paths, or an array
        (n, height, width, 3). The result is a list with one entry per image, in order. A file that cannot be read gets
        an entry `NotLocated` with the cause in `error`, and the other images are located.

        Arrays may have any size; they are resized as files are. With `sequence`, the images of each folder, or of the
        array, form one drive in order. Each drive is located as a whole, and the result is a list. `coverage` applies
        to intervals (default: the calibration's coverage).
        """
        if isinstance(images, np.ndarray):
            return self._locate_array(images, sequence, coverage)
        single = isinstance(images, str | Path)
        paths = [Path(one) for one in _paths(images)]
        places = find_images(paths, self.map.places.decoding)
        found = self.locate_places(places, self.packed(paths, places), sequence=sequence, coverage=coverage)
        if any(path.is_dir() or is_table(path) for path in paths):
            return found
        by_file = dict(zip(places.files, found, strict=True))  # each file is in `places` only once
        found = [by_file[path.resolve()] for path in paths]
        if sequence or not single:
            return found
        if isinstance(found[0], Location):
            return found[0]
        raise BadImageError(str(paths[0]), found[0].error.removeprefix(f"{places.files[0]}: "))

    def describe(self, image: str | Path | Pixels) -> Floats32:
        """The descriptor (D,) of one image: a file, or an array (height, width, 3) of uint8."""
        about = self.encoder.about
        if isinstance(image, np.ndarray):
            _check_pixels(image, (3,))
            pixels = resize_image(image, about.size, about.fit)
        else:
            pixels = load_image(image, about.size, about.fit, self.map.places.decoding)
        descriptor: Floats32 = self._for_queries(pixels[None])[0]
        return descriptor

    @cached_property
    def _for_queries(self) -> Callable[[Pixels], Floats32]:
        return self.encoder.for_queries()

    def packed(self, paths: Sequence[Path], places: Places) -> Images | None:
        """The images of a single folder as packed for the encoder; None if not packed, or with several or no paths."""
        about = self.encoder.about
        if len(paths) != 1 or isinstance(self.encoder, FiledDescriptors):
            return None
        return find_packed(paths[0], places, about.size, about.fit)

    def locate_places(
        self, places: Places, images: Images | None = None, *, sequence: bool = False, coverage: float | None = None
    ) -> list[Outcome]:
        """Locate the images of a table; its positions are ignored. With packed `images`, files need not be decoded.

        With `sequence`, each sequence of the table is one drive in order, and each drive is located as a whole.
        """
        readable = describe_readable(self.encoder, places, images)
        return locate_readable(
            self.locator,
            places.place_id.tolist(),
            readable,
            encoder=self.map.encoder,
            drives=places[readable.rows].sequences().values() if sequence else None,
            coverage=coverage,
        )

    def _locate_array(self, images: Pixels, sequence: bool, coverage: float | None) -> Location | list[Outcome]:
        _check_pixels(images, (3, 4))
        about, several = self.encoder.about, images if images.ndim == 4 else images[None]
        pixels = np.stack([resize_image(one, about.size, about.fit) for one in several])
        rows = np.arange(len(pixels))
        found = locate_readable(
            self.locator,
            [str(row) for row in rows],
            Readable(rows, self.encoder.embed(pixels, progress=len(rows) > 1), {}),
            encoder=self.map.encoder,
            drives=[rows] if sequence else None,
            coverage=coverage,
        )
        one = found[0]
        return one if images.ndim == 3 and not sequence and isinstance(one, Location) else found


def _check_pixels(images: NDArray[Any], axes: tuple[int, ...]) -> None:
    if images.dtype != np.uint8 or images.ndim not in axes or images.shape[-1] != 3 or not images.size:
        given = f"{' x '.join(map(str, images.shape))} of {images.dtype}"
        several = ", or n x height x width x 3" if 4 in axes else ""
        raise BadInputError(f"images are an array of {given}, expected uint8 and height x width x 3{several}")


def _paths(images: Any) -> list[str | Path]:
    paths = [images] if isinstance(images, str | Path) else images
    if not isinstance(paths, list | tuple) or not all(isinstance(one, str | Path) for one in paths):
        others = {type(one).__name__ for one in paths} if isinstance(paths, list | tuple) else ()
        given = type(images).__name__ + (f" of {', '.join(sorted(others))}" if others else "")
        raise BadInputError(f"images are a {given}, expected a path, a list of paths, or one array of uint8")
    return list(paths)
