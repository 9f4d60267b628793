"""Run a whole study: train the models, compute descriptors, score all protocols, write the report.

Each step is saved. After an interruption, the same command resumes, and repeats only steps whose inputs changed.
"""

import math
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.evaluation.away import away_place, drawn
from mappable.evaluation.embedding import image_digest, load_descriptors
from mappable.evaluation.evaluate import run_facts, score_all, still_known
from mappable.evaluation.protocol import Protocol
from mappable.evaluation.protocols import PROTOCOLS, protocols_named
from mappable.evaluation.protocols.home_and_away import NAME as HOME_AND_AWAY
from mappable.evaluation.report import PAGE, draw_all, write_report
from mappable.evaluation.result import RESULT, Result, empty_result, fingerprint_of
from mappable.evaluation.rows import PAPER_SETTINGS, Row
from mappable.evaluation.scoring import Descriptors, Scoring
from mappable.evaluation.sets import NamedSet
from mappable.evaluation.setup import Setup
from mappable.features.activations import FOLDER as ACTIVATIONS
from mappable.features.devices import find_device
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.files import check_writable
from mappable.formats import LaterVersionError
from mappable.learning.data import select
from mappable.learning.folder import DIVIDING, WATCHING, OtherRunError, look_into
from mappable.learning.metrics import read_metrics
from mappable.learning.settings import SYNONYMS, Settings, load_settings, with_defaults
from mappable.learning.trainer import train
from mappable.locks import take, wait_for
from mappable.places.pixels import Images
from mappable.worlds import worlds

HARMLESS = WATCHING | DIVIDING  # settings that do not change the weights
MODELS, DESCRIPTORS, RESULTS, FIGURES = "models", "descriptors", "results", "figures"


@dataclass(frozen=True)
class PlannedModel:
    """A row of the table with one seed, and all its settings."""

    row: Row
    settings: Settings

    @property
    def folder(self) -> str:
        """The name of its folders."""
        return f"{re.sub(r'[^a-z0-9+]+', '-', self.row.name).strip('-')}-seed{self.settings.seed}"


def plan(named: NamedSet, rows: Iterable[Row], seeds: Sequence[int], values: Sequence[str] = ()) -> list[PlannedModel]:
    """The models, seed by seed. Later settings win: the set's preset, the paper's settings, the user's, the row's."""
    return [PlannedModel(row, _settings(named, row, values, seed)) for seed in seeds for row in rows]


def vary(rows: Sequence[Row], variations: Sequence[str]) -> list[Row]:
    """The rows, each followed by its variations; `margin=0.1,0.3` adds two rows that differ in that setting only."""
    found = []
    for row in rows:
        found.append(row)
        for variation in variations:
            setting, equals, values = variation.partition("=")
            names = [value.strip() for value in values.split(",") if value.strip()]
            if not equals or not names:
                raise BadInputError(f"--vary is {variation!r}, expected KEY=VALUE,VALUE, such as margin=0.1,0.3")
            found += [row.varied(SYNONYMS.get(setting.strip(), setting.strip()), value) for value in names]
    return found


def _settings(named: NamedSet, row: Row, values: Sequence[str], seed: int) -> Settings:
    before = () if row.ours else (*PAPER_SETTINGS, *named.paper)
    return load_settings(named.preset, named.settings, overrides=[*before, *values, *_texts(row), f"seed={seed}"])


def _texts(row: Row) -> list[str]:
    return [f"{name}={value}" for name, value in row.settings.items()]


@dataclass(frozen=True)
class Study:
    """A set, its images, and the folder that holds models, descriptors, results and report."""

    setup: Setup
    images: Images
    out: Path
    protocols: Sequence[Protocol[Any]]
    device: str = "auto"
    overwrite: bool = False  # replace models that were trained with other settings or images
    lean: bool = False  # describe only images that the protocols need; delete descriptors once a model is scored
    as_printed: bool = False  # the models start as in the paper, see `printed_settings`
    command: str = ""
    away: tuple[Setup, ...] = ()  # places of other sets, on which models are scored too

    def run(self, models: Sequence[PlannedModel], seconds: float = math.inf) -> Iterator[Result]:
        """Train, describe and score one model after the other; yield each result after it is saved.

        Do not start a model that, judging by the slowest so far, would not finish within `seconds`. Several processes
        may share the work: a model that another process has locked is skipped.
        """
        start, longest = time.monotonic(), 0.0
        for model in models:
            begun = time.monotonic()
            if begun + longest > start + seconds:
                return
            lock = take(self.out / RESULTS / f".{model.folder}.lock")
            if lock is None:
                continue
            with lock:
                result = self._known(model) or self._run(model)
            yield result
            longest = max(longest, time.monotonic() - begun)

    @cached_property
    def rows(self) -> Ints:
        """Rows whose images any protocol needs, requested or not, because descriptors are kept for later runs."""
        return _rows_of(PROTOCOLS.values(), self.setup)

    @cached_property
    def digest(self) -> str:
        """The digest of the images in `rows`."""
        return image_digest(self.images, self.rows)

    def describe(self, model: PlannedModel) -> tuple[Encoder, Descriptors]:
        """The encoder of a model, trained if necessary, and the descriptors of all images that protocols need."""
        settings, activations = model.settings, self.out / ACTIVATIONS
        encoder = self._trained(settings, self.out / MODELS / model.folder, activations)
        kept = self.out / DESCRIPTORS / model.folder
        how: dict[str, Any] = {"precision": settings.precision, "activations": activations}
        rows = _rows_of(self.protocols, self.setup) if self.lean else self.rows
        return encoder, load_descriptors(encoder, self.images, rows, self.digest, kept, **how)

    @cached_property
    def data(self) -> str:
        """The fingerprint of the training data."""
        return select(self.setup.places, self.images, queries=0).fingerprint

    def _known(self, model: PlannedModel, *, failed: bool = False) -> Result | None:
        """The result of an earlier run, if its inputs are unchanged and no protocol is missing.

        A failed protocol counts as missing, unless `failed`.
        """
        folder, before = self.out / MODELS / model.folder, _before(self.out / RESULTS / model.folder)
        if before is None or not (folder / ENCODER).exists():
            return None
        try:
            encoder, _ = look_into(folder, model.settings, self.data)
        except BadInputError:
            return None  # training then raises the error, or starts again
        if encoder is None:
            return None
        nothing = Descriptors(self.rows, np.empty((0, 0), dtype=np.float16), encoder.fingerprint, self.digest)
        trained = encoder.to(find_device(self.device))  # a protocol's key may depend on the device
        scoring = Scoring(self.setup, nothing, encoder.about, lambda: (trained, self.images), away=self.away)
        done = set(still_known(scoring, before))
        if failed and before.encoder == encoder.fingerprint:
            done |= set(before.failed)
        return before if {one.name for one in self.protocols} <= done else None

    def _run(self, model: PlannedModel) -> Result:
        settings, out = model.settings, self.out
        encoder, made = self.describe(model)
        scoring = Scoring(self.setup, made, encoder.about, lambda: (encoder, self.images), away=self.away)
        home = out / RESULTS / model.folder
        empty = empty_result(
            self.setup,
            row=model.row.name,
            title=model.row.title,
            seed=settings.seed,
            encoder=encoder.fingerprint,
            settings=settings.model_dump(mode="json"),
            images=self.digest,
        )
        before = _before(home) or empty
        known = replace(empty, scored=before.scored, skipped=before.skipped, keys=before.keys, ran=before.ran)
        result = score_all(scoring, known, self.protocols)
        if result.keys != before.keys or not before.ran:
            result = replace(
                result, ran=run_facts(encoder.device, self.command) | _training(out / MODELS / model.folder)
            )
        result.save(home)
        if self.lean:
            shutil.rmtree(out / DESCRIPTORS / model.folder)
        return result

    def _trained(self, settings: Settings, folder: Path, activations: Path) -> Encoder:
        """The trained encoder; training starts or resumes. `overwrite` replaces one of other settings or images."""
        places = self.setup.places
        how: dict[str, Any] = {"out": folder, "device": self.device, "activations": activations}
        try:
            return train(places, self.images, settings, **how)
        except OtherRunError:
            if not self.overwrite:
                raise
            return train(places, self.images, settings, overwrite=True, **how)

    def report_on(self, models: Sequence[PlannedModel]) -> tuple[list[Result], Path | None]:
        """The complete results of the models, made by any process, and the path of their page, if there are any.

        Each of several processes writes the page when it has nothing left to do, so the last page covers all models.
        """
        with wait_for(self.out / FIGURES / ".lock", "writes the report"):
            results = [result for model in models if (result := self._known(model, failed=True))]
            return results, self.report(results) if results else None

    def report(self, results: Sequence[Result]) -> Path:
        """Draw all figures and write the page; return its path."""
        if not results:
            raise BadInputError(f"{self.out}: no results to report yet")
        figures, failed = draw_all(results, self.setup, self.images.read, self.out / FIGURES)
        how: dict[str, Any] = {"command": self.command, "as_printed": self.as_printed, "failed": failed}
        return write_report(results, self.setup, figures, self.out, **how)


def _rows_of(protocols: Iterable[Protocol[Any]], setup: Setup) -> Ints:
    return np.unique(np.concatenate([one.rows(setup) for one in protocols]).astype(np.int64))


def known_results(study: Study, models: Sequence[PlannedModel]) -> list[Result]:
    """The saved results of the models; raises for a result of other settings or another table."""
    found = []
    for model in models:
        home = study.out / RESULTS / model.folder
        if (home / RESULT).is_file():
            result = Result.load(home)
            settings = model.settings.model_dump(mode="json")
            before = with_defaults(result.settings)
            differing = [key for key in settings if key not in HARMLESS and before[key] != settings[key]]
            if differing or result.setup != fingerprint_of(study.setup, study.digest):
                what = f"another {differing[0]}" if differing else "other images, places, landmarks or radii"
                raise BadInputError(f"{home}: made with {what}; run again without --report-only")
            found.append(result)
    return found


def load_study(
    named: NamedSet,
    root: Path | None,
    out: Path,
    models: Sequence[PlannedModel],
    *,
    protocols: Sequence[str] | None = None,
    every: int = 1,
    choose: bool = False,
    device: str = "auto",
    overwrite: bool = False,
    lean: bool = False,
    as_printed: bool = False,
    command: str = "",
    away: Sequence[str] = (),
) -> Study:
    """Read or render a set, ready to train its models. `away` are worlds to draw, or see `away_place`."""
    if not models:
        raise BadInputError("nothing to train; give at least one row and one seed")
    wanted = protocols_named(protocols)
    check_writable(out / PAGE)
    with wait_for(out / ".lock", "reads or renders the images"):
        setup, images = named.load(root, out, models[0].settings, every=every, overwrite=overwrite, choose=choose)
        others: list[Setup] = []
        if any(one.name == HOME_AND_AWAY for one in wanted):
            folders = [drawn(one, out, every) if one in {*worlds(), *named.away} else one for one in away]
            others = [away_place(one, radius=setup.positive_radius, unit=setup.unit) for one in folders]
    return Study(setup, images, out, wanted, device, overwrite, lean, as_printed, command, tuple(others))


def _before(home: Path) -> Result | None:
    """The result of an earlier run, if it can be read."""
    try:
        return Result.load(home)
    except LaterVersionError:
        raise
    except BadInputError:
        return None


def _training(folder: Path) -> dict[str, float]:
    """The training time in seconds."""
    return {
        "training_seconds": max((line["seconds"] for line in read_metrics(folder) if "seconds" in line), default=0.0)
    }
