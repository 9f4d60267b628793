"""Train as `auto` plans, and keep the trained encoder only if it finds more images than the off-the-shelf one."""

import json
import math
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import numpy as np

from mappable.arrays import Ints, evenly
from mappable.errors import BadInputError
from mappable.features.centering import without_visit_means
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.files import write_atomically
from mappable.learning.auto import Plan
from mappable.learning.folder import SETTINGS
from mappable.learning.trainer import OutOfTimeError, train
from mappable.places.pixels import Images
from mappable.places.table import Places

OFF_THE_SHELF, TRAINED, RECORD = "off-the-shelf", "trained", "auto.json"
MOST_QUERIES, MOST_CANDIDATES, DISTRACTORS = 300, 600, 200
ENOUGH = 0.99  # share found off the shelf from which training has nothing to gain
GAIN = 0.01  # share by which the trained encoder must be better


@dataclass(frozen=True)
class Chosen:
    """The encoder that was kept, "off-the-shelf" or "trained", and the share that each found (None: not judged)."""

    kept: str
    off_the_shelf: float | None
    trained: float | None
    queries: int
    why: str


def train_as_planned(
    places: Places, images: Images, plan: Plan, *, out: Path, device: str = "auto", overwrite: bool = False,
    activations: Path | None = None, minutes: float | None = None,
) -> Chosen:  # fmt: skip
    """Make the off-the-shelf encoder, train the other one, and write the better one and a record to `out`.

    Both are judged on images that did not train: the calibration images, or the held-out stretch of the plan. An image
    is found if the nearest descriptor of another visit is of a place within the positive radius.

    `minutes` is a deadline for all of it. Training stops in time to judge it as long as the first encoder was judged.
    A later call with more minutes continues the training.
    """
    before = {} if overwrite else read_record(out) or {}
    limit = math.inf if minutes is None else minutes
    ended = bool(before.get("chosen")) and limit <= float(str(before.get("minutes") or "inf"))
    _write_record(out, places, plan, minutes)
    options = {"device": device, "overwrite": overwrite, "activations": activations}
    chosen = _train_and_judge(places, images, plan, out, 0.0 if ended else limit, options)
    _write_record(out, places, plan, minutes, chosen)
    return chosen


def _train_and_judge(
    places: Places, images: Images, plan: Plan, out: Path, minutes: float, options: dict[str, Any]
) -> Chosen:
    began = time.perf_counter()
    shelf = train(places, images, plan.off_the_shelf, out=out / OFF_THE_SHELF, **options | {"activations": None})
    queries = places.calibration() if plan.trained is not None and not len(plan.held_out) else plan.held_out
    if plan.trained is None:
        return _keep(out, OFF_THE_SHELF, Chosen(OFF_THE_SHELF, None, None, 0, plan.why_not))
    asked, known = _rows_to_judge(places, queries)
    judging = time.perf_counter()
    before = found(shelf, places, images, asked, known, plan.trained.positive_radius)
    if before >= ENOUGH:
        why = "off the shelf, the encoder finds nearly all held-out images"
        return _keep(out, OFF_THE_SHELF, Chosen(OFF_THE_SHELF, before, None, len(asked), why))
    now = time.perf_counter()
    left = max(0.0, minutes - (now - began + now - judging) / 60)
    try:
        better = train(plan.table, images, plan.trained, out=out / TRAINED, minutes=left, **options)
    except OutOfTimeError as error:
        return _keep(out, OFF_THE_SHELF, Chosen(OFF_THE_SHELF, before, None, len(asked), str(error)))
    steps, planned = better.about.settings["iterations"], plan.trained.iterations
    stopped = "" if steps == planned else f"; the time ran out after {steps:,} steps, more --minutes continue"
    after = found(better, places, images, asked, known, plan.trained.positive_radius)
    if after >= before + GAIN:
        why = f"it finds more held-out images{stopped}"
        return _keep(out, TRAINED, Chosen(TRAINED, before, after, len(asked), why))
    why = f"training did not find more held-out images{stopped}"
    return _keep(out, OFF_THE_SHELF, Chosen(OFF_THE_SHELF, before, after, len(asked), why))


def found(encoder: Encoder, places: Places, images: Images, asked: Ints, known: Ints, radius: float) -> float:
    """The share of images `asked` whose nearest image of another visit, among `known`, is within the radius.

    Descriptors are compared without the mean of their visit, as maps compare them.
    """
    rows = np.union1d(asked, known)
    described = without_visit_means(encoder.embed(images.take(rows)), places.sequence[rows])
    queries, others = np.searchsorted(rows, asked), np.searchsorted(rows, known)
    alike = described[queries] @ described[others].T
    alike[_own_visit(places, asked, known)] = -np.inf
    nearest = known[alike.argmax(axis=1)]
    off = np.linalg.norm(places.positions[asked] - places.positions[nearest], axis=1)
    return float((off <= radius).mean())


def read_record(out: Path) -> dict[str, object] | None:
    """The record of an earlier run in `out`, or None."""
    try:
        record = json.loads((out / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def held_out(out: Path) -> list[str] | None:
    """Ids of the images that the run in `out` held out of training; None if it recorded none."""
    ids = (read_record(out) or {}).get("held_out")
    return [str(one) for one in ids] if isinstance(ids, list) and ids else None


def _write_record(out: Path, places: Places, plan: Plan, minutes: float | None, chosen: Chosen | None = None) -> None:
    """Write what was planned, and what was chosen, if it is known."""
    record = {
        "minutes": minutes,
        "reasons": [asdict(one) for one in plan.reasons],
        "why_not": plan.why_not,
        "held_out": places.place_id[plan.held_out].tolist(),
        "chosen": None if chosen is None else asdict(chosen),
    }
    text = json.dumps(record, indent=2).encode()
    write_atomically(out / RECORD, lambda stream: stream.write(text))


def _keep(out: Path, kept: str, chosen: Chosen) -> Chosen:
    """Copy the encoder and the settings of the chosen run to `out`."""
    for name in (SETTINGS, ENCODER):
        with (out / kept / name).open("rb") as source:
            write_atomically(out / name, partial(copyfileobj, source))
    return chosen


def _rows_to_judge(places: Places, queries: Ints) -> tuple[Ints, Ints]:
    """Some of the queries, and the images among which they are searched: at the same places, and elsewhere."""
    candidates = np.union1d(queries, places.training())
    frame = places.frame[queries[0]]
    candidates = candidates[places.frame[candidates] == frame]
    asked = queries[evenly(len(queries), MOST_QUERIES)]
    low, high = places.positions[queries].min(axis=0), places.positions[queries].max(axis=0)
    inside = ((places.positions[candidates] >= low) & (places.positions[candidates] <= high)).all(axis=1)
    near, far = candidates[inside], candidates[~inside]
    known = np.union1d(
        near[evenly(len(near), MOST_CANDIDATES)], far[evenly(len(far), DISTRACTORS)] if len(far) else far
    )
    usable = ~_own_visit(places, asked, known).all(axis=1)
    if not usable.any():
        raise BadInputError("no held-out image has an image of another visit to be compared with; take another visit")
    return asked[usable], known


def _own_visit(places: Places, asked: Ints, known: Ints) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """True (n, m) where an image of `known` is of the same visit; a later lap of one sequence is another visit."""
    same = places.sequence[asked][:, None] == places.sequence[known][None]
    if len(set(places.sequence[known])) > 1:
        return np.asarray(same, dtype=bool)
    order = np.argsort(np.argsort(places.time, kind="stable")) if (places.time > 0).any() else np.arange(len(places))
    return np.asarray(same & (np.abs(order[asked][:, None] - order[known][None]) < len(places) // 10), dtype=bool)
