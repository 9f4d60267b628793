"""Pittsburgh 250k and 30k: street panoramas cut into views, with positions from .mat files.

    ROOT/
      000/                          the database
        000000_pitch1_yaw1.jpg      panorama, pitch 1 or 2, yaw 1 to 12
      queries_real/
        000/000000_pitch1_yaw1.jpg
      datasets/                     or in ROOT itself:
        pitts250k_train.mat         also _val, _test
        pitts30k_train.mat          also _val, _test
        pittsburgh.mat              all of 250k

With .mat files (`dbImageFns`, `utmDb`, `qImageFns` and `utmQ` are in a struct `dbStruct` or at the top level):

- `x` and `y` are east and north in UTM zone 17N (EPSG:32617), in the frame `pittsburgh`.
- `split` is train, calibration (the val files) or test. pittsburgh.mat lists the whole set and has no splits.
- `role` is reference for the database and query for queries_real. An image that is listed twice is an error.
- The .mat files decide which images are read. An image that is not on disk is only detected when pixels are packed.

Without .mat files, positions are unknown. The table then has one use: to cluster images. `x` is the number of the
panorama, in the frame `pittsburgh-unposed` (or `pittsburgh-unposed-queries`). The unit of the frame is frames, never
metres. `y` is 0 and `split` is empty.

`yaw` is unknown, because yaw1 to yaw12 count views within a panorama and the direction of north is not known. There are
no times. `sequence` is `database/` or `queries/` and the first three digits of the number of the panorama.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.matlab import read_matlab
from mappable.places.notes import Note, warn
from mappable.places.readers import image_files
from mappable.places.table import Places

CRS = "EPSG:32617"
QUERIES = "queries_real"
NAME = re.compile(r"([0-9]{6})_pitch([12])_yaw(?:[1-9]|1[0-2])\.jpg")
LISTED = re.compile(rf"(?:{QUERIES}/)?[0-9]{{3}}/{NAME.pattern}")
NOT_NAMED = "images are not named <panorama>_pitch<1, 2>_yaw<1 to 12>.jpg in a folder with a name of three digits"

SPLITS = {"train": "train", "val": "calibration", "test": "test"}  # split by the word in the file name
SUBSETS = {name: [f"{name}_{word}.mat" for word in SPLITS] for name in ("pitts250k", "pitts30k")}
WHOLE_SET = "pittsburgh.mat"
FIELDS = {"reference": ("dbImageFns", "utmDb"), "query": ("qImageFns", "utmQ")}
PUBLISHED = dict(zip(SUBSETS["pitts250k"], (91_464, 78_648, 83_952), strict=True))  # number of database images
PUBLISHED |= dict.fromkeys(SUBSETS["pitts30k"], 10_000) | {WHOLE_SET: 254_064}


class _View(NamedTuple):
    """One image: path relative to ROOT, number of the panorama (six digits), and further columns."""

    path: str
    panorama: str
    looks_up: bool
    role: str
    x: float
    y: float
    split: str = ""

    @property
    def sequence(self) -> str:
        return f"{'queries' if self.role == 'query' else 'database'}/{self.panorama[:3]}"

    @property
    def place_id(self) -> str:
        return f"{self.sequence}/{self.path.rpartition('/')[2].removesuffix('.jpg')}"


def read(
    root: Path,
    *,
    subset: Annotated[
        Literal["present", "pitts250k", "pitts30k"],
        "subset whose .mat files are read; present: the one that is on disk",
    ] = "present",
    views: Annotated[Literal["all", "street"], "street leaves out pitch2, which looks up"] = "all",
) -> Places:
    if not root.is_dir():
        raise BadInputError(f"{root}: not a folder; give the folder that holds the images")
    files, notes = _mat_files(root, subset)
    found, more = _listed(files) if files else _on_disk(root)
    kept = [view for view in found if views == "all" or not view.looks_up]
    if len(kept) < len(found):
        more.append(Note(f"{len(found) - len(kept):,} images that look up are left out", warning=False))
    return _table(root, kept, posed=bool(files)).noting(*notes, *more)


def _mat_files(root: Path, subset: str) -> tuple[list[Path], list[Note]]:
    """The .mat files of the subset; an empty list if there are no .mat files."""
    present: dict[str, Path] = {}
    for file in sorted([*root.glob("*.mat"), *root.glob("datasets/*.mat")]):
        if file.name in present:
            raise BadInputError(f"duplicate file {file.name}: {present[file.name]} and {file}")
        present[file.name] = file
    unknown = sorted(present.keys() - PUBLISHED.keys())
    notes = list(warn(".mat files are not read, because they do not have a name of the Pittsburgh set", unknown))
    sets = {name: [present[file] for file in files if file in present] for name, files in SUBSETS.items()}
    if not sets["pitts250k"] and WHOLE_SET in present:
        sets["pitts250k"] = [present[WHOLE_SET]]
    if subset == "present":
        subsets = [name for name, files in sets.items() if files]
        if len(subsets) > 1:
            raise BadInputError(f"{root}: found .mat files of {' and '.join(subsets)}; choose one with --subset")
        if not subsets:
            return [], notes
        subset = subsets[0]
    if not sets[subset]:
        raise BadInputError(
            f"{root}: no .mat file of {subset} here or in datasets; expected {', '.join(SUBSETS[subset])}"
        )
    if sets[subset] != [present.get(WHOLE_SET)]:
        notes += warn(f".mat files of {subset} are missing", [file for file in SUBSETS[subset] if file not in present])
    return sets[subset], notes


def _listed(files: list[Path]) -> tuple[list[_View], list[Note]]:
    """The images that the .mat files list, on disk or not."""
    views: list[_View] = []
    unknown, counts = [], []
    listed: dict[str, Path] = {}
    for file in files:
        split = SPLITS.get(file.stem.rpartition("_")[2], "")
        fields = _load(file)
        for role, (names_field, utm_field) in FIELDS.items():
            names = _names(file, names_field, fields)
            utm = _utm(file, utm_field, fields, len(names))
            if role == "reference":
                counts.append(f"{file.stem} {len(names):,} (published: {PUBLISHED[file.name]:,})")
            for name, (east, north) in zip(names, utm.T.tolist(), strict=True):
                path = f"{QUERIES}/{name}" if role == "query" and not name.startswith(f"{QUERIES}/") else name
                if path in listed:
                    raise BadInputError(f"duplicate image {path}: in {listed[path]} and in {file}")
                listed[path] = file
                match = LISTED.fullmatch(name)
                if match is None:
                    unknown.append(f"{file.name}: {name}")
                else:
                    views.append(_View(path, match[1], match[2] == "2", role, east, north, split))
    count = Note(f"images in the database: {'; '.join(counts)}", warning=False)
    return views, [count, *warn(NOT_NAMED, unknown)]


def _load(file: Path) -> dict[str, Any]:
    """The fields of the struct in a .mat file, or the variables of the file if it has no struct."""
    content = read_matlab(file)
    if "dbStruct" not in content:
        return content
    fields = content["dbStruct"]
    if not isinstance(fields, dict):
        raise BadInputError(f"{file}: dbStruct is not a single struct")
    return fields


def _field(file: Path, name: str, fields: dict[str, Any]) -> Any:
    if name not in fields:
        known = ", ".join(one for one in fields if not one.startswith("__"))
        raise BadInputError(f"{file}: no field {name}; found: {known or 'none'}")
    return fields[name]


def _names(file: Path, field: str, fields: dict[str, Any]) -> list[str]:
    """A list of names: a cell array of texts, or a matrix of characters with rows padded by spaces."""
    names = []
    for number, cell in enumerate(np.ravel(_field(file, field, fields)), start=1):
        text = np.ravel(cell)
        if text.dtype.kind != "U" or len(text) != 1:
            raise BadInputError(f"{file}: element {number} of {field} is not text")
        names.append(str(text[0]).rstrip())
    return names


def _utm(file: Path, field: str, fields: dict[str, Any], count: int) -> Floats:
    """East and north (2, count) in metres."""
    values = np.asarray(_field(file, field, fields))
    if values.shape != (2, count) or values.dtype.kind not in "fiu":
        shape = "x".join(map(str, values.shape))
        raise BadInputError(
            f"{file}: {field} is {shape} of {values.dtype}, expected 2x{count} numbers for {count} images"
        )
    utm: Floats = values.astype(np.float64)
    east, north = utm
    bad = np.flatnonzero(~((east > 1e5) & (east < 9e5) & (north > 0) & (north < 1e7)))  # NaN compares as False
    if len(bad):
        raise BadInputError(
            f"{file}: column {bad[0] + 1} of {field} is {utm[:, bad[0]].tolist()}, expected a position in UTM"
        )
    return utm


def _on_disk(root: Path) -> tuple[list[_View], list[Note]]:
    """The images below `root`, without positions."""
    views, unknown = [], []
    root_name = root.resolve().name
    for file in image_files(root):
        relative = file.relative_to(root)
        match = NAME.fullmatch(file.name)
        if match is None:
            unknown.append(relative.as_posix())
            continue
        role = "query" if QUERIES in (root_name, *relative.parts) else "reference"
        views.append(_View(relative.as_posix(), match[1], match[2] == "2", role, float(match[1]), 0.0))
    unposed = "no .mat files, so positions are unknown: x numbers the panoramas; use this table only to cluster images"
    return views, [Note(unposed), *warn(NOT_NAMED, unknown)]


def _table(root: Path, views: list[_View], posed: bool) -> Places:
    x, y = np.array([(view.x, view.y) for view in views]).reshape(-1, 2).T
    if posed:
        frames = [Frame.near("pittsburgh", x, y, CRS) if views else Frame("pittsburgh", crs=CRS)]
        x, y = x - frames[0].origin[0], y - frames[0].origin[1]
        frame = ["pittsburgh"] * len(views)
    else:
        names = {"reference": "pittsburgh-unposed", "query": "pittsburgh-unposed-queries"}
        frame = [names[view.role] for view in views]
        frames = [Frame(name, unit="frames") for name in dict.fromkeys(frame)]
    return Places(
        path=[view.path for view in views],
        root=root,
        x=x,
        y=y,
        frames=frames,
        frame=frame,
        sequence=[view.sequence for view in views],
        split=[view.split for view in views],
        role=[view.role for view in views],
        place_id=[view.place_id for view in views],
    )
