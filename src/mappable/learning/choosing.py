"""Train as `auto` plans, and keep the trained encoder only if it finds more images than the off-the-shelf one."""

import json
import math
import os
import shutil
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mappable.arrays import Bools, Ints, evenly
from mappable.errors import BadInputError
from mappable.features.centering import without_visit_means
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.files import write_atomically, writing
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
    """The encoder that was kept, "off-the-shelf" or "trained", and the share that each found (None:
    not judged).
    """

    kept: str
    off_the_shelf: float | None
    trained: float | None
    queries: int
    why: str


def train_as_planned(
    places: Places, images: Images, plan: Plan, *, out: Path, device: str = "auto", overwrite: bool = False,
    activations: Path | None = None, minutes: float = math.inf,
) -> Chosen:  # fmt: skip
    """Make the off-the-shelf encoder, train the other one, and write the better one and a record to
    `out`.

    Both are judged on images that did not train: the calibration images, or the held-out stretch of
    the plan. An image is found if the nearest descriptor of another visit is of a place within the
    positive radius.

    `minutes` is a deadline for all of it. Training stops in time to judge it as long as the first
    encoder was judged. A later call with more minutes continues the training.
    """
    began = time.perf_counter()
    before = {} if overwrite else read_record(out) or {}
    ended = bool(before.get("chosen")) and minutes <= float(str(before.get("minutes") or "inf"))
    _write_record(out, places, plan, minutes)
    shelf = train(
        places,
        images,
        plan.off_the_shelf,
        out=out / OFF_THE_SHELF,
        device=device,
        overwrite=overwrite,
    )

    def keep(
        kept: str, shares: tuple[float | None, float | None], queries: int, why: str
    ) -> Chosen:
        for name in (SETTINGS, ENCODER):
            _link(out / kept / name, out / name)
        chosen = Chosen(kept, *shares, queries, why)
        _write_record(out, places, plan, minutes, chosen)
        return chosen

    if plan.trained is None:
        return keep(OFF_THE_SHELF, (None, None), 0, plan.why_not)
    queries, candidates = _rows_to_judge(
        places, plan.held_out if len(plan.held_out) else places.calibration()
    )
    judge = partial(
        found_share, places=places, images=images, queries=queries, candidates=candidates,
        radius=plan.trained.positive_radius,
    )  # fmt: skip
    judging = time.perf_counter()
    share_before = judge(shelf)
    if share_before >= ENOUGH:
        why = "off the shelf, the encoder finds nearly all held-out images"
        return keep(OFF_THE_SHELF, (share_before, None), len(queries), why)
    now = time.perf_counter()
    remaining = 0.0 if ended else max(0.0, minutes - (now - began + now - judging) / 60)
    try:
        trained = train(
            plan.table, images, plan.trained, out=out / TRAINED, device=device, overwrite=overwrite,
            activations=activations, minutes=remaining,
        )  # fmt: skip
    except OutOfTimeError as error:
        return keep(OFF_THE_SHELF, (share_before, None), len(queries), str(error))
    steps = trained.about.settings["iterations"]
    early = f"; the time ran out after {steps:,} steps, more --minutes continue"
    stopped = "" if steps == plan.trained.iterations else early
    shares = share_before, judge(trained)
    if shares[1] >= shares[0] + GAIN:
        return keep(TRAINED, shares, len(queries), f"it finds more held-out images{stopped}")
    return keep(
        OFF_THE_SHELF, shares, len(queries), f"training did not find more held-out images{stopped}"
    )


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, atomically; a file system without hard links gets a copy."""
    other = target.with_name(f".{target.name}.link")
    other.unlink(missing_ok=True)
    with writing(target):
        try:
            os.link(source, other)
        except OSError:
            shutil.copyfile(source, other)
        other.replace(target)


def found_share(
    encoder: Encoder,
    *,
    places: Places,
    images: Images,
    queries: Ints,
    candidates: Ints,
    radius: float,
) -> float:
    """The share of `queries` whose nearest image of another visit, among `candidates`, is within
    the radius.

    Descriptors are compared without the mean of their visit, as maps compare them.
    """
    rows = np.union1d(queries, candidates)
    described = without_visit_means(encoder.embed(images.take(rows)), places.sequence[rows])
    products = (
        described[np.searchsorted(rows, queries)] @ described[np.searchsorted(rows, candidates)].T
    )
    products[_own_visit(places, queries, candidates)] = -np.inf
    nearest = candidates[products.argmax(axis=1)]
    errors = np.linalg.norm(places.positions[queries] - places.positions[nearest], axis=1)
    return float((errors <= radius).mean())


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
    return [str(place_id) for place_id in ids] if isinstance(ids, list) and ids else None


def _write_record(
    out: Path, places: Places, plan: Plan, minutes: float, chosen: Chosen | None = None
) -> None:
    """Write what was planned, and what was chosen, if it is known."""
    record = {
        "minutes": None if math.isinf(minutes) else minutes,
        "reasons": [asdict(reason) for reason in plan.reasons],
        "why_not": plan.why_not,
        "held_out": places.place_id[plan.held_out].tolist(),
        "chosen": None if chosen is None else asdict(chosen),
    }
    text = json.dumps(record, indent=2).encode()
    write_atomically(out / RECORD, lambda stream: stream.write(text))


def _rows_to_judge(places: Places, rows: Ints) -> tuple[Ints, Ints]:
    """Some of the rows as queries, and the images among which they are searched: at the same
    places, and elsewhere.
    """
    candidates = np.union1d(rows, places.training())
    candidates = candidates[places.frame[candidates] == places.frame[rows[0]]]
    low, high = places.positions[rows].min(axis=0), places.positions[rows].max(axis=0)
    inside = ((places.positions[candidates] >= low) & (places.positions[candidates] <= high)).all(
        axis=1
    )
    near, far = candidates[inside], candidates[~inside]
    distractors = far[evenly(len(far), DISTRACTORS)] if len(far) else far
    candidates = np.union1d(near[evenly(len(near), MOST_CANDIDATES)], distractors)
    queries = rows[evenly(len(rows), MOST_QUERIES)]
    usable = ~_own_visit(places, queries, candidates).all(axis=1)
    if not usable.any():
        raise BadInputError(
            "no held-out image has an image of another visit to be compared with; take another"
            " visit"
        )
    return queries[usable], candidates


def _own_visit(places: Places, queries: Ints, candidates: Ints) -> Bools:
    """True (n, m) where a candidate is of the query's visit; a later lap of one sequence is another
    visit.
    """
    same: Bools = np.asarray(
        places.sequence[queries][:, None] == places.sequence[candidates][None], dtype=bool
    )
    if len(set(places.sequence[candidates])) > 1:
        return same
    order = (
        np.argsort(np.argsort(places.time, kind="stable"))
        if (places.time > 0).any()
        else np.arange(len(places))
    )
    same &= np.abs(order[queries][:, None] - order[candidates][None]) < len(places) // 10
    return same
