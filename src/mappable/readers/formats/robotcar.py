"""Oxford RobotCar: images of the center stereo camera, raw or preprocessed, with positions from INS, GPS or RTK.

    ROOT/                                             or the folder of one traversal
      2014-12-02-15-30-08/                            one folder per traversal
        stereo/centre/1417534213523471.png            raw: 1280x960, Bayer GBRG; the name is the time in microseconds
        stereo.timestamps                             optional: the times of all images, to detect missing images
        gps/ins.csv  gps/gps.csv  gps/rtk.csv         the file that the option `poses` selects
      2014-12-02-15-30-08_stereo_centre_01/           preprocessed, instead of raw images: RGB, any size
        1417534213523471.png
      models/stereo_narrow_left_distortion_lut.bin    optional, from the SDK of the data set: undistorts raw images

The reader also finds files in other places:

- archives, each unpacked into a folder with the name of the archive
  (`<traversal>_stereo_centre_01/<traversal>/stereo/centre/`, `<traversal>_gps/<traversal>/gps/`)
- poses in `<traversal>_gps/gps/`, `<traversal>_gps/` or `<traversal>/`, and RTK poses in `rtk/<traversal>/`
- the folder `models` in `sdk/` or `robotcar-dataset-sdk/`. Without its look-up table raw images stay distorted, and a
  note says so.

Poses are read by column name: `timestamp`, `northing`, `easting`, `utm_zone`, and `down` (or `altitude`). INS and RTK
files also have `yaw` (radians clockwise from north), and INS files have `ins_status`. x is the easting minus 619,500 m,
y is the northing minus 5,735,000 m, z is up.

The pose of an image is interpolated linearly in time between the samples before and after it; the yaw turns along the
shorter arc. Images outside the time span of the poses, and images in a gap of more than 0.5 s, are left out and listed.
So are images next to an INS sample whose status is not INS_SOLUTION_GOOD. A sample that is not a finite number is
listed and treated as missing. At 50 samples per second, one bad row therefore costs no image.

`protocol=paper` reads the seven traversals of the paper with its train and test split, the first 1,250 m of each.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.geodesy import utm_zone_crs
from mappable.places.notes import Findings
from mappable.places.routes import crop_by_length
from mappable.places.table import Places
from mappable.readers.toolkit import drive_table, joined, numbered_images
from mappable.readers.tracks import Track, in_time_order, short_path
from mappable.tables import Table, read_csv

LAYOUT = ("stereo/centre", "*/stereo/centre", "*_stereo_centre_*")
Source = Literal["ins", "gps", "rtk"]
Crop = Literal["own", "reference"]
PAPER = {  # traversal: (split, condition)
    "2014-11-18-13-20-12": ("train", "sun"),
    "2014-12-17-18-18-43": ("train", "night-rain"),
    "2015-02-03-08-45-10": ("train", "snow"),
    "2014-12-02-15-30-08": ("train", "overcast"),
    "2015-02-13-09-16-26": ("test", "overcast"),
    "2014-12-16-18-44-24": ("test", "night"),
    "2015-10-29-12-18-17": ("test", "rain"),
}
PAPER_COUNTS = {"train": 15_006, "test": 12_329}
CROP_LENGTH = 1250.0  # metres: the paper's "first 1.25 km"
REFERENCE = "2014-12-02-15-30-08"
REFERENCE_RADIUS = 25.0  # metres around the first 1.25 km of the reference

# The origin is fixed, so that all tables agree.
OXFORD = Frame("oxford", crs="EPSG:32630", origin=(619_500.0, 5_735_000.0, 0.0))
MAX_GAP = 0.5  # largest time in seconds between the samples before and after an image

RAW_FOLDER = Path("stereo/centre")
CHUNK_FOLDER = re.compile(r"(.+)_stereo_centre_(\d+)")
TIMESTAMP = r"0*[1-9]\d{15}"  # microseconds since 1970, for dates from 2001 to 2286
MICROSECONDS = re.compile(TIMESTAMP, re.ASCII)
UTM_ZONE = re.compile(r"0?([1-9]|[1-5]\d|60)([C-HJ-NP-X])")
LOOK_UP_TABLE = "stereo_narrow_left_distortion_lut.bin"  # the center camera is the left camera of the narrow pair


def read(
    root: Path,
    found: Findings,
    *,
    poses: Annotated[Source, "file with the positions: ins.csv, gps.csv (no yaw) or rtk.csv"] = "ins",
    protocol: Annotated[
        Literal["all", "paper"], "all traversals on disk, uncropped; or the seven of the paper with its split and crop"
    ] = "all",
    crop: Annotated[
        Crop,
        "for protocol paper; own: the first 1,250 m of each traversal; reference: all images within 25 m of the first "
        "1,250 m of 2014-12-02-15-30-08",
    ] = "own",
    models: Annotated[Path | None, "folder with the camera models of the SDK (default: found in ROOT)"] = None,
) -> Places:
    if crop == "reference" and protocol != "paper":
        raise BadInputError("crop=reference needs protocol=paper; protocol=all does not crop")
    traversals = _traversals(root)
    decoding = _decoding(root, traversals[0].raw, models, found)
    if protocol == "paper":
        names = [one.name for one in traversals]
        others = (name for name in names if name not in PAPER)
        found.note("traversals are not used in the paper and were left out", others, warning=False)
        found.note("of the seven traversals of the paper are missing", sorted(PAPER.keys() - set(names)))
        traversals = [one for one in traversals if one.name in PAPER]
    tables = [table for one in traversals if len(table := _read(root, one, poses, found))]
    zones = {table.frames["oxford"].crs: str(table.sequence[0]) for table in tables}
    if len(zones) > 1:
        listed = ", ".join(f"{name} in {crs}" for crs, name in zones.items())
        raise BadInputError(f"{root}: the traversals are in different UTM zones ({listed}); convert them one by one")
    places = joined(root, tables).replace(decoding=decoding)
    return _as_in_paper(places, crop, found) if protocol == "paper" and len(places) else places


@dataclass(frozen=True)
class _Traversal:
    """One drive: its folder `home`, which may not exist for preprocessed sets, and the folders of its images."""

    name: str
    home: Path
    raw: bool
    folders: list[Path]


def _traversals(root: Path) -> list[_Traversal]:
    """The traversals, sorted by name: all raw, or all preprocessed."""
    if not root.is_dir():
        raise BadInputError(f"{root}: not a folder")
    if (root / RAW_FOLDER).is_dir():
        return [_Traversal(root.resolve().name, root, raw=True, folders=[root / RAW_FOLDER])]
    known: dict[tuple[str, bool], _Traversal] = {}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        chunk = CHUNK_FOLDER.fullmatch(folder.name)
        name = chunk[1] if chunk else folder.name
        images = (folder / name if chunk else folder) / RAW_FOLDER
        raw = images.is_dir()
        if raw or chunk:
            traversal = known.setdefault((name, raw), _Traversal(name, root / name, raw, []))
            traversal.folders.append(images if raw else folder)
    if not known:
        expected = "<traversal>/stereo/centre or <traversal>_stereo_centre_<number>"
        raise BadInputError(f"{root}: no traversals; expected {expected}")
    kinds = {traversal.raw: traversal.name for traversal in known.values()}
    if len(kinds) > 1:
        what = f"{kinds[True]} is raw, {kinds[False]} is preprocessed"
        raise BadInputError(f"{root}: {what}; move one of them to another folder")
    return [known[key] for key in sorted(known)]


def _decoding(root: Path, raw: bool, models: Path | None, found: Findings) -> RawDecoding | None:
    if not raw:
        if models:
            raise BadInputError(f"models={models} is only for raw images, but the images in {root} are preprocessed")
        return None
    if models and not (models / LOOK_UP_TABLE).is_file():
        raise BadInputError(f"{models}: this folder has no {LOOK_UP_TABLE}")
    folders = [models] if models else [root / at / "models" for at in (".", "sdk", "robotcar-dataset-sdk")]
    table = next((file for folder in folders if (file := folder / LOOK_UP_TABLE).is_file()), None)
    if table is None:
        found.say(f"found no {LOOK_UP_TABLE}, so the images stay distorted")
    return RawDecoding("GBRG", str(table.resolve()) if table else None)


def _read(root: Path, traversal: _Traversal, source: Source, found: Findings) -> Places:
    """The images of one traversal that have a pose, in time order."""
    name, images = traversal.name, _images(root, traversal, found)
    file = _pose_file(root, traversal, source)
    if file is None or not images:
        found.note("traversals have no images", [] if images else [name])
        found.note(
            f"traversals have no {source}.csv and were left out", [f"{name}: {len(images):,} images"] if images else []
        )
        return joined(root, [])
    poses = _poses(file, source, found)
    paths, time = list(images.values()), np.array(list(images), dtype=np.int64) * 1000
    at = poses.track.at(time)
    rows = at.usable(paths, MAX_GAP, f"their {source} poses", found)
    good = poses.good[at.before[rows]] & poses.good[at.after[rows]]
    bad = (paths[row] for row in rows[~good])
    found.note("images are next to an INS sample whose status is not INS_SOLUTION_GOOD (left out)", bad)
    rows = rows[good]
    condition = PAPER.get(name, ("", ""))[1]
    kept = [paths[row] for row in rows]
    ids = [f"{name}/{microseconds}" for microseconds in (time[rows] // 1000).tolist()]
    values: dict[str, Any] = {"yaw": at.yaw[rows], "time": time[rows], "condition": condition, "place_id": ids}
    return drive_table(root, poses.frame, name, kept, at.xyz[rows], **values)


def _images(root: Path, traversal: _Traversal, found: Findings) -> dict[int, str]:
    """The images of a traversal by time in microseconds. Missing ones are noted: a crop counts from the first."""
    images: dict[int, str] = {}
    again = []
    for folder in traversal.folders:
        for number, path in numbered_images(root, folder, found, TIMESTAMP, "<microseconds>.png").items():
            if images.setdefault(number, path) != path:
                again.append(path)
    found.note("images have the same time as another image of their traversal and were left out", again)
    chunks = {int(match[2]) for folder in traversal.folders if (match := CHUNK_FOLDER.fullmatch(_top(root, folder)))}
    missing = sorted(set(range(1, max(chunks, default=0))) - chunks)
    found.note("folders of images are missing", (f"{traversal.name}_stereo_centre_{one:02d}" for one in missing))
    listing = traversal.home / "stereo.timestamps"
    if listing.is_file():
        words = listing.read_text("utf-8", errors="replace").split()
        expected = {int(word) for word in words if MICROSECONDS.fullmatch(word)}
        absent = len(expected - images.keys())
        text = "traversals lack images that are listed in stereo.timestamps"
        found.count(text, traversal.name, absent, len(expected))
    return dict(sorted(images.items()))


def _top(root: Path, folder: Path) -> str:
    return folder.relative_to(root).parts[0]


def _pose_file(root: Path, traversal: _Traversal, source: Source) -> Path | None:
    name, apart = traversal.name, root / f"{traversal.name}_gps"
    folders = [traversal.home / "gps", traversal.home, apart / name / "gps", apart / "gps", apart, root / source / name]
    return next((file for folder in folders if (file := folder / f"{source}.csv").is_file()), None)


@dataclass(frozen=True)
class _Poses:
    """The samples of one pose file in time order, a mask of those with good status, and their frame."""

    track: Track
    good: Bools
    frame: Frame


def _poses(file: Path, source: Source, found: Findings) -> _Poses:
    table = read_csv(file, delimiter=",")
    height = "altitude" if "altitude" in table.columns and "down" not in table.columns else "down"
    extra = {"ins": ["yaw", "ins_status"], "rtk": ["yaw"], "gps": []}[source]
    table.require("timestamp", "easting", "northing", height, "utm_zone", *extra)
    time = np.array(table.parse("timestamp", _nanoseconds, "expected microseconds since 1970"), dtype=np.int64)
    up = _numbers(table, height) * (1 if height == "altitude" else -1)
    xyz = np.column_stack([_numbers(table, "easting"), _numbers(table, "northing"), up]) - OXFORD.origin
    yaw = np.full(len(table), np.nan)
    finite, good = np.isfinite(xyz).all(axis=1), np.ones(len(table), dtype=bool)
    if "yaw" in extra:
        yaw = yaw_from_compass(_numbers(table, "yaw"))
        finite &= np.isfinite(yaw)
    if "ins_status" in extra:
        good = np.array(table.texts("ins_status"), dtype=object) == "INS_SOLUTION_GOOD"
    lost = (f"{short_path(file)}, row {table.row_numbers[row]}" for row in _rows(good & ~finite))
    found.note("pose samples are not finite numbers and are treated as missing", lost)
    # Keep every sample of bad status: it marks the images next to it as unreliable.
    rows = _rows(finite | ~good)
    if len(rows) == 0:
        raise BadInputError(f"{file}: no usable pose sample")
    rows = in_time_order(table, time, found, rows)
    return _Poses(Track(time[rows], xyz[rows], yaw[rows]), good[rows], _frame(table, _rows(good & finite)))


def _rows(mask: Bools) -> Ints:
    return np.flatnonzero(mask)


def _nanoseconds(microseconds: str) -> int:
    if not MICROSECONDS.fullmatch(microseconds):
        raise ValueError(microseconds)
    return int(microseconds) * 1000


def _numbers(table: Table, name: str) -> Floats:
    """A column of numbers; NaN if the value is missing or not finite."""
    values = np.array(table.parse(name, lambda text: float(text or "nan"), "expected a number"), dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _frame(table: Table, rows: Iterable[int]) -> Frame:
    """The frame in the UTM zone that these rows share; the zone of Oxford if there are no rows."""
    first: str | None = None
    for row in rows:
        crs = _crs(table.columns["utm_zone"][row])
        if crs is None:
            raise table.bad(row, "utm_zone", "expected a UTM zone such as 30U")
        first = first or crs
        if crs != first:
            raise table.bad(row, "utm_zone", f"expected the zone of the earlier rows, {first}")
    return replace(OXFORD, crs=first or OXFORD.crs)


@cache
def _crs(utm_zone: str) -> str | None:
    match = UTM_ZONE.fullmatch(utm_zone)
    return utm_zone_crs(int(match[1]), south=match[2] < "N") if match else None


def _as_in_paper(places: Places, crop: Crop, found: Findings) -> Places:
    """The crop and the split of the paper, with a note that compares the numbers of images with the paper."""
    kept = crop_by_length(places, CROP_LENGTH)
    reference, what = kept.where(sequence=REFERENCE), f"to their first {CROP_LENGTH:,.0f} m"
    if crop == "reference":
        if len(reference) == 0:
            raise BadInputError(f"{places.root}: crop=reference needs images of {REFERENCE} with poses")
        distance, _ = KDTree(reference.positions).query(places.positions)
        kept = places[distance <= REFERENCE_RADIUS]
        what = f"to the images within {REFERENCE_RADIUS:g} m of the first {CROP_LENGTH:,.0f} m of {REFERENCE}"
    elif len(reference):
        first = {name: places.positions[rows[0]] for name, rows in places.sequences().items()}
        apart = {name: float(np.linalg.norm(start - first[REFERENCE])) for name, start in first.items()}
        far = (f"{name}: {distance:,.0f} m" for name, distance in apart.items() if distance > REFERENCE_RADIUS)
        found.note(f"traversals start far from {REFERENCE}; use crop=reference to make them overlap", far)
    before, after = ({name: len(rows) for name, rows in table.sequences().items()} for table in (places, kept))
    counts = (f"{name}: {after.get(name, 0):,} of {before[name]:,} images" for name in before)
    found.note(f"traversals were cropped {what}", counts, warning=False)
    kept = kept.replace(split=[PAPER[name][0] for name in kept.sequence])
    numbers = {split: len(kept.where(split=split)) for split in PAPER_COUNTS}
    parts = (f"{split} {numbers[split]:,} images (paper: {paper:,})" for split, paper in PAPER_COUNTS.items())
    found.say("; ".join(parts), warning=False)
    return kept
