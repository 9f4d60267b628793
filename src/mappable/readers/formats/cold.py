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
- the prefixes fr_, lj_ and sa_ for the lab (fr_seq1_cloudy1), sq instead of seq, and capital
  letters
- ROOT may be a lab, a part or a sequence. If no folder names the lab, give `--lab`.

The folders omni_cam, odom_scans and localization are ignored.

Columns:

- `time` is t, in seconds since 1970. `x` and `y` are in metres. `yaw` is a: the heading of the
  robot in radians, counter-clockwise from +x of the map in which the robot was localized.
- Each part of a lab has its own map and therefore its own frame. Freiburg has `freiburg-a` (seq1
  standard path, seq2 extended path) and `freiburg-b` (seq3). Saarbruecken has `saarbruecken-a`
  (seq1, seq2) and `saarbruecken-b` (seq3, seq4). Ljubljana has `ljubljana-a` (seq1, seq2). For
  these sequences, a folder part_a or part_b that contradicts the list is an error. For other
  numbers, the folder decides.
- `sequence` is, for example, `freiburg-a/seq1_cloudy1`. `condition` is cloudy, night or sunny.
  `place_id` is the sequence and the name of the image. None of the three depends on the spelling of
  the folders.

Protocols (`all` reads every image and sets no split):

- `paper`: Freiburg A, seq1 and seq2. Runs 1, 2 and 4 are for training, runs 3 for testing.
- `generalization-freiburg-a`: reference seq2_sunny2; queries seq2_sunny3, seq2_cloudy3,
  seq2_night3.
- `generalization-freiburg-b`: reference seq3_cloudy1; queries seq3_cloudy2, seq3_sunny2 (if
  missing: seq3_sunny1).
- `generalization-saarbruecken-b`: reference seq4_cloudy1; queries seq4_cloudy2, seq4_night2,
  seq4_sunny2. The paper does not say whether it means seq4 (the extended path) or seq3. The reader
  takes seq3 if the reference of seq4 is missing, or if fewer sequences of seq3 are missing than of
  seq4.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable.arrays import MAX_COORDINATE
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.toolkit import compare_with_paper, drive_table, is_image, join, joined, walk
from mappable.times import nanoseconds

SIZE = (320, 240)
LAYOUT = ("std_cam", "*/std_cam", "*/*/std_cam", "*/*/*/std_cam")
NUMBER = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
IMAGE = re.compile(rf"t{NUMBER}_x{NUMBER}_y{NUMBER}_a{NUMBER}\.jpe?g", re.IGNORECASE | re.ASCII)
FOLDER = re.compile(
    r"(?:cold[-_])?(?P<lab>freiburg|ljubljana|saarbr(?:ue|ü|u)cken|(?:fr|lj|sa)(?=_))?[-_]?"
    r"(?:part_?(?P<part>[ab]))?_?"
    r"(?:se?q(?P<sequence>[0-9]+_(?:cloudy|night|sunny)[0-9]+))?",
    re.IGNORECASE,
)
LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
IMAGE_FOLDER = "std_cam"
OTHER_SENSORS = frozenset({"omni_cam", "odom_scans", "localization"})
LABS = {"fr": "freiburg", "lj": "ljubljana", "sa": "saarbruecken"}
PARTS = {
    "freiburg": {1: "a", 2: "a", 3: "b"},
    "saarbruecken": {1: "a", 2: "a", 3: "b", 4: "b"},
    "ljubljana": {1: "a", 2: "a"},
}

PAPER_COUNTS = {"train": 29_237, "test": 12_831}
PAPER_RUN = re.compile(r"freiburg-a/seq[12]_[a-z]+([1-4])")
PAPER_TEST_RUN = "3"
# The sequences that the paper certainly used. Only some conditions have a fourth run, so run 4 is
# never "missing".
PAPER_SEQUENCES = [
    f"freiburg-a/seq{path}_{condition}{run}"
    for path in (1, 2)
    for condition in ("cloudy", "night", "sunny")
    for run in (1, 2, 3)
]
# Reference first, then the queries. The second row is the replacement if sequences of the first row
# are missing.
GENERALIZATION = {
    "freiburg-a": [["seq2_sunny2", "seq2_sunny3", "seq2_cloudy3", "seq2_night3"]],
    "freiburg-b": [
        ["seq3_cloudy1", "seq3_cloudy2", "seq3_sunny2"],
        ["seq3_cloudy1", "seq3_cloudy2", "seq3_sunny1"],
    ],
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
]
Use = tuple[str, str]  # split and role of a sequence


def read(
    root: Path,
    found: Findings,
    *,
    protocol: Annotated[Protocol, "sequences to read, with their splits and roles"] = "all",
    lab: Annotated[
        Literal["by-folder", "freiburg", "ljubljana", "saarbruecken"],
        "lab of the sequences, if no folder names it",
    ] = "by-folder",
) -> Places:
    sequences = _sequences(root, "" if lab == "by-folder" else lab, found)
    uses = _uses(protocol, sequences.keys(), found)
    found.note(
        f"sequences are not in protocol {protocol}",
        sorted(sequences.keys() - uses.keys()),
        warning=False,
    )
    places = joined(
        root, [_sequence(root, name, sequences[name], *uses[name], found) for name in sorted(uses)]
    )
    if protocol == "paper":
        compare_with_paper(places, PAPER_COUNTS, found)
    return places


def _sequences(root: Path, lab: str, found: Findings) -> dict[str, list[str]]:
    """The images of each sequence by its full name. `lab` is the lab if no folder names it."""
    sequences: dict[str, list[str]] = {}
    folders: dict[str, Path] = {}
    for inside, below, names in walk(root):
        folder = root / inside
        below[:] = [name for name in below if name.lower() not in OTHER_SENSORS]
        images = [join(inside, name) for name in names if IMAGE.fullmatch(name)]
        name = _name(root, folder, lab)
        in_camera = IMAGE_FOLDER in folder.as_posix().lower().split("/")
        others = [join(inside, name) for name in names if in_camera or is_image(name)]
        text = "files are not named t<seconds>_x<metres>_y<metres>_a<radians>.jpeg"
        posed = set(images)
        found.note(text, (path for path in others if path not in posed))
        if not name:
            found.note("images are outside a sequence folder such as seq1_cloudy1", images)
        elif images and sequences.get(name):
            raise BadInputError(f"duplicate sequence {name}: in {folders[name]} and in {folder}")
        elif images or name not in sequences:
            sequences[name], folders[name] = images, folder
    empty = sorted(name for name, images in sequences.items() if not images)
    found.note(
        "sequence folders contain no images",
        (folders[name].relative_to(root).as_posix() for name in empty),
    )
    return {name: images for name, images in sequences.items() if images}


def _name(root: Path, folder: Path, lab: str) -> str:
    """The full name of the sequence of a folder, such as `freiburg-a/seq1_cloudy1`; "" if no folder
    names one.

    All folders from ROOT on count, and those above ROOT up to the first whose name tells nothing.
    """
    known = {"lab": "", "part": "", "sequence": ""}
    top = Path(os.path.normpath(root.absolute()))
    for name in (
        *reversed(folder.relative_to(root).parts),
        top.name,
        *(parent.name for parent in top.parents),
    ):
        match = FOLDER.fullmatch(name)
        told = (
            {what: value.lower() for what, value in match.groupdict().items() if value}
            if match
            else {}
        )
        if not told and name != IMAGE_FOLDER and name not in folder.relative_to(root).parts:
            break
        told |= {"lab": LABS[told["lab"][:2]]} if "lab" in told else {}
        told |= (
            {"sequence": "seq" + LEADING_ZEROS.sub("", told["sequence"])}
            if "sequence" in told
            else {}
        )
        for what, value in told.items():
            if known[what] not in ("", value):
                raise BadInputError(
                    f"{folder}: {what} {known[what]} is inside {what} {value}; move or rename the"
                    " folder"
                )
        known |= told
    if not known["sequence"]:
        return ""
    sequence, lab = known["sequence"], known["lab"] or lab
    number = sequence.removeprefix("seq").partition("_")[0]
    if not lab:
        raise BadInputError(
            f"{folder}: no folder names the lab; set lab to {' or '.join(LABS.values())}"
        )
    part = PARTS[lab].get(int(number), known["part"])
    if not part:
        raise BadInputError(
            f"{folder}: unknown part for seq{number} of {lab}; move the folder into part_a or"
            " part_b"
        )
    if known["part"] not in ("", part):
        what = f"seq{number} of {lab} belongs to part_{part}, but is in part_{known['part']}"
        raise BadInputError(f"{folder}: {what}")
    return f"{lab}-{part}/{sequence}"


def _uses(protocol: str, present: Collection[str], found: Findings) -> dict[str, Use]:
    """Split and role of each sequence that the protocol uses; those that are missing or replaced
    are noted.
    """

    def note_missing(wanted: list[str]) -> None:
        missing = (sequence for sequence in wanted if sequence not in present)
        found.note(f"sequences of protocol {protocol} are missing", missing)

    if protocol == "all":
        return dict.fromkeys(present, ("", ""))
    if protocol == "paper":
        note_missing(PAPER_SEQUENCES)
        runs = {
            sequence: match[1] for sequence in present if (match := PAPER_RUN.fullmatch(sequence))
        }
        return {
            sequence: ("test" if run == PAPER_TEST_RUN else "train", "")
            for sequence, run in runs.items()
        }
    frame = protocol.partition("-")[2]
    choices = [[f"{frame}/{name}" for name in row] for row in GENERALIZATION[frame]]
    taken = min(choices, key=lambda row: (row[0] not in present, len(set(row) - set(present))))
    note_missing(list(dict.fromkeys(choices[0] + taken)))
    instead = (sequence for sequence in taken if sequence in present and sequence not in choices[0])
    found.note(f"sequences replace missing sequences of protocol {protocol}", instead)
    roles = dict.fromkeys(taken, "query") | {taken[0]: "reference"}
    return {sequence: ("test", role) for sequence, role in roles.items() if sequence in present}


def _sequence(
    root: Path, name: str, paths: list[str], split: str, role: str, found: Findings
) -> Places:
    """The images of a sequence, in time order, with the poses in their names."""
    rows = []
    for path in paths:
        match = IMAGE.fullmatch(path.rpartition("/")[2])
        seconds, *pose = match.groups() if match else ()
        try:
            x, y, yaw = map(float, pose)
            if not (max(abs(x), abs(y)) <= MAX_COORDINATE and np.isfinite(yaw)):
                raise ValueError
            rows.append((nanoseconds(seconds), x, y, yaw, path))
        except ValueError:
            found.note("images have a pose in their names that is out of range", [path])
    rows.sort()
    poses = np.array([(x, y, np.nan, yaw) for _, x, y, yaw, _ in rows]).reshape(-1, 4)
    values: dict[str, Any] = {
        "split": split,
        "role": role,
        "condition": name.split("_")[1].rstrip("0123456789"),
    }
    values |= {"yaw": poses[:, 3], "time": [row[0] for row in rows]}
    return drive_table(
        root, Frame(name.split("/")[0]), name, [row[4] for row in rows], poses[:, :3], **values
    )
