"""`Landmarks`: the data of a map: places, their descriptors, the encoder's fingerprint and the calibration."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import check_descriptors
from mappable.maps.choosing import frame_of
from mappable.maps.exact import Exact
from mappable.maps.store import Store
from mappable.places.frames import Frame
from mappable.places.joining import concatenate
from mappable.places.table import Places

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder
    from mappable.maps.calibration import Calibration
    from mappable.maps.folder import File, Origin

Array = TypeVar("Array", bound=NDArray[Any])
Storage = Literal["float32", "float16"]
ROWS_PER_COPY = 64  # descriptors per batch of copying


@dataclass(frozen=True, eq=False, repr=False)
class Landmarks:
    """Landmarks with descriptors, all in one frame and by one encoder. Methods that change a map
    return a new one.

    `places`, `store` and `covariance` have one row per landmark, in the same order. `encoder` is
    the fingerprint of the encoder. `about` describes the encoder; it is None if the descriptors
    were made elsewhere.

    `covariance` (m, k, k) is in squares of the frame's unit. It is NaN for measured positions, and
    known for landmarks that were placed by their descriptors. `files` are the files on disk that
    store parts of this map, by name of the part. `origin` is None for a map that was not opened in
    a folder; changes keep it.
    """

    places: Places
    store: Store
    encoder: str
    covariance: Floats
    about: About | None = None
    calibration: "Calibration | None" = None
    storage: Storage = "float32"
    files: Mapping[str, "File"] = field(default_factory=dict)
    origin: "Origin | None" = None

    @classmethod
    def build(
        cls,
        places: Places,
        descriptors: NDArray[np.floating[Any]],
        encoder: str,
        *,
        about: About | None = None,
        storage: Storage = "float32",
        calibration: "Calibration | None" = None,
        covariance: Floats | None = None,
    ) -> "Landmarks":
        """Build a map of all `places` from their `descriptors` (m, D) of length one.

        `encoder` is the fingerprint of the encoder that made them. The storage float16 takes half
        the space and rounds descriptors. `covariance` (m, k, k) belongs to estimated positions and
        is NaN for measured ones. By default, all positions are measured.
        """
        frame = frame_of(places)
        if not encoder:
            raise BadInputError(
                "a map needs the fingerprint of the encoder that made its descriptors, or a name"
                " for the encoder"
            )
        check_descriptors(descriptors, places)
        if len(places.frames) > 1:
            places = places.replace(frames=frame)
        store = Exact(_read_only(descriptors.astype(storage, copy=False)))
        covariance = checked_covariance(covariance, places)
        return cls(places, store, encoder, covariance, about, calibration, storage)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        where = f"frame {self.frame.name} ({self.unit}), {self.dimensions}-D"
        calibrated = "calibrated" if self.calibration is not None else "not calibrated"
        return (
            f"<Landmarks: {len(self):,} landmarks, {where}, encoder {self.encoder}, {calibrated}>"
        )

    @property
    def name(self) -> str:
        """The name of its folder, or of the folder around it if it is just called map; the frame's
        without a folder.
        """
        if self.origin is None:
            return self.frame.name
        folder = self.origin.folder.resolve()
        return (folder.parent.name if folder.name == "map" else "") or folder.name

    @cached_property
    def frame(self) -> Frame:
        """The frame of all landmarks."""
        return frame_of(self.places)

    @property
    def unit(self) -> str:
        """The unit of coordinates and distances."""
        return self.frame.unit

    @property
    def dimensions(self) -> int:
        """2, or 3 if positions have a height."""
        return self.places.dimensions

    @cached_property
    def estimated(self) -> Bools:
        """Whether each landmark (m,) was placed by its descriptor instead of measured."""
        return ~np.isnan(self.covariance[:, 0, 0])

    @property
    def encoder_file(self) -> Path | None:
        """The file of the encoder in the map's folder; None if there is none. Opening it compares
        its fingerprint.
        """
        return self.files["encoder"].path if "encoder" in self.files else None

    @property
    def undistortion_file(self) -> Path | None:
        """The table that undistorts raw images; None if there is none. The map's folder keeps a
        copy.
        """
        decoding = self.places.decoding
        return (
            None
            if decoding is None or decoding.undistortion is None
            else Path(decoding.undistortion)
        )

    def check_encoder(self, encoder: str) -> None:
        """Raise if descriptors come from another encoder, because distances to them mean nothing."""
        if encoder != self.encoder:
            raise BadInputError(
                f"encoder {encoder} made the descriptors, but the map needs encoder {self.encoder}"
            )

    def add(
        self,
        places: Places,
        descriptors: NDArray[np.floating[Any]],
        encoder: str,
        covariance: Floats | None = None,
    ) -> "Landmarks":
        """A map with more landmarks, after those of this map; arguments as in `build`."""
        self.check_encoder(encoder)
        return self.merge(
            Landmarks.build(
                places, descriptors, encoder, storage=self.storage, covariance=covariance
            )
        )

    def remove(self, place_ids: Collection[str]) -> "Landmarks":
        """A map without the landmarks with the given ids."""
        removed = set(place_ids)
        unknown = removed - set(self.places.place_id)
        if unknown:
            raise BadInputError(f"the map has no landmark {min(unknown)!r}")
        rows = np.flatnonzero([place_id not in removed for place_id in self.places.place_id])
        if not len(rows):
            raise BadInputError(
                f"cannot remove all {len(self):,} landmarks: a map needs at least one"
            )
        return self._of(self.places[rows], [(self.store, rows)], self.covariance[rows])

    def merge(self, other: "Landmarks") -> "Landmarks":
        """A map with the landmarks of both maps, those of this map first. It keeps this map's
        calibration and storage.

        Both maps must have the same encoder and frame, and no landmark in common. Frames may differ
        in their origin alone if both have a CRS; the result then has this map's frame.

        If the other map's images lie in this map's root folder, they get paths below it. Otherwise
        the folder that contains both roots becomes the root, because paths cannot lead out of a
        root.
        """
        self.check_encoder(other.encoder)
        pairs = [
            ("descriptor length", self.store.dimensions, other.store.dimensions),
            ("dimensions", self.dimensions, other.dimensions),
            ("frame", self.frame.name, other.frame.name),
            ("unit", self.unit, other.unit),
        ]
        for name, own, given in pairs:
            if own != given:
                raise BadInputError(
                    f"the map has {name} {own!r}, but the added landmarks have {name} {given!r}"
                )
        twice = set(self.places.place_id) & set(other.places.place_id)
        if twice:
            raise BadInputError(f"the map already has a landmark {min(twice)!r}")
        parts = [(one.store, np.arange(len(one))) for one in (self, other)]
        joined = self._of(
            concatenate([self.places, _below(self.places.root, other.places)]),
            parts,
            np.concatenate([self.covariance, other.covariance]),
        )
        return replace(joined, about=self.about or other.about)

    def with_calibration(self, calibration: "Calibration | None") -> "Landmarks":
        """The same landmarks with another calibration."""
        return replace(self, calibration=calibration)

    def with_index(self, seed: int = 0) -> "Landmarks":
        """The same landmarks with an approximate index, for maps in which exact search takes too
        long.

        A map that has an index is returned as it is. Adding or removing landmarks drops the index.
        """
        from mappable.maps.approximate import Approximate

        return (
            replace(self, store=Approximate.build(self.store, seed=seed))
            if isinstance(self.store, Exact)
            else self
        )

    def upload(self, uri: str) -> "Landmarks":
        """The same map with its descriptors on Milvus: `uri` is http://HOST:PORT of a server, or a
        file FILE.db.

        The server then searches. An upload that was interrupted continues where it stopped. Save
        the map afterwards: its folder keeps the landmarks, the encoder, the calibration and the
        address, but no descriptors. Adding or removing landmarks gives a map with its descriptors
        in memory again.
        """
        from mappable.maps.milvus import Milvus

        store = Milvus.load(uri, self.places.place_id, self.store)
        files = {
            part: file for part, file in self.files.items() if part not in ("descriptors", "index")
        }
        return replace(self, store=store, files=files)

    def _of(
        self, places: Places, parts: Sequence[tuple[Store, Ints]], covariance: Floats
    ) -> "Landmarks":
        """A map of other landmarks; `parts` are stores and the rows of their descriptors.

        Of this map's files, the encoder and the lens table stay.
        """
        vectors = np.empty((len(places), self.store.dimensions), dtype=self.storage)
        filled = 0
        for store, rows in parts:
            for start in range(0, len(rows), ROWS_PER_COPY):
                block = rows[start : start + ROWS_PER_COPY]
                vectors[filled : filled + len(block)] = store.take(block)
                filled += len(block)
        files = {
            part: file for part, file in self.files.items() if part in ("encoder", "undistortion")
        }
        store = Exact(_read_only(vectors))
        return replace(
            self, places=places, store=store, covariance=_read_only(covariance), files=files
        )

    def save(self, folder: Path | str, encoder: "ImageEncoder | None" = None) -> "Landmarks":
        """Write the map to a folder of its own, and return the saved map. A map already there is
        replaced.

        The folder gets a copy of the `encoder`, so it is all that localization needs; of a
        torch.hub model, it gets the name and the commit. If the process is killed, the older map
        stays intact. Files that already store parts of this map are not written again.

        A map that was opened in this folder is not saved if the map there changed in the meantime:
        saving would undo that change. Open the map again, and repeat your change.
        """
        # Imported here, so that a map in memory needs no library for files.
        from mappable.maps.folder import save_map

        return save_map(self, Path(folder), encoder)

    @classmethod
    def open(cls, folder: Path | str) -> "Landmarks":
        """Open the map in a folder.

        Descriptors, encoder and index are read and checked when they are used for the first time;
        everything else is checked here.
        """
        from mappable.maps.folder import read_map

        return read_map(Path(folder))

    @classmethod
    def verify(cls, folder: Path | str) -> "Landmarks":
        """Open the map in a folder after reading and checking all files; the error names all
        damaged files.
        """
        from mappable.maps.folder import verify_map

        return verify_map(Path(folder))


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _below(root: Path, places: Places) -> Places:
    """The places with a root below `root` if all their files lie there; otherwise unchanged."""
    lowest = Path(os.path.commonpath([file.parent for file in places.files]))
    if places.root.is_relative_to(root) or not lowest.is_relative_to(root):
        return places
    return places.replace(
        path=[file.relative_to(lowest).as_posix() for file in places.files], root=lowest
    )


def checked_covariance(covariance: Floats | None, places: Places) -> Floats:
    shape = (len(places), places.dimensions, places.dimensions)
    if covariance is None:
        return _read_only(np.full(shape, np.nan))
    if covariance.shape != shape:
        raise BadInputError(f"covariances have shape {covariance.shape}, expected {shape}")
    measured = np.asarray(np.isnan(covariance).all(axis=(1, 2)))
    given = np.where(measured[:, None, None], np.eye(places.dimensions), covariance)
    sound = np.asarray(np.isfinite(given).all(axis=(1, 2)))
    sound[sound] = np.linalg.eigvalsh(given[sound]).min(axis=1) > 0
    if not sound.all():
        row = int(np.flatnonzero(~sound)[0])
        raise BadInputError(
            f"the covariance of place {row} ({places.place_id[row]!r}) is not positive definite"
        )
    return _read_only(covariance.astype(np.float64))
