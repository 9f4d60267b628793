"""`Map`: landmarks, their descriptors, the encoder and the calibration."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import check_descriptors
from mappable.maps.checking import File
from mappable.maps.exact import Exact
from mappable.maps.landmarks import frame_of
from mappable.maps.store import Store
from mappable.places.frames import Frame
from mappable.places.joining import concatenate
from mappable.places.table import Places

if TYPE_CHECKING:
    from mappable.maps.calibration import Calibration

Array = TypeVar("Array", bound=NDArray[Any])
Storage = Literal["float32", "float16"]
BLOCK = 64  # descriptors that are copied at a time


@dataclass(frozen=True)
class Origin:
    """The folder that a map was opened in, and the checksum of its `map.json` at that time."""

    folder: Path
    sha256: str


@dataclass(frozen=True, eq=False, repr=False)
class Map:
    """Landmarks with descriptors, all in one frame and by one encoder; what changes it gives a new map.

    Rows of `places`, `store` and `covariance` are the same landmarks. `encoder` is the fingerprint of the encoder;
    `about` is what that says about itself, None where descriptors were made elsewhere. `covariance` (m, k, k), in
    squares of the frame's unit, is NaN for landmarks whose position was measured, and known for those placed by their
    descriptors. `files` are those on disk that hold parts of this very map, by the part's name. `origin` is None for a
    map that was not opened in a folder; changes keep it.
    """

    places: Places
    store: Store
    encoder: str
    covariance: Floats
    about: About | None = None
    calibration: "Calibration | None" = None
    storage: Storage = "float32"
    files: Mapping[str, File] = field(default_factory=dict)
    origin: Origin | None = None

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
    ) -> "Map":
        """A map of all `places`, by their `descriptors` (m, D) of length one, which `encoder` (a fingerprint) made.

        With the storage float16 descriptors take half the room, and are rounded. Positions that were estimated have
        a `covariance` (m, k, k); it is NaN for those that were measured, as are all unless it is given.
        """
        frame = frame_of(places)
        if not encoder:
            raise BadInputError(
                "a map needs the fingerprint of the encoder, or a name for it, that made its descriptors"
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
        return f"<Map: {len(self):,} landmarks, {where}, encoder {self.encoder}, {calibrated}>"

    @cached_property
    def frame(self) -> Frame:
        """The frame that all landmarks are in."""
        return frame_of(self.places)

    @property
    def unit(self) -> str:
        """The unit of its coordinates and distances."""
        return self.frame.unit

    @property
    def dimensions(self) -> int:
        """2, or 3 where height counts."""
        return self.places.dimensions

    @cached_property
    def estimated(self) -> Bools:
        """Which landmarks (m,) were placed by their descriptors, not measured."""
        return ~np.isnan(self.covariance[:, 0, 0])

    @cached_property
    def encoder_file(self) -> Path | None:
        """The file of the encoder, checked, if the map's folder holds it."""
        if "encoder" not in self.files:
            return None
        self.files["encoder"].check()
        return self.files["encoder"].path

    @property
    def undistortion_file(self) -> Path | None:
        """The table that undistorts raw images, which the map's folder keeps a copy of; None if there is none."""
        decoding = self.places.decoding
        return None if decoding is None or decoding.undistortion is None else Path(decoding.undistortion)

    def nearest(
        self,
        descriptors: Floats32,
        count: int = 1,
        *,
        encoder: str,
        near: tuple[ArrayLike, float] | None = None,
        box: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> tuple[Ints, Floats32]:
        """The rows (n, count) of each descriptor's nearest landmarks, the nearest first, and squared feature distances.

        `encoder` is the fingerprint of the one that made the `descriptors` (n, D). Only landmarks `within` what is
        asked for are found; if there are fewer than `count`, all of them are.
        """
        self.check_encoder(encoder)
        among = self.within(near=near, box=box)
        available = len(self) if among is None else int(np.count_nonzero(among))
        return self.store.nearest(descriptors, min(count, available), among=among)

    def within(
        self, *, near: tuple[ArrayLike, float] | None = None, box: tuple[ArrayLike, ArrayLike] | None = None
    ) -> Bools | None:
        """Which landmarks (m,) lie in a part of the map, edges included; None for all of it; none there is refused.

        The part is what lies `near` a position (k,) within a radius, or in a `box` from its low to its high corner.
        """
        if near is None and box is None:
            return None
        positions, among = self.places.positions, np.ones(len(self), dtype=bool)
        if near is not None:
            centre, radius = self._point(near[0]), float(near[1])
            if not radius >= 0:
                raise BadInputError(
                    f"the radius within which landmarks are looked for is {radius}, but must be 0 or more"
                )
            among &= np.square(positions - centre).sum(axis=1) <= radius**2
        if box is not None:
            low, high = self._point(box[0]), self._point(box[1])
            among &= ((low <= positions) & (positions <= high)).all(axis=1)
        if not among.any():
            asked = [f"{name} {value}" for name, value in (("near", near), ("box", box)) if value is not None]
            raise BadInputError(f"no landmark lies in the part of the map that was asked for ({', '.join(asked)})")
        return among

    def _point(self, position: ArrayLike) -> Floats:
        point = np.asarray(position, dtype=np.float64)
        if point.shape != (self.dimensions,) or np.isnan(point).any():
            raise BadInputError(f"a position in this map has {self.dimensions} numbers, not {position!r}")
        return point

    def check_encoder(self, encoder: str) -> None:
        """Refuse descriptors of another encoder: distances to them mean nothing."""
        if encoder != self.encoder:
            raise BadInputError(f"the descriptors are of encoder {encoder}, but the map is of encoder {self.encoder}")

    def add(
        self, places: Places, descriptors: NDArray[np.floating[Any]], encoder: str, covariance: Floats | None = None
    ) -> "Map":
        """A map with more landmarks, which come after those of this one; for the arguments see `build`."""
        self.check_encoder(encoder)
        return self.merge(Map.build(places, descriptors, encoder, storage=self.storage, covariance=covariance))

    def remove(self, place_ids: Collection[str]) -> "Map":
        """A map without the landmarks of these ids."""
        removed = set(place_ids)
        unknown = removed - set(self.places.place_id)
        if unknown:
            raise BadInputError(f"the map has no landmark {min(unknown)!r}")
        rows = np.flatnonzero([place_id not in removed for place_id in self.places.place_id])
        if not len(rows):
            raise BadInputError(f"all {len(self):,} landmarks would be removed, but a map needs at least one")
        return self._of(self.places[rows], [(self.store, rows)], self.covariance[rows])

    def merge(self, other: "Map") -> "Map":
        """A map of the landmarks of both, those of this one first; it keeps this one's calibration and storage.

        Both must be of one encoder and in one frame (or in frames that differ in origin alone and know their CRS, where
        this one's counts), and no landmark may be in both. Images that lie in the root folder of this one get paths
        below it; with others, the folder that holds both becomes the root, as paths cannot lead out of it.
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
                raise BadInputError(f"the map has {name} {own!r}, but what is added has {name} {given!r}")
        twice = set(self.places.place_id) & set(other.places.place_id)
        if twice:
            raise BadInputError(f"the map has a landmark {min(twice)!r} already")
        parts = [(one.store, np.arange(len(one))) for one in (self, other)]
        joined = self._of(
            concatenate([self.places, _below(self.places.root, other.places)]),
            parts,
            np.concatenate([self.covariance, other.covariance]),
        )
        return replace(joined, about=self.about or other.about)

    def with_calibration(self, calibration: "Calibration | None") -> "Map":
        """The same landmarks with another calibration."""
        return replace(self, calibration=calibration)

    def with_index(self, seed: int = 0) -> "Map":
        """The same landmarks with an approximate index, if they have none: for maps where exact search takes too long.

        Maps that are made from it by adding or removing landmarks have none again.
        """
        from mappable.maps.approximate import Approximate

        return replace(self, store=Approximate.build(self.store, seed=seed)) if isinstance(self.store, Exact) else self

    def _of(self, places: Places, parts: Sequence[tuple[Store, Ints]], covariance: Floats) -> "Map":
        """A map of other landmarks, whose descriptors are in rows of stores.

        Of its files those of the encoder and of the lens stay.
        """
        vectors = np.empty((len(places), self.store.dimensions), dtype=self.storage)
        filled = 0
        for store, rows in parts:
            for start in range(0, len(rows), BLOCK):
                block = rows[start : start + BLOCK]
                vectors[filled : filled + len(block)] = store.take(block)
                filled += len(block)
        files = {part: file for part, file in self.files.items() if part in ("encoder", "undistortion")}
        store = Exact(_read_only(vectors))
        return replace(self, places=places, store=store, covariance=_read_only(covariance), files=files)

    def save(self, folder: Path | str, encoder_file: Path | str | None = None) -> "Map":
        """Write the map to a folder of its own, and give it as it is there; a map that was there is replaced.

        `encoder_file` is the encoder's own, of which the folder keeps a copy, so that it is all that localization
        needs. If the process is killed, the older map stays as it was. Files that hold parts of this map already
        are not written again.

        A map that was opened in this folder is not saved if the map there changed in the meantime: saving would undo
        that change. Open the map again, and repeat your change.
        """
        from mappable.maps.folder import save_map  # here, so that a map in memory needs no library for files

        return save_map(self, Path(folder), None if encoder_file is None else Path(encoder_file))

    @classmethod
    def open(cls, folder: Path | str) -> "Map":
        """The map in a folder.

        Descriptors, encoder and index are read and checked when they are used for the first time; everything else is
        checked here.
        """
        from mappable.maps.folder import read_map

        return read_map(Path(folder))

    @classmethod
    def verify(cls, folder: Path | str) -> "Map":
        """As `open`, after all files were read and found to be what was written; else an error names the damaged."""
        from mappable.maps.folder import verify_map

        return verify_map(Path(folder))


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _below(root: Path, places: Places) -> Places:
    """The places with a root in the folder `root`, if all their files lie there; else as they are."""
    lowest = Path(os.path.commonpath([file.parent for file in places.files]))
    if places.root.is_relative_to(root) or not lowest.is_relative_to(root):
        return places
    return places.replace(path=[file.relative_to(lowest).as_posix() for file in places.files], root=lowest)


def checked_covariance(covariance: Floats | None, places: Places) -> Floats:
    shape = (len(places), places.dimensions, places.dimensions)
    if covariance is None:
        return _read_only(np.full(shape, np.nan))
    if covariance.shape != shape:
        raise BadInputError(f"covariances have shape {covariance.shape}, but must have {shape}")
    measured = np.asarray(np.isnan(covariance).all(axis=(1, 2)))
    given = np.where(measured[:, None, None], np.eye(places.dimensions), covariance)
    sound = np.asarray(np.isfinite(given).all(axis=(1, 2)))
    sound[sound] = np.linalg.eigvalsh(given[sound]).min(axis=1) > 0
    if not sound.all():
        row = int(np.flatnonzero(~sound)[0])
        raise BadInputError(f"the covariance of place {row} ({places.place_id[row]!r}) is not positive definite")
    return _read_only(covariance.astype(np.float64))
