"""Oxford RobotCar: images of the center stereo camera, raw or preprocessed, with positions from INS, GPS or RTK.

    ROOT/                                             or the folder of one traversal
      2014-12-02-15-30-08/                            one folder per traversal
        stereo/centre/1417534213523471.png            raw: 1280x960, Bayer GBRG; the name is the time in microseconds
        gps/ins.csv  gps/gps.csv  gps/rtk.csv         the file that the option `poses` selects
      2014-12-02-15-30-08_stereo_centre_01/           preprocessed, instead of raw images: RGB, any size
        1417534213523471.png
      models/stereo_narrow_left_distortion_lut.bin    optional, from the SDK of the data set: undistorts raw images

The reader also finds files in other places:

- archives, each unpacked into a folder with the name of the archive
  (`<traversal>_stereo_centre_01/<traversal>/stereo/centre/`, `<traversal>_gps/<traversal>/gps/`)
- poses in `<traversal>_gps/gps/`, `<traversal>_gps/` or `<traversal>/`, and RTK poses in
  `rtk/<traversal>/`
- the folder `models` in `sdk/` or `robotcar-dataset-sdk/`. Without its look-up table raw images
  stay distorted, and a note says so.

Poses are read by column name: `timestamp`, `northing`, `easting`, `utm_zone`, and `down` (or
`altitude`). INS and RTK files also have `yaw` (radians clockwise from north), and INS files have
`ins_status`. x is the easting minus 619,500 m, y is the northing minus 5,735,000 m, z is up.

The pose of an image is interpolated linearly in time between the samples before and after it; the
yaw turns along the shorter arc. Images outside the time span of the poses, and images in a gap of
more than 0.5 s, are left out and listed. A sample that is not a finite number, or whose status is
not INS_SOLUTION_GOOD, is listed and treated as missing. At 50 samples per second, one bad row
therefore costs no image.

`protocol=paper` reads the seven traversals of the paper with its train and test split, the first
1,250 m of each.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.routes import crop_by_length
from mappable.places.table import Places
from mappable.readers.toolkit import (
    compare_with_paper,
    joined,
    numbered_images,
    short_path,
    unknown,
)
from mappable.readers.tracks import TimedImages, Track
from mappable.readers.zones import zone_code
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
# Columns besides time and position.
EXTRA = {"ins": ["yaw", "ins_status"], "rtk": ["yaw"], "gps": []}

RAW_FOLDER = "stereo/centre"
CHUNK = re.compile(r"(.+)_stereo_centre_(\d+)")
# The center camera is the left camera of the narrow pair.
LOOK_UP_TABLE = "stereo_narrow_left_distortion_lut.bin"


def read(
    root: Path,
    found: Findings,
    *,
    poses: Annotated[
        Source, "file with the positions: ins.csv, gps.csv (no yaw) or rtk.csv"
    ] = "ins",
    protocol: Annotated[
        Literal["all", "paper"],
        "all traversals on disk, uncropped; or the seven of the paper with its split and crop",
    ] = "all",
    crop: Annotated[
        Crop,
        "for protocol paper; own: the first 1,250 m of each traversal; reference: all images within"
        " 25 m of the first "
        "1,250 m of 2014-12-02-15-30-08",
    ] = "own",
    models: Annotated[
        Path | None, "folder with the camera models of the SDK (default: found in ROOT)"
    ] = None,
) -> Places:
    if crop == "reference" and protocol != "paper":
        raise BadInputError("crop=reference needs protocol=paper; protocol=all does not crop")
    raw, traversals = _traversals(root)
    decoding = _decoding(root, raw, models, found)
    if protocol == "paper":
        others = sorted(traversals.keys() - PAPER.keys())
        found.note("traversals are not used in the paper and were left out", others, warning=False)
        found.note(
            "of the seven traversals of the paper are missing",
            sorted(PAPER.keys() - traversals.keys()),
        )
        traversals = {name: folders for name, folders in traversals.items() if name in PAPER}
    tables = [_read(root, name, traversals[name], poses, found) for name in sorted(traversals)]
    places = joined(root, tables).replace(decoding=decoding)
    return _as_in_paper(places, crop, found) if protocol == "paper" and len(places) else places


def _traversals(root: Path) -> tuple[bool, dict[str, list[Path]]]:
    """Whether images are raw, and the folders of the images of each traversal."""
    raw: dict[str, list[Path]] = {}
    chunks: dict[str, list[Path]] = {}
    for level in ("", "*/", "*_stereo_centre_*/*/"):
        for folder in sorted(root.glob(level + RAW_FOLDER)):
            raw.setdefault(folder.resolve().parents[1].name, []).append(folder)
    for folder in sorted(root.glob("*_stereo_centre_*")):
        if (match := CHUNK.fullmatch(folder.name)) and not (
            folder / match[1] / RAW_FOLDER
        ).is_dir():
            chunks.setdefault(match[1], []).append(folder)
    if raw and chunks:
        what = f"{next(iter(raw))} is raw, {next(iter(chunks))} is preprocessed"
        raise BadInputError(f"{root}: {what}; move one of them to another folder")
    if not raw and not chunks:
        expected = "<traversal>/stereo/centre or <traversal>_stereo_centre_<number>"
        raise BadInputError(f"{root}: no traversals; expected {expected}")
    return bool(raw), raw or chunks


def _decoding(root: Path, raw: bool, models: Path | None, found: Findings) -> RawDecoding | None:
    if not raw:
        if models:
            raise BadInputError(
                f"models={models} is only for raw images, but the images in {root} are preprocessed"
            )
        return None
    if models and not (models / LOOK_UP_TABLE).is_file():
        raise BadInputError(f"{models}: this folder has no {LOOK_UP_TABLE}")
    folders = (
        [models]
        if models
        else [root / at / "models" for at in (".", "sdk", "robotcar-dataset-sdk")]
    )
    table = next((file for folder in folders if (file := folder / LOOK_UP_TABLE).is_file()), None)
    if table is None:
        found.say(f"found no {LOOK_UP_TABLE}, so the images stay distorted")
    return RawDecoding("GBRG", str(table.resolve()) if table else None)


def _read(root: Path, name: str, folders: list[Path], source: Source, found: Findings) -> Places:
    """The images of one traversal that have a pose, in time order."""
    images = _images(root, name, folders, found)
    drive, apart = root if root.resolve().name == name else root / name, root / f"{name}_gps"
    homes = [drive / "gps", drive, apart / name / "gps", apart / "gps", apart, root / source / name]
    file = next((file for home in homes if (file := home / f"{source}.csv").is_file()), None)
    if not images.paths:
        found.note("traversals have no images", [name])
    elif file is None:
        found.note(
            f"traversals have no {source}.csv and were left out",
            [f"{name}: {len(images.paths):,} images"],
        )
    if not images.paths or file is None:
        return joined(root, [])
    track, frame = _track(file, source, found)
    condition = PAPER.get(name, ("", ""))[1]
    return images.place(
        root, frame, name, track, MAX_GAP, found, f"their {source} poses", condition=condition
    )


def _images(root: Path, name: str, folders: list[Path], found: Findings) -> TimedImages:
    """The images of a traversal. Missing folders are noted: a crop counts from the first image."""
    images: dict[int, str] = {}
    for folder in folders:
        named = numbered_images(root, folder, found, r"\d{16}", "<microseconds>.png", "us")
        again = (path for time, path in named.items() if time in images)
        found.note(
            "images have the same time as another image of their traversal and were left out", again
        )
        images = dict(sorted((named | images).items())) if images else named
    chunks = {
        int(match[2])
        for folder in folders
        if (match := CHUNK.fullmatch(folder.relative_to(root).parts[0]))
    }
    missing = sorted(set(range(1, max(chunks, default=0))) - chunks)
    found.note(
        "folders of images are missing",
        (f"{name}_stereo_centre_{number:02d}" for number in missing),
    )
    return TimedImages.numbered(images)


def _track(file: Path, source: Source, found: Findings) -> tuple[Track, Frame]:
    """The samples of one pose file, and their frame."""
    table = read_csv(file, delimiter=",")
    sign, height = (
        (1, "altitude")
        if "altitude" in table.columns and "down" not in table.columns
        else (-1, "down")
    )
    table.require("timestamp", "easting", "northing", height, "utm_zone", *EXTRA[source])
    time = table.times("timestamp", "us")
    xyz = np.column_stack(
        [_numbers(table, "easting"), _numbers(table, "northing"), sign * _numbers(table, height)]
    )
    yaw = yaw_from_compass(_numbers(table, "yaw") if source != "gps" else unknown(len(table)))
    finite = np.isfinite(xyz).all(axis=1) & (np.isfinite(yaw) | (source == "gps"))
    good = np.full(len(table), True)
    if source == "ins":
        good = np.array(table.texts("ins_status"), dtype=object) == "INS_SOLUTION_GOOD"
    for text, bad in (
        ("pose samples are not finite numbers and are treated as missing", good & ~finite),
        (
            "pose samples have a status other than INS_SOLUTION_GOOD and are treated as missing",
            ~good,
        ),
    ):
        found.note(
            text,
            (f"{short_path(file)}, row {table.row_numbers[row]}" for row in np.flatnonzero(bad)),
        )
    rows = np.flatnonzero(good & finite)
    if len(rows) == 0:
        raise BadInputError(f"{file}: no usable pose sample")
    table = replace(table, columns={"utm_zone": table.columns["utm_zone"]}).at(rows.tolist())
    return Track.ordered(table, time[rows], (xyz - OXFORD.origin)[rows], found, yaw[rows]), _frame(
        table
    )


def _numbers(table: Table, name: str) -> Floats:
    """A column of numbers; NaN if the value is missing or not finite."""
    values = np.array(
        table.parse(name, lambda text: float(text or "nan"), "expected a number"), dtype=np.float64
    )
    return np.where(np.isfinite(values), values, np.nan)


def _frame(table: Table) -> Frame:
    """The frame in the UTM zone that all rows share."""
    zones = table.columns["utm_zone"]
    code = {zone: zone_code(zone[:-1], zone[-1:], 0) for zone in set(zones)}
    known = {zone: number for zone, (number, problem) in code.items() if number and not problem}
    table.refuse(
        np.array([zone not in known for zone in zones]),
        "utm_zone",
        "expected a UTM zone such as 30U",
    )
    first = known[zones[0]]
    others = np.array([known[zone] != first for zone in zones])
    table.refuse(others, "utm_zone", f"expected the zone of the earlier rows, {zones[0]}")
    return replace(OXFORD, crs=f"EPSG:{first}")


def _as_in_paper(places: Places, crop: Crop, found: Findings) -> Places:
    """The crop and the split of the paper, with a note that compares the numbers of images with the
    paper.
    """
    kept = crop_by_length(places, CROP_LENGTH)
    reference, what = kept.where(sequence=REFERENCE), f"to their first {CROP_LENGTH:,.0f} m"
    if crop == "reference":
        if len(reference) == 0:
            raise BadInputError(
                f"{places.root}: crop=reference needs images of {REFERENCE} with poses"
            )
        kept = places[KDTree(reference.positions).query(places.positions)[0] <= REFERENCE_RADIUS]
        what = (
            f"to the images within {REFERENCE_RADIUS:g} m of the first {CROP_LENGTH:,.0f} m of"
            f" {REFERENCE}"
        )
    elif len(reference):
        starts = {name: places.positions[rows[0]] for name, rows in places.sequences().items()}
        apart = {
            name: float(np.linalg.norm(start - starts[REFERENCE])) for name, start in starts.items()
        }
        far = (
            f"{name}: {distance:,.0f} m"
            for name, distance in apart.items()
            if distance > REFERENCE_RADIUS
        )
        found.note(
            f"traversals start far from {REFERENCE}; use crop=reference to make them overlap", far
        )
    before, after = places.sequences(), kept.sequences()
    counts = (
        f"{name}: {len(after.get(name, ())):,} of {len(rows):,} images"
        for name, rows in before.items()
    )
    found.note(f"traversals were cropped {what}", counts, warning=False)
    kept = kept.replace(split=[PAPER[name][0] for name in kept.sequence])
    compare_with_paper(kept, PAPER_COUNTS, found)
    return kept
