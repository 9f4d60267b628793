"""Settings from the images themselves: radii, size, steps and more, each with its reason."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.spatial import KDTree

from mappable.arrays import Ints, evenly, path_length
from mappable.errors import BadInputError
from mappable.features.weights import find_weights, set_in
from mappable.learning.headings import with_agreeing_headings
from mappable.learning.setting_layers import PRESETS, read_yaml
from mappable.learning.settings import Settings, load_settings, value_text
from mappable.places.images import Size
from mappable.places.survey import OVERLAPPING, YAW_LIMIT, Survey, survey
from mappable.places.table import Places

FEWEST_IMAGES = 100  # with fewer, steps repeat the same images
LARGEST_SHARE = 0.1  # of the route: with a larger positive radius, hardly any image is a negative
FEWEST_STEPS = 50  # for few images; fewer steps made an encoder worse than none
REPEATS = 10  # times that an image may be an anchor
HELD_OUT = 0.2  # share of the longest visit that judges whether training helped
FEWEST_HELD_OUT = 10  # images
SIZE_SAMPLE = 20  # images whose size is read
MOST_LANDMARKS = 5000
TRAINABLE = {
    "all": "a GPU can train all layers",
    "last": "the other layers keep what helps elsewhere",
}


@dataclass(frozen=True)
class Reason:
    """A value that was chosen, and why."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What `auto` chose. `off_the_shelf` and `trained` are settings; `trained` is None if training
    cannot help.

    `why_not` then says why, and what would help. `held_out` are rows of the table that do not train
    and judge both encoders; it is empty if nothing is trained. `table` trains: without images near
    the held-out ones, and with headings that agree between visits.
    """

    off_the_shelf: Settings
    trained: Settings | None
    held_out: Ints
    table: Places
    reasons: tuple[Reason, ...]
    why_not: str = ""

    @property
    def settings(self) -> Settings:
        """The settings of the run: those of training, unless training cannot help."""
        return self.trained or self.off_the_shelf


def plan(places: Places, *, gpu: bool, changes: Mapping[str, Any] | None = None) -> Plan:
    """Choose settings for the training images of a table. `changes` are settings of the user, which
    replace ours.
    """
    places, headings = with_agreeing_headings(places)
    rows, changes = _rows_of_largest_frame(places), changes or {}
    seen = survey(places[rows])
    if seen.spacing == 0:
        raise BadInputError(
            "all images have the same position; check the columns of the positions, then convert"
            " again"
        )
    shelf, base, reasons = _base("off-the-shelf"), _base("gpu" if gpu else "cpu"), _radii(seen)
    size, why_size = _size(places, str(shelf["size"]))
    common = {name: getattr(seen, name) for name in ("positive_radius", "negative_radius")} | {
        "size": size
    }
    common |= {
        "landmarks": int(min(len(rows), seen.landmarks_needed * len(seen.visits), MOST_LANDMARKS))
    }
    if headings:
        reasons.append(Reason("yaw", "of images", headings))
    if seen.opposite_views:
        common["yaw_limit"] = YAW_LIMIT
        reasons.append(
            Reason("yaw_limit", "30 degrees", "images at one place look in opposite directions")
        )
    if "weights_file" in changes and "weights" not in changes:
        # A given file decides.
        changes = {**changes, "weights": set_in(Path(changes["weights_file"]))}
    reasons += _choose_weights(shelf, base, changes)
    reasons += [
        Reason("size", value_text(size), why_size),
        Reason(
            "landmarks", f"{common['landmarks']:,}", "one per half positive radius, in every visit"
        ),
    ]
    for_training = ("iterations", "trainable", "epochs")
    network = {name: value for name, value in changes.items() if name not in for_training}
    off_the_shelf = load_settings(overrides=shelf | common | network)
    judged_by_split = bool(len(places.calibration()))
    held_out = rows[:0] if judged_by_split else _stretch(places, rows, seen)
    cannot = _cannot(seen)
    if not cannot and changes.get("iterations") == 0:
        cannot = "iterations is 0"
    if not cannot and not judged_by_split and not len(held_out):
        cannot = (
            "no stretch of the route is left to judge training; take images along a longer route"
        )
    if cannot:
        return Plan(off_the_shelf, None, rows[:0], places, _with_given(reasons, changes), cannot)
    steps, why_steps = _steps(base, len(rows))
    base["iterations"] = None if changes.get("epochs") else steps
    reasons.append(Reason("iterations", f"{steps:,}", why_steps))
    reasons.append(Reason("trainable", base["trainable"], TRAINABLE[base["trainable"]]))
    trained = load_settings(overrides=base | common | dict(changes))
    table = (
        _without_neighbors(places, held_out, trained.positive_radius) if len(held_out) else places
    )
    return Plan(off_the_shelf, trained, held_out, table, _with_given(reasons, changes))


def _rows_of_largest_frame(places: Places) -> Ints:
    rows = places.training()
    if len(rows) < 2:
        raise BadInputError(
            f"{len(rows)} images are for training, expected at least 2; take more images of the"
            " place"
        )
    frames, counts = np.unique(places.frame[rows], return_counts=True)
    largest: Ints = rows[places.frame[rows] == frames[np.argmax(counts)]]
    return largest


def _choose_weights(
    shelf: dict[str, Any], base: dict[str, Any], changes: Mapping[str, Any]
) -> list[Reason]:
    """Leave out the usual weights in both, if the user gives another backbone."""
    backbone = None if "weights" in changes else changes.get("backbone")
    if backbone is not None and backbone != find_weights(base["weights"]).backbone:
        del base["weights"], shelf["weights"]  # those of the backbone
        return []
    return [Reason("weights", base["weights"], "the best of our study")]


def _without_neighbors(places: Places, held_out: Ints, radius: float) -> Places:
    """The table whose training images are not held out, and farther than the radius from held-out
    ones.
    """
    nearest = KDTree(places.positions[held_out]).query(places.positions)[0]
    nearest[places.frame != places.frame[held_out[0]]] = np.inf
    train = places.training()
    split = places.split.copy()
    split[train] = np.where(nearest[train] > radius, "train", "")
    return places.replace(split=split)


def choose_size(places: Places) -> Size:
    """The size of images that `plan` chooses on any machine."""
    return _size(places, str(_base("off-the-shelf")["size"]))[0]


def _base(name: str) -> dict[str, Any]:
    text = (PRESETS / "auto" / f"{name}.yaml").read_text("utf-8")
    return {key: given.value for key, given in read_yaml(text, f"auto/{name}.yaml").items()}


def _with_given(reasons: list[Reason], changes: Mapping[str, Any]) -> tuple[Reason, ...]:
    """The reasons, but for settings that the user gives."""
    user_reasons = [Reason(name, value_text(value), "as given") for name, value in changes.items()]
    return (*(reason for reason in reasons if reason.name not in changes), *user_reasons)


def _radii(seen: Survey) -> list[Reason]:
    unit = seen.unit
    why = (
        f"images are {seen.spacing:.2g} {unit} apart, and positions agree to {seen.accuracy:.2g}"
        f" {unit}"
    )
    return [
        Reason("positive_radius", f"{seen.positive_radius:g} {unit}", why),
        Reason(
            "negative_radius",
            f"{seen.negative_radius:g} {unit}",
            "beyond it, images must look different",
        ),
    ]


def _size(places: Places, largest: str) -> tuple[Size, str]:
    """The size of the images, with their aspect ratio and at most as many pixels as `largest`, and
    why.
    """
    sizes = []
    for file in places[evenly(len(places), SIZE_SAMPLE)].files:
        try:
            with Image.open(file) as image:
                turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
                sizes.append(image.size[::-1] if turned else image.size)
        except Exception:  # noqa: S112 - Pillow can raise almost any exception on damaged files; packing names them
            continue
    width, height = (int(side) for side in largest.split("x"))
    if not sizes:
        return (width, height), "the default"
    ratios = [file_width / file_height for file_width, file_height in sizes]
    ratio = float(np.median(ratios))
    file_width, file_height = sizes[int(np.argmin(np.abs(np.array(ratios) - ratio)))]
    if file_width * file_height <= width * height:
        return (file_width, file_height), "the size of the files"
    sides = (math.sqrt(width * height * factor) for factor in (ratio, 1 / ratio))
    best_width, best_height = (max(32, round(side / 8) * 8) for side in sides)
    return (
        best_width,
        best_height,
    ), f"the shape of the files, which have {file_width}x{file_height} pixels"


def _cannot(seen: Survey) -> str:
    """Why training cannot help, and what would; "" if it can."""
    count = len(seen.places)
    if count < FEWEST_IMAGES:
        return (
            f"{count:,} images are too few to train on; take {FEWEST_IMAGES} or more, on two visits"
            " or more"
        )
    if len(seen.visits) == 1 and seen.laps < OVERLAPPING:
        return (
            "all images are of one visit, which cannot show what changes; visit the route again, in"
            " another light"
        )
    if len(seen.visits) > 1 and max(float(np.mean(seen.overlap > 0)), seen.laps) < OVERLAPPING:
        share = (
            f"{100 * np.mean(seen.overlap > 0):.0f} % of the images show a place of another visit"
        )
        return (
            f"{share}; visit the same places again, or convert them in one frame (`mappable convert"
            " --like`)"
        )
    length = sum(
        float(path_length(seen.places.positions[rows])[-1]) for rows in seen.visits.values()
    )
    if seen.positive_radius > LARGEST_SHARE * length / len(seen.visits):
        rough = (
            f"positions agree to {seen.accuracy:.2g} {seen.unit} only, on a route of {length:.0f}"
            f" {seen.unit}"
        )
        return f"{rough}; use more accurate positions, or a longer route"
    return ""


def _steps(base: Mapping[str, Any], images: int) -> tuple[int, str]:
    most = max(FEWEST_STEPS, REPEATS * images // int(base["anchors"]))
    if most < base["iterations"]:
        return (
            most,
            f"{images:,} images, each an anchor about {REPEATS} times; fewer if the time runs out",
        )
    return int(base["iterations"]), "enough in our studies; fewer if the time runs out"


def _stretch(places: Places, rows: Ints, seen: Survey) -> Ints:
    """Rows around the middle of the longest visit, with all places near them: about HELD_OUT of all
    rows.
    """
    lengths = {
        name: float(path_length(seen.places.positions[visit])[-1])
        for name, visit in seen.visits.items()
    }
    longest = rows[seen.visits[max(lengths, key=lambda name: lengths[name])]]
    along = path_length(places.positions[longest])
    for share in (1.0, 0.75, 0.5, 0.35, 0.25):  # a visit of several laps returns to the stretch
        middle = longest[np.abs(along / max(along[-1], 1e-9) - 0.5) <= share * HELD_OUT / 2]
        if len(middle) < FEWEST_HELD_OUT:
            break
        near = (
            KDTree(places.positions[middle]).query(places.positions[rows])[0]
            <= seen.positive_radius / 2
        )
        stretch: Ints = rows[near]
        visits = len(set(places.sequence[stretch]))
        if len(stretch) <= 1.2 * HELD_OUT * len(rows) and visits >= min(2, len(seen.visits)):
            return stretch
    return rows[:0]
