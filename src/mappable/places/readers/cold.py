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
- `generalisation-freiburg-a`: reference seq2_sunny2; queries seq2_sunny3, seq2_cloudy3, seq2_night3.
- `generalisation-freiburg-b`: reference seq3_cloudy1; queries seq3_cloudy2, seq3_sunny2 (if missing: seq3_sunny1).
- `generalisation-saarbruecken-b`: reference seq4_cloudy1; queries seq4_cloudy2, seq4_night2, seq4_sunny2. The paper
  does not say whether it means seq4 (the extended path) or seq3. The reader takes seq3 if the reference of seq4 is
  missing, or if fewer sequences of seq3 are missing than of seq4.
"""

import decimal
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from mappable.arrays import MAX_COORDINATE, Strings
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.images import SUFFIXES
from mappable.places.notes import Note, count_beside_paper, warn
from mappable.places.readers import join, walk
from mappable.places.table import Places

SIZE = (320, 240)

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
    "generalisation-freiburg-a": [["seq2_sunny2", "seq2_sunny3", "seq2_cloudy3", "seq2_night3"]],
    "generalisation-freiburg-b": [
        ["seq3_cloudy1", "seq3_cloudy2", "seq3_sunny2"],
        ["seq3_cloudy1", "seq3_cloudy2", "seq3_sunny1"],
    ],
    "generalisation-saarbruecken-b": [
        ["seq4_cloudy1", "seq4_cloudy2", "seq4_night2", "seq4_sunny2"],
        ["seq3_cloudy1", "seq3_cloudy2", "seq3_night2", "seq3_sunny2"],
    ],
}
Use = tuple[str, str]  # split and role of a sequence


@dataclass(frozen=True)
class _Sequence:
    """The images of one sequence: their folder relative to ROOT, and their parsed names."""

    folder: str
    images: list[re.Match[str]]


def read(
    root: Path,
    *,
    protocol: Annotated[
        Literal[
            "all",
            "paper",
            "generalisation-freiburg-a",
            "generalisation-freiburg-b",
            "generalisation-saarbruecken-b",
        ],
        "sequences to read, with their splits and roles",
    ] = "all",
    lab: Annotated[
        Literal["by-folder", "freiburg", "ljubljana", "saarbruecken"], "lab of the sequences, if no folder names it"
    ] = "by-folder",
) -> Places:
    found, notes = _find_sequences(root, "" if lab == "by-folder" else lab)
    uses, more = _uses(protocol, found)
    unused = tuple(sorted(found.keys() - uses.keys()))
    if unused:
        more.append(Note(f"sequences are not in protocol {protocol}", unused, warning=False))
    places = _table(root, {name: found[name] for name in sorted(uses)}, uses).noting(*notes, *more)
    if protocol == "paper":
        counts = [(split, int(np.sum(places.split == split)), paper) for split, paper in PAPER_COUNTS.items()]
        places = places.noting(count_beside_paper(counts))
    return places


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
            raise BadInputError(
                f"{folder}: unknown part for seq{number} of {self.lab}; move the folder into part_a or part_b"
            )
        if self.part and self.part != part:
            raise BadInputError(
                f"{folder}: seq{number} of {self.lab} belongs to part_{part}, but is in part_{self.part}"
            )
        return f"{self.lab}-{part}/{self.sequence}"


def _find_sequences(root: Path, lab: str) -> tuple[dict[str, _Sequence], list[Note]]:
    """The sequences below `root` by full name; `lab` is the lab if no folder names it."""
    found: dict[str, _Sequence] = {}
    named: dict[str, str] = {}
    unnamed: list[str] = []
    strays: list[str] = []
    for folder, where, names in _walk(root):
        images = [match for name in names if (match := IMAGE.fullmatch(name))]
        if where.camera or len(images) < len(names):
            others = sorted(set(names) - {match.string for match in images})
            unnamed += [join(folder, name) for name in others if where.camera or Path(name).suffix.lower() in SUFFIXES]
        if not where.sequence:
            strays += [join(folder, match.string) for match in images]
            continue
        sequence = replace(where, lab=where.lab or lab).full_sequence(root / folder)
        named.setdefault(sequence, folder)
        if images and sequence in found:
            raise BadInputError(
                f"duplicate sequence {sequence}: in {root / found[sequence].folder} and in {root / folder}"
            )
        if images:
            found[sequence] = _Sequence(folder, images)
    notes = warn("files are not named t<seconds>_x<metres>_y<metres>_a<radians>.jpeg", unnamed)
    notes += warn("images are outside a sequence folder such as seq1_cloudy1", strays)
    notes += warn("sequence folders contain no images", [named[one] for one in sorted(named.keys() - found.keys())])
    return found, list(notes)


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


def _uses(protocol: str, present: Collection[str]) -> tuple[dict[str, Use], list[Note]]:
    """Split and role of each sequence that the protocol uses, with notes on those that are missing or replaced."""
    if protocol == "all":
        return dict.fromkeys(present, ("", "")), []
    if protocol == "paper":
        runs = {sequence: match[1] for sequence in present if (match := PAPER_RUN.fullmatch(sequence))}
        uses = {sequence: ("test" if run == PAPER_TEST_RUN else "train", "") for sequence, run in runs.items()}
        return uses, _missing(protocol, PAPER_SEQUENCES, present)
    frame = protocol.removeprefix("generalisation-")
    choices = [[f"{frame}/{name}" for name in row] for row in GENERALIZATION[protocol]]
    chosen = min(choices, key=lambda row: (row[0] not in present, len(set(row) - set(present))))
    notes = _missing(protocol, list(dict.fromkeys(choices[0] + chosen)), present)
    instead = [sequence for sequence in chosen if sequence in present and sequence not in choices[0]]
    notes += warn(f"sequences replace missing sequences of protocol {protocol}", instead)
    roles = dict.fromkeys(chosen, "query") | {chosen[0]: "reference"}
    return {sequence: ("test", role) for sequence, role in roles.items() if sequence in present}, notes


def _missing(protocol: str, wanted: list[str], present: Collection[str]) -> list[Note]:
    return list(warn(f"sequences of protocol {protocol} are missing", [one for one in wanted if one not in present]))


def _table(root: Path, sequences: dict[str, _Sequence], uses: dict[str, Use]) -> Places:
    """The places of all sequences, each in time order, with a note on images whose pose is out of range."""
    rows: list[tuple[int, float, float, float, str, str]] = []
    counts, out_of_range = [], []
    for sequence, found in sequences.items():
        posed = []
        for match in found.images:
            path, pose = join(found.folder, match.string), _pose(match)
            if pose is None:
                out_of_range.append(path)
            else:
                posed.append((*pose, path, f"{sequence}/{match.string.rpartition('.')[0]}"))
        rows += sorted(posed)
        counts.append(len(posed))

    def repeated(values: Iterable[str]) -> Strings:
        return np.repeat(np.array(list(values), dtype=object), np.array(counts, dtype=np.int64))

    frames = [sequence.split("/")[0] for sequence in sequences]
    return Places(
        path=[row[4] for row in rows],
        root=root,
        x=[row[1] for row in rows],
        y=[row[2] for row in rows],
        yaw=[row[3] for row in rows],
        time=[row[0] for row in rows],
        frames=[Frame(name) for name in dict.fromkeys(frames)],
        frame=repeated(frames),
        sequence=repeated(sequences),
        condition=repeated(sequence.split("_")[1].rstrip("0123456789") for sequence in sequences),
        split=repeated(uses[sequence][0] for sequence in sequences),
        role=repeated(uses[sequence][1] for sequence in sequences),
        place_id=[row[5] for row in rows],
        notes=warn("images have a pose in their names that is out of range", out_of_range),
    )


def _pose(match: re.Match[str]) -> tuple[int, float, float, float] | None:
    """Time in ns, x, y and yaw from the name of an image; None if one of them is out of range."""
    seconds, x, y, yaw = match.groups()
    numbers = float(x), float(y), float(yaw)
    if abs(float(seconds)) > LATEST_SECONDS or not (
        math.isfinite(numbers[2]) and max(map(abs, numbers[:2])) <= MAX_COORDINATE
    ):
        return None
    return int(EXACT.multiply(EXACT.create_decimal(seconds), 10**9)), *numbers
