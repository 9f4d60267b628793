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

With .mat files (`dbImageFns`, `utmDb`, `qImageFns` and `utmQ` are in a struct `dbStruct` or at the
top level):

- `x` and `y` are east and north in UTM zone 17N (EPSG:32617), in the frame `pittsburgh`.
- `split` is train, calibration (the val files) or test. pittsburgh.mat lists the whole set and has
  no splits.
- `role` is reference for the database and query for queries_real. An image that is listed twice is
  an error.
- The .mat files decide which images are read. An image that is not on disk is only detected when
  pixels are packed.

Without .mat files, positions are unknown. The table then has one use: to cluster images. `x` is the
number of the panorama, in the frame `pittsburgh-unposed` (or `pittsburgh-unposed-queries`). The
unit of the frame is frames, never metres. `y` is 0 and `split` is empty.

`yaw` is unknown, because yaw1 to yaw12 count views within a panorama and the direction of north is
not known. There are no times. `sequence` is `database/` or `queries/` and the first three digits of
the number of the panorama.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.isolated import read_matlab
from mappable.readers.toolkit import below, image_files, no_places

LAYOUT = ("queries_real", "pitts*.mat", "datasets/pitts*.mat")
CRS = "EPSG:32617"
QUERIES = "queries_real"
NAME = re.compile(r"([0-9]{6})_pitch([12])_yaw(?:[1-9]|1[0-2])\.jpg")
LISTED = re.compile(rf"(?:{QUERIES}/)?[0-9]{{3}}/{NAME.pattern}")
NOT_NAMED = (
    "images are not named <panorama>_pitch<1, 2>_yaw<1 to 12>.jpg in a folder with a name of three"
    " digits"
)

# Split by the word in the file name.
SPLITS = {"train": "train", "val": "calibration", "test": "test"}
WHOLE_SET = "pittsburgh.mat"
PUBLISHED = {  # number of database images by file, of each subset
    "pitts250k": {
        "pitts250k_train.mat": 91_464,
        "pitts250k_val.mat": 78_648,
        "pitts250k_test.mat": 83_952,
    },
    "pitts30k": {f"pitts30k_{word}.mat": 10_000 for word in SPLITS},
}
FIELDS = {"reference": ("dbImageFns", "utmDb"), "query": ("qImageFns", "utmQ")}


class _View(NamedTuple):
    """One image: path relative to ROOT, its role and split, east and north or the number of its
    panorama.
    """

    path: str
    role: str
    split: str
    x: float
    y: float

    @property
    def sequence(self) -> str:
        panorama = self.path.rpartition("/")[2][:3]
        return f"{'queries' if self.role == 'query' else 'database'}/{panorama}"


def read(
    root: Path,
    found: Findings,
    *,
    subset: Annotated[
        Literal["present", "pitts250k", "pitts30k"],
        "subset whose .mat files are read; present: the one that is on disk",
    ] = "present",
    views: Annotated[Literal["all", "street"], "street leaves out pitch2, which looks up"] = "all",
) -> Places:
    files = _mat_files(root, subset, found)
    known = _listed(files, found) if files else _on_disk(root, found)
    kept = [view for view in known if views == "all" or "_pitch2_" not in view.path]
    if len(kept) < len(known):
        found.say(f"{len(known) - len(kept):,} images that look up are left out", warning=False)
    if not kept:
        return no_places(root)
    x, y = np.array([(view.x, view.y) for view in kept]).T
    unposed = {"reference": "pittsburgh-unposed", "query": "pittsburgh-unposed-queries"}
    frame = ["pittsburgh" if files else unposed[view.role] for view in kept]
    frames = [Frame(name, unit="frames") for name in dict.fromkeys(frame)]
    if files:
        frames = [Frame.near("pittsburgh", x, y, CRS)]
        x, y = x - frames[0].origin[0], y - frames[0].origin[1]
    return Places(
        path=[view.path for view in kept],
        root=root,
        x=x,
        y=y,
        frames=frames,
        frame=frame,
        sequence=[view.sequence for view in kept],
        split=[view.split for view in kept],
        role=[view.role for view in kept],
        place_id=[f"{view.sequence}/{Path(view.path).stem}" for view in kept],
    )


def _mat_files(root: Path, subset: str, found: Findings) -> list[Path]:
    """The .mat files of the subset; an empty list if there are no .mat files."""
    present: dict[str, Path] = {}
    for file in sorted([*root.glob("*.mat"), *root.glob("datasets/*.mat")]):
        if file.name in present:
            raise BadInputError(f"duplicate file {file.name}: {present[file.name]} and {file}")
        present[file.name] = file
    sets = {
        name: [present.pop(file) for file in files if file in present]
        for name, files in PUBLISHED.items()
    }
    whole = present.pop(WHOLE_SET, None)
    found.note(
        ".mat files are not read, because they do not have a name of the Pittsburgh set",
        sorted(present),
    )
    if whole and not sets["pitts250k"]:
        sets["pitts250k"] = [whole]
    there = [name for name, files in sets.items() if files]
    if subset == "present" and len(there) > 1:
        raise BadInputError(
            f"{root}: found .mat files of {' and '.join(there)}; choose one with --subset"
        )
    if subset == "present" and not there:
        return []
    name = there[0] if subset == "present" else subset
    if not sets[name]:
        raise BadInputError(
            f"{root}: no .mat file of {name} here or in datasets; expected"
            f" {', '.join(PUBLISHED[name])}"
        )
    if sets[name] != [whole]:
        read = {file.name for file in sets[name]}
        found.note(
            f".mat files of {name} are missing",
            (file for file in PUBLISHED[name] if file not in read),
        )
    return sets[name]


def _listed(files: list[Path], found: Findings) -> list[_View]:
    """The images that the .mat files list, on disk or not."""
    published = PUBLISHED["pitts250k"] | PUBLISHED["pitts30k"]
    published[WHOLE_SET] = sum(PUBLISHED["pitts250k"].values())
    views: dict[str, _View] = {}
    counts, strange = [], []
    for file in files:
        fields = read_matlab(file, [name for names in FIELDS.values() for name in names])
        split = SPLITS.get(file.stem.rpartition("_")[2], "")
        counts.append(
            f"{file.stem} {len(fields['dbImageFns']):,} (published: {published[file.name]:,})"
        )
        for role, (names_field, utm_field) in FIELDS.items():
            names = fields[names_field]
            utm = _utm(file, utm_field, fields[utm_field], len(names))
            for name, (east, north) in zip(names, utm.T.tolist(), strict=True):
                path = (
                    f"{QUERIES}/{name}"
                    if role == "query" and not name.startswith(f"{QUERIES}/")
                    else name
                )
                if path in views:
                    raise BadInputError(
                        f"{file}: duplicate image {path}, here or in an earlier file"
                    )
                views[path] = _View(path, role, split, east, north)
                strange += [] if LISTED.fullmatch(name) else [(path, f"{file.name}: {name}")]
    found.note(NOT_NAMED, (item for _, item in strange))
    found.say(f"images in the database: {'; '.join(counts)}", warning=False)
    left_out = {path for path, _ in strange}
    return [view for path, view in views.items() if path not in left_out]


def _utm(file: Path, field: str, values: Floats, count: int) -> Floats:
    """East and north (2, count) in metres."""
    if values.shape != (2, count):
        shape = "x".join(map(str, values.shape))
        raise BadInputError(
            f"{file}: {field} is {shape}, expected 2x{count} numbers for {count} images"
        )
    east, north = values
    # NaN compares as False.
    bad = np.flatnonzero(~((east > 1e5) & (east < 9e5) & (north > 0) & (north < 1e7)))
    if len(bad):
        where = f"column {bad[0] + 1} of {field} is {values[:, bad[0]].tolist()}"
        raise BadInputError(f"{file}: {where}, expected a position in UTM")
    return values


def _on_disk(root: Path, found: Findings) -> list[_View]:
    """The images below `root`, without positions."""
    found.say(
        "no .mat files, so positions are unknown: x numbers the panoramas; use this table only to"
        " cluster images"
    )
    paths = [below(root, file) for file in image_files(root)]
    matches = {path: NAME.fullmatch(path.rpartition("/")[2]) for path in paths}
    found.note(NOT_NAMED, (path for path, match in matches.items() if not match))
    views = []
    for path, match in matches.items():
        role = "query" if QUERIES in (root.resolve().name, *path.split("/")) else "reference"
        if match:
            views.append(_View(path, role, "", float(match[1]), 0.0))
    return views
