"""The COLD database of indoor robot runs: images of the perspective camera, with poses in the file names.

    ROOT/
      freiburg/                   or cold-freiburg
        seq1_cloudy1/             or part_a/seq1_cloudy1/
          std_cam/
            t1152886490.040076_x0.205133_y0.000557_a0.002507.jpeg
      saarbruecken/               and ljubljana/
      cold-freiburg_part_b_seq3_cloudy1/
        std_cam/                  or the images themselves

The reader also accepts other spellings:

- a sequence folder inside another folder with the same name
- the prefixes fr_, lj_ and sa_ for the lab (fr_seq1_cloudy1), sq instead of seq, and capital letters
- ROOT may be a lab, a part or a sequence. If no folder names the lab, give `--lab`.

The folders omni_cam, odom_scans and localization are ignored.

Columns:

- `time` is t, in seconds since 1970. `x` and `y` are in metres. `yaw` is a: the heading of the robot in radians,
  counter-clockwise from +x of the map in which the robot was localized.
- Each part of a lab has its own map and therefore its own frame. Freiburg has `freiburg-a` (seq1 standard path, seq2
  extended path) and `freiburg-b` (seq3). Saarbruecken has `saarbruecken-a` (seq1, seq2) and `saarbruecken-b` (seq3,
  seq4). Ljubljana has `ljubljana-a` (seq1, seq2). For these sequences, a folder part_a or part_b that contradicts the
  list is an error. For other numbers, the folder decides.
- `sequence` is, for example, `freiburg-a/seq1_cloudy1`. `condition` is cloudy, night or sunny. `place_id` is the
  sequence and the name of the image. None of the three depends on the spelling of the folders.

Protocols (`all` reads every image and sets no split):

- `paper`: Freiburg A, seq1 and seq2. Runs 1, 2 and 4 are for training, runs 3 for testing.
- `generalization-freiburg-a`: reference seq2_sunny2; queries seq2_sunny3, seq2_cloudy3, seq2_night3.
- `generalization-freiburg-b`: reference seq3_cloudy1; queries seq3_cloudy2, seq3_sunny2 (if missing: seq3_sunny1).
- `generalization-saarbruecken-b`: reference seq4_cloudy1; queries seq4_cloudy2, seq4_night2, seq4_sunny2. The paper
  does not say whether it means seq4 (the extended path) or seq3. The reader takes seq3 if the reference of seq4 is
  missing, or if fewer sequences of seq3 are missing than of seq4.
"""

import decimal
import math
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from mappable.arrays import MAX_COORDINATE
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.toolkit import is_image, join, walk

SIZE = (320, 240)
LAYOUT = ("std_cam", "*/std_cam", "*/*/std_cam", "*/*/*/std_cam")
NUMBER = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
IMAGE = re.compile(rf"t{NUMBER}_x{NUMBER}_y{NUMBER}_a{NUMBER}\.jpe?g", re.IGNORECASE | re.ASCII)
FOLDER = re.compile(
    r"(?:cold[-_])?(?P<lab>freiburg|ljubljana|saarbr(?:ue|ü|u)cken|(?:fr|lj|sa)(?=_))?[-_]?"
    r"(?:part_?(?P<part>[ab]))?_?"
    r"(?:se?q(?P<number>[0-9]+)_(?P<condition>cloudy|night|sunny)(?P<run>[0-9]+))?",
    re.IGNORECASE,
)
IMAGE_FOLDER = "std_cam"
OTHER_SENSORS = frozenset({"omni_cam", "odom_scans", "localization"})
LABS = {"fr": "freiburg", "lj": "ljubljana", "sa": "saarbruecken"}
PARTS = {
    "freiburg": {1: "a", 2: "a", 3: "b"},
    "saarbruecken": {1: "a", 2: "a", 3: "b", 4: "b"},
    "ljubljana": {1: "a", 2: "a"},
}
LATEST_SECONDS = 9.2e9  # int64 nanoseconds overflow shortly after this
EXACT = decimal.Context(prec=60)

PAPER_COUNTS = {"train": 29_237, "test": 12_831}
PAPER_RUN = re.compile(r"freiburg-a/seq[12]_[a-z]+([1-4])")
PAPER_TEST_RUN = "3"
# The sequences that the paper certainly used. Only some conditions have a fourth run, so run 4 is never "missing".
PAPER_SEQUENCES = [
    f"freiburg-a/seq{path}_{condition}{run}"
    for path in (1, 2)
    for condition in ("cloudy", "night", "sunny")
    for run in (1, 2, 3)
]
# Reference first, then the queries. The second row is the replacement if sequences of the first row are missing.
GENERALIZATION = {
    "freiburg-a": [["seq2_sunny2", "seq2_sunny3", "seq2_cloudy3", "seq2_night3"]],
    "freiburg-b": [["seq3_cloudy1", "seq3_cloudy2", "seq3_sunny2"], ["seq3_cloudy1", "seq3_cloudy2", "seq3_sunny1"]],
    "saarbruecken-b": [
        ["seq4_cloudy1", "seq4_cloudy2", "seq4_night2", "seq4_sunny2"],
        ["seq3_cloudy1", "seq3_cloudy2", "seq3_night2", "seq3_sunny2"],
    ],
}
Protocol = Literal[
    "all",
    "paper",
    "generalization-freiburg-a",
    "generalization-freiburg-b",
    "generalization-saarbruecken-b",
    "generalisation-freiburg-a",
    "generalisation-freiburg-b",
    "generalisation-saarbruecken-b",
]
Use = tuple[str, str]  # split and role of a sequence


def read(
    root: Path,
    found: Findings,
    *,
    protocol: Annotated[
        Protocol, "sequences to read, with their splits and roles; both spellings are the same"
    ] = "all",
    lab: Annotated[
        Literal["by-folder", "freiburg", "ljubljana", "saarbruecken"], "lab of the sequences, if no folder names it"
    ] = "by-folder",
) -> Places:
    sequences = _sequences(root, "" if lab == "by-folder" else lab, found)
    uses = _uses(protocol, sequences.keys(), found)
    found.note(f"sequences are not in protocol {protocol}", sorted(sequences.keys() - uses.keys()), warning=False)
    rows = [row for name in sorted(uses) for row in _rows(name, sequences[name], found)]
    columns = zip(*rows, strict=True) if rows else [()] * 6
    time, x, y, yaw, path, sequence = (list(column) for column in columns)
    frames = {name: name.split("/")[0] for name in uses}
    conditions = {name: name.split("_")[1].rstrip("0123456789") for name in uses}
    frame = [frames[name] for name in sequence]
    places = Places(
        path=path,
        root=root,
        x=x,
        y=y,
        yaw=yaw,
        time=time,
        frames=[Frame(name) for name in dict.fromkeys(frame)],
        frame=frame,
        sequence=sequence,
        condition=[conditions[name] for name in sequence],
        split=[uses[name][0] for name in sequence],
        role=[uses[name][1] for name in sequence],
        place_id=[f"{name}/{_stem(one)}" for name, one in zip(sequence, path, strict=True)],
    )
    if protocol == "paper":
        counts = {split: int((places.split == split).sum()) for split in PAPER_COUNTS}
        parts = (f"{split} {counts[split]:,} images (paper: {paper:,})" for split, paper in PAPER_COUNTS.items())
        found.say("; ".join(parts), warning=False)
    return places


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


# Folders


@dataclass(frozen=True)
class _Where:
    """What is known about a folder from its name and the names of the folders above it.

    `lab`, `part` and `sequence` are "" if unknown; `camera` is True inside the folder of the perspective camera.
    """

    lab: str = ""
    part: str = ""
    sequence: str = ""
    camera: bool = False

    def inside(self, folder: Path) -> "_Where":
        """The same for a subfolder; raises if the name of the subfolder contradicts what is known."""
        if folder.name.lower() == IMAGE_FOLDER:
            return replace(self, camera=True)
        match = FOLDER.fullmatch(folder.name)
        if match is None:
            return self
        named = {"lab": LABS[match["lab"][:2].lower()] if match["lab"] else "", "part": (match["part"] or "").lower()}
        if match["number"]:
            named["sequence"] = f"seq{int(match['number'])}_{match['condition'].lower()}{int(match['run'])}"
        for what, value in named.items():
            known = getattr(self, what)
            if known and value and known != value:
                raise BadInputError(f"{folder}: {what} {value} is inside {what} {known}; move or rename the folder")
        known = {"lab": self.lab, "part": self.part, "sequence": self.sequence}
        return _Where(**known | {what: value for what, value in named.items() if value}, camera=self.camera)

    def full_sequence(self, folder: Path) -> str:
        """The sequence with its frame, such as `freiburg-a/seq1_cloudy1`."""
        if not self.lab:
            raise BadInputError(f"{folder}: no folder names the lab; set lab to {' or '.join(LABS.values())}")
        number = int(self.sequence.removeprefix("seq").split("_")[0])
        part = PARTS[self.lab].get(number, self.part)
        if not part:
            remedy = "move the folder into part_a or part_b"
            raise BadInputError(f"{folder}: unknown part for seq{number} of {self.lab}; {remedy}")
        if self.part and self.part != part:
            what = f"seq{number} of {self.lab} belongs to part_{part}, but is in part_{self.part}"
            raise BadInputError(f"{folder}: {what}")
        return f"{self.lab}-{part}/{self.sequence}"


def _sequences(root: Path, lab: str, found: Findings) -> dict[str, list[tuple[str, re.Match[str]]]]:
    """The images of each sequence by its full name: folder and parsed name. `lab` is the lab if no folder names it."""
    images: dict[str, list[tuple[str, re.Match[str]]]] = {}
    folders: dict[str, str] = {}
    for folder, where, names in _walk(root):
        matches = {name: match for name in names if (match := IMAGE.fullmatch(name))}
        others = (join(folder, name) for name in names if name not in matches and (where.camera or is_image(name)))
        found.note("files are not named t<seconds>_x<metres>_y<metres>_a<radians>.jpeg", others)
        if not where.sequence:
            strays = (join(folder, name) for name in matches)
            found.note("images are outside a sequence folder such as seq1_cloudy1", strays)
            continue
        sequence = replace(where, lab=where.lab or lab).full_sequence(root / folder)
        if matches and sequence in images:
            first = root / folders[sequence]
            raise BadInputError(f"duplicate sequence {sequence}: in {first} and in {root / folder}")
        if matches or sequence not in folders:
            folders[sequence] = folder
        if matches:
            images[sequence] = [(join(folder, name), match) for name, match in matches.items()]
    empty = (folder for sequence, folder in sorted(folders.items()) if sequence not in images)
    found.note("sequence folders contain no images", empty)
    return images


def _walk(root: Path) -> Iterator[tuple[str, _Where, list[str]]]:
    """Yield every folder below `root` that may hold images: path relative to `root`, what is known, file names."""
    known: dict[str, _Where] = {}
    for folder, inside, names in walk(root):
        around = known.get(folder.rpartition("/")[0])
        known[folder] = where = around.inside(root / folder) if folder and around else _around(root)
        inside[:] = [name for name in inside if name.lower() not in OTHER_SENSORS]
        yield folder, where, names


def _around(root: Path) -> _Where:
    """What is known from the names of ROOT and the folders above it, up to the first name without information."""
    path = Path(os.path.normpath(root.absolute()))
    informative = []
    for folder in (path, *path.parents):
        if _Where().inside(folder) == _Where():
            break
        informative.append(folder)
    where = _Where()
    for folder in reversed(informative):
        where = where.inside(folder)
    return where


# Protocols


def _uses(protocol: str, present: Collection[str], found: Findings) -> dict[str, Use]:
    """Split and role of each sequence that the protocol uses; those that are missing or replaced are noted."""
    if protocol == "all":
        return dict.fromkeys(present, ("", ""))
    if protocol == "paper":
        _note_missing(protocol, PAPER_SEQUENCES, present, found)
        runs = {sequence: match[1] for sequence in present if (match := PAPER_RUN.fullmatch(sequence))}
        return {sequence: ("test" if run == PAPER_TEST_RUN else "train", "") for sequence, run in runs.items()}
    frame = protocol.partition("-")[2]
    choices = [[f"{frame}/{name}" for name in row] for row in GENERALIZATION[frame]]
    taken = min(choices, key=lambda row: (row[0] not in present, len(set(row) - set(present))))
    _note_missing(protocol, list(dict.fromkeys(choices[0] + taken)), present, found)
    instead = (sequence for sequence in taken if sequence in present and sequence not in choices[0])
    found.note(f"sequences replace missing sequences of protocol {protocol}", instead)
    roles = dict.fromkeys(taken, "query") | {taken[0]: "reference"}
    return {sequence: ("test", role) for sequence, role in roles.items() if sequence in present}


def _note_missing(protocol: str, wanted: list[str], present: Collection[str], found: Findings) -> None:
    missing = (sequence for sequence in wanted if sequence not in present)
    found.note(f"sequences of protocol {protocol} are missing", missing)


# Names of images


def _rows(
    sequence: str, images: list[tuple[str, re.Match[str]]], found: Findings
) -> list[tuple[int, float, float, float, str, str]]:
    """Time in ns, x, y, yaw, path and sequence of the images of a sequence, in time order."""
    rows = []
    for path, match in images:
        seconds, x, y, yaw = match.groups()
        near = max(abs(float(x)), abs(float(y))) <= MAX_COORDINATE and math.isfinite(float(yaw))
        if near and abs(float(seconds)) <= LATEST_SECONDS:
            time = int(EXACT.multiply(EXACT.create_decimal(seconds), 10**9))
            rows.append((time, float(x), float(y), float(yaw), path, sequence))
        else:
            found.note("images have a pose in their names that is out of range", [path])
    return sorted(rows)
