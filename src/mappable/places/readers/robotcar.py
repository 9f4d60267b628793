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

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.geodesy import utm_zone_crs
from mappable.places.joining import concatenate
from mappable.places.notes import Findings, Note, count_beside_paper, warn
from mappable.places.routes import crop_by_length
from mappable.places.table import Places
from mappable.places.tracks import Track, rising
from mappable.tables import Table, read_csv

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
TIMESTAMP = re.compile(r"0*[1-9]\d{15}")  # microseconds since 1970, for dates from 2001 to 2286
UTM_ZONE = re.compile(r"0?([1-9]|[1-5]\d|60)([C-HJ-NP-X])")
LOOK_UP_TABLE = "stereo_narrow_left_distortion_lut.bin"  # the center camera is the left camera of the narrow pair


def read(
    root: Path,
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
    traversals = _find_traversals(root)
    decoding, notes = _decoding(root, traversals, models)
    if protocol == "paper":
        others = tuple(one.name for one in traversals if one.name not in PAPER)
        notes += (
            [Note("traversals are not used in the paper and were left out", others, warning=False)] if others else []
        )
        missing = sorted(PAPER.keys() - {one.name for one in traversals})
        notes += warn("of the seven traversals of the paper are missing", missing)
        traversals = [one for one in traversals if one.name in PAPER]
    findings = Findings()
    tables = [_read_traversal(root, one, poses, findings) for one in traversals]
    notes += findings.notes()
    places = _joined([table for table in tables if len(table)], root)
    if protocol == "paper" and len(places):
        places, more = _as_in_paper(places, crop)
        notes += more
    return places.replace(decoding=decoding, notes=notes)


@dataclass(frozen=True)
class Traversal:
    """One drive: its folder `home`, which may not exist for preprocessed sets, and the folders of its images."""

    name: str
    home: Path
    raw: bool
    image_folders: list[Path]


def _find_traversals(root: Path) -> list[Traversal]:
    """The traversals, sorted by name: all raw, or all preprocessed."""
    if not root.is_dir():
        raise BadInputError(f"{root}: not a folder")
    if (root / RAW_FOLDER).is_dir():
        return [Traversal(root.resolve().name, root, raw=True, image_folders=[root / RAW_FOLDER])]
    found: dict[tuple[str, bool], Traversal] = {}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        chunk = CHUNK_FOLDER.fullmatch(folder.name)
        name = chunk.group(1) if chunk else folder.name
        raw_folder = (folder / name if chunk else folder) / RAW_FOLDER
        raw = raw_folder.is_dir()
        if raw or chunk:
            one = found.setdefault((name, raw), Traversal(name, root / name, raw, []))
            one.image_folders.append(raw_folder if raw else folder)
    if not found:
        raise BadInputError(
            f"{root}: no traversals; expected <traversal>/stereo/centre or <traversal>_stereo_centre_<number>"
        )
    kinds = {one.raw: one.name for one in found.values()}
    if len(kinds) > 1:
        raise BadInputError(
            f"{root}: {kinds[True]} is raw, {kinds[False]} is preprocessed; move one of them to another folder"
        )
    return sorted(found.values(), key=lambda one: one.name)


def _decoding(root: Path, traversals: list[Traversal], models: Path | None) -> tuple[RawDecoding | None, list[Note]]:
    if not traversals[0].raw:
        if models:
            raise BadInputError(f"models={models} is only for raw images, but the images in {root} are preprocessed")
        return None, []
    if models and not (models / LOOK_UP_TABLE).is_file():
        raise BadInputError(f"{models}: this folder has no {LOOK_UP_TABLE}")
    folders = [models] if models else [root / at / "models" for at in (".", "sdk", "robotcar-dataset-sdk")]
    table = next((file for folder in folders if (file := folder / LOOK_UP_TABLE).is_file()), None)
    if table is None:
        return RawDecoding("GBRG"), [Note(f"found no {LOOK_UP_TABLE}, so the images stay distorted")]
    return RawDecoding("GBRG", str(table.resolve())), []


def _read_traversal(root: Path, traversal: Traversal, source: Source, findings: Findings) -> Places:
    """The images of one traversal that have a pose, in time order; problems go to `findings`."""
    name = traversal.name
    images = _find_images(root, traversal, findings)
    pose_file = _find_poses(root, traversal, source)
    if not images:
        findings["traversals have no images"].append(name)
    elif pose_file is None:
        findings[f"traversals have no {source}.csv and were left out"].append(f"{name}: {len(images):,} images")
    if not images or pose_file is None:
        return Places(path=[], x=[], y=[], frames=OXFORD)
    poses = _read_poses(root, pose_file, source, findings)
    place_ids = np.array([f"{name}/{microseconds}" for microseconds in images], dtype=object)
    time = np.array(list(images), dtype=np.int64) * 1000
    at = poses.track.at(time)
    gap = at.inside & (at.gap_s > MAX_GAP)
    bad = at.inside & ~gap & ~(poses.good[at.before] & poses.good[at.after])
    usable = np.flatnonzero(at.inside & ~gap & ~bad)
    for what, rows in (
        (f"images are outside the time span of their {source} poses", ~at.inside),
        (f"images are in a gap of more than {MAX_GAP} s in their {source} poses", gap),
        ("images are next to an INS sample whose status is not INS_SOLUTION_GOOD", bad),
    ):
        findings[what] += place_ids[rows].tolist()
    return Places(
        path=np.array(list(images.values()), dtype=object)[usable],
        root=root,
        x=at.xyz[usable, 0],
        y=at.xyz[usable, 1],
        z=at.xyz[usable, 2],
        yaw=at.yaw[usable],
        time=time[usable],
        frames=poses.frame,
        sequence=name,
        condition=PAPER[name][1] if name in PAPER else "",
        place_id=place_ids[usable],
    )


def _find_images(root: Path, traversal: Traversal, findings: Findings) -> dict[int, str]:
    """The images of a traversal in time order: time in microseconds to path below the root."""
    images: dict[int, str] = {}
    for folder in traversal.image_folders:
        inner = folder.relative_to(root).as_posix()
        with os.scandir(folder) as entries:  # plain names, because 30,000 Path objects are slow
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        for name in names:
            path, stem = f"{inner}/{name}", name.removesuffix(".png")
            if stem == name or not TIMESTAMP.fullmatch(stem):
                findings["files are not named <microseconds>.png"].append(path)
            elif images.setdefault(int(stem), path) != path:
                findings["images have the same time as another image of their traversal and were left out"].append(path)
    _note_missing_images(root, traversal, images, findings)
    return dict(sorted(images.items()))


def _note_missing_images(root: Path, traversal: Traversal, images: dict[int, str], findings: Findings) -> None:
    """List images missing from a partial download, because a crop by length starts at the first image on disk."""
    folders = (CHUNK_FOLDER.fullmatch(folder.relative_to(root).parts[0]) for folder in traversal.image_folders)
    chunks = {int(match.group(2)) for match in folders if match}
    missing = sorted(set(range(1, max(chunks, default=0))) - chunks)
    findings["folders of images are missing"] += [f"{traversal.name}_stereo_centre_{chunk:02d}" for chunk in missing]
    listing = traversal.home / "stereo.timestamps"
    if listing.is_file():
        words = listing.read_text("utf-8", errors="replace").split()
        expected = {int(word) for word in words if TIMESTAMP.fullmatch(word)}
        absent = len(expected - images.keys())
        item = f"{traversal.name}: {absent:,} of {len(expected):,}"
        findings["traversals lack images that are listed in stereo.timestamps"] += [item] if absent else []


def _find_poses(root: Path, traversal: Traversal, source: Source) -> Path | None:
    name, apart = traversal.name, root / f"{traversal.name}_gps"
    folders = [traversal.home / "gps", traversal.home, apart / name / "gps", apart / "gps", apart, root / source / name]
    return next((file for folder in folders if (file := folder / f"{source}.csv").is_file()), None)


@dataclass(frozen=True)
class Poses:
    """The samples of one pose file in time order, a mask of those with good status, and their frame."""

    track: Track
    good: Bools
    frame: Frame


def _read_poses(root: Path, file: Path, source: Source, findings: Findings) -> Poses:
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
        good = np.array([status == "INS_SOLUTION_GOOD" for status in table.texts("ins_status")], dtype=bool)

    def note(text: str, rows: Iterable[int]) -> None:
        findings[text] += [f"{file.relative_to(root).as_posix()}, row {table.row_numbers[row]}" for row in rows]

    note("pose samples are not finite numbers and are treated as missing", np.flatnonzero(good & ~finite))
    # Keep every sample of bad status: it marks the images next to it as unreliable.
    rows = np.flatnonzero(finite | ~good)
    if len(rows) == 0:
        raise BadInputError(f"{file}: no usable pose sample")
    kept, late, again = rising(time[rows])
    note("pose samples were out of time order and were sorted", rows[late])
    note("pose samples have the same time as an earlier sample and were left out", rows[again])
    rows = rows[kept]
    return Poses(Track(time[rows], xyz[rows], yaw[rows]), good[rows], _frame(table, np.flatnonzero(good & finite)))


def _nanoseconds(microseconds: str) -> int:
    if not TIMESTAMP.fullmatch(microseconds):
        raise ValueError(microseconds)
    return int(microseconds) * 1000


def _numbers(table: Table, name: str) -> Floats:
    """A column of numbers; NaN if the value is missing or not finite."""
    values = np.array(table.parse(name, lambda text: float(text or "nan"), "expected a number"), dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _frame(table: Table, rows: Ints) -> Frame:
    """The frame in the UTM zone that these rows share; the zone of Oxford if there are no rows."""
    zones = table.texts("utm_zone")
    first = _crs(zones[rows[0]]) if len(rows) else OXFORD.crs
    for row in rows:
        crs = _crs(zones[row])
        if crs is None:
            raise table.bad(row, "utm_zone", "expected a UTM zone such as 30U")
        if crs != first:
            raise table.bad(row, "utm_zone", f"expected {zones[rows[0]]} as in the earlier rows")
    return replace(OXFORD, crs=first)


@cache
def _crs(utm_zone: str) -> str | None:
    match = UTM_ZONE.fullmatch(utm_zone)
    return utm_zone_crs(int(match.group(1)), south=match.group(2) < "N") if match else None


def _joined(tables: list[Places], root: Path) -> Places:
    if not tables:
        return Places(path=[], x=[], y=[], frames=OXFORD, root=root)
    zones = {table.frames["oxford"].crs: str(table.sequence[0]) for table in tables}
    if len(zones) > 1:
        listed = ", ".join(f"{name} in {crs}" for crs, name in zones.items())
        raise BadInputError(f"{root}: the traversals are in different UTM zones ({listed}); convert them one by one")
    return concatenate(tables)


def _as_in_paper(places: Places, crop: Crop) -> tuple[Places, list[Note]]:
    """The crop and the split of the paper, with a note that compares the numbers of images with the paper."""
    notes: list[Note] = []
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
        apart = {name: np.linalg.norm(start - first[REFERENCE]) for name, start in first.items()}
        far = [f"{name}: {distance:,.0f} m" for name, distance in apart.items() if distance > REFERENCE_RADIUS]
        notes += warn(f"traversals start far from {REFERENCE}; use crop=reference to make them overlap", far)
    before, after = ({name: len(rows) for name, rows in table.sequences().items()} for table in (places, kept))
    counts = tuple(f"{name}: {after.get(name, 0):,} of {before[name]:,} images" for name in before)
    notes.append(Note(f"traversals were cropped {what}", counts, warning=False))
    kept = kept.replace(split=[PAPER[name][0] for name in kept.sequence])
    notes.append(
        count_beside_paper([(name, len(kept.where(split=name)), paper) for name, paper in PAPER_COUNTS.items()])
    )
    return kept, notes
