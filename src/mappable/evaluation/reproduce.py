"""Run a whole study: train the models, compute descriptors, score all protocols, write the report.

What exists and fits its inputs is used, what is missing is computed. Delete a file to compute it
again.
"""

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
from mappable.evaluation.evaluate import measure, run_facts
from mappable.evaluation.protocol import Protocol
from mappable.evaluation.protocols import protocols_named
from mappable.evaluation.protocols.home_and_away import NAME as HOME_AND_AWAY
from mappable.evaluation.protocols.home_and_away import HomeAndAway
from mappable.evaluation.report import PAGE, write_report
from mappable.evaluation.result import Result, empty_result
from mappable.evaluation.rows import PAPER_SETTINGS, Row
from mappable.evaluation.scoring import Descriptors, Scoring
from mappable.evaluation.sets import NamedSet
from mappable.evaluation.setup import Setup
from mappable.features.activations import FOLDER as ACTIVATIONS
from mappable.features.encoder import Encoder
from mappable.files import check_writable
from mappable.formats import LaterVersionError
from mappable.learning.folder import WATCHING, OtherRunError
from mappable.learning.metrics import read_metrics
from mappable.learning.settings import Settings, load_settings, with_defaults
from mappable.learning.trainer import train
from mappable.locks import take, wait_for
from mappable.places.pixels import Images
from mappable.worlds import worlds

MODELS, DESCRIPTORS, RESULTS = "models", "descriptors", "results"


@dataclass(frozen=True)
class PlannedModel:
    """A row of the table with one seed, and all its settings."""

    row: Row
    settings: Settings

    @property
    def folder(self) -> str:
        """The name of its folders."""
        return f"{self.row.name}-seed{self.settings.seed}"


def plan(
    named: NamedSet, rows: Iterable[Row], seeds: Sequence[int], values: Sequence[str] = ()
) -> list[PlannedModel]:
    """The models, seed by seed. Later settings win: the set's preset, the paper's settings, the
    user's, the row's.
    """
    return [
        PlannedModel(row, _settings(named, row, values, seed)) for seed in seeds for row in rows
    ]


def _settings(named: NamedSet, row: Row, values: Sequence[str], seed: int) -> Settings:
    before = () if row.ours else (*PAPER_SETTINGS, *named.paper)
    return load_settings(
        named.preset, named.settings, overrides=[*before, *values, *_texts(row), f"seed={seed}"]
    )


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
    as_printed: bool = False  # the models start as in the paper, see `printed_settings`
    command: str = ""
    away: tuple[Setup, ...] = ()  # places of other sets, on which models are scored too

    def run(self, models: Sequence[PlannedModel]) -> Iterator[Result]:
        """Train, describe and score one model after the other; yield each result after it is saved.

        Several processes may share the work: a model that another process has locked is skipped.
        """
        for model in models:
            lock = take(self.out / RESULTS / f".{model.folder}.lock")
            if lock is None:
                continue
            with lock:
                result = self._run(model)
            yield result

    @cached_property
    def rows(self) -> Ints:
        """Rows of the queries, and of other images that the requested protocols need."""
        needed = [protocol.rows(self.setup) for protocol in self.protocols]
        return np.unique(np.concatenate([self.setup.queries, *needed]).astype(np.int64))

    @cached_property
    def digest(self) -> str:
        """The digest of all images, which is the same for all protocols."""
        return image_digest(self.images)

    def _described(self, model: PlannedModel, encoder: Encoder) -> Descriptors:
        return load_descriptors(
            encoder,
            self.images,
            self.rows,
            self.digest,
            self.out / DESCRIPTORS / model.folder,
            precision=model.settings.precision,
            activations=self.out / ACTIVATIONS,
        )

    def _run(self, model: PlannedModel) -> Result:
        """The result with all protocols. Descriptors are computed only if a protocol is missing."""
        encoder, home = self._trained(model), self.out / RESULTS / model.folder
        result = replace(self._known(model, encoder.fingerprint), failed={})
        missing = [
            one for one in self.protocols if one.name not in {*result.scored, *result.skipped}
        ]
        if missing:
            described = self._described(model, encoder)
            scoring = Scoring(
                self.setup, described, encoder.about, lambda: (encoder, self.images), away=self.away
            )
            facts = run_facts(encoder.device, self.command) | _training(
                self.out / MODELS / model.folder
            )
            result = replace(measure(scoring, result, missing), ran=facts)
            result.save(home)
        return result

    def _known(self, model: PlannedModel, encoder: str) -> Result:
        """The saved result, without parts whose inputs have changed."""
        empty = empty_result(
            self.setup,
            row=model.row.name,
            title=model.row.title,
            seed=model.settings.seed,
            encoder=encoder,
            settings=model.settings.model_dump(mode="json"),
            images=self.digest,
        )
        saved = _saved(self.out / RESULTS / model.folder)
        if (
            saved is None
            or (saved.encoder, saved.setup) != (encoder, empty.setup)
            or not _same(saved, model.settings)
        ):
            return empty
        away, scored = saved.get(HomeAndAway), dict(saved.scored)
        if away is not None and self.away and list(away.sets) != [one.name for one in self.away]:
            del scored[HOME_AND_AWAY]
        return replace(empty, scored=scored, skipped=saved.skipped, ran=saved.ran)

    def _trained(self, model: PlannedModel) -> Encoder:
        """The trained encoder; training starts or resumes. `overwrite` replaces one of other
        settings or images.

        The trainer gets no calibration images, which it would test the encoder on: a study scores
        its models itself.
        """
        rows = self.setup.places.training()
        places, images = self.setup.places[rows], self.images.take(rows)
        how: dict[str, Any] = {
            "out": self.out / MODELS / model.folder,
            "device": self.device,
            "activations": self.out / ACTIVATIONS,
        }
        try:
            return train(places, images, model.settings, **how)
        except OtherRunError:
            if not self.overwrite:
                raise
            return train(places, images, model.settings, overwrite=True, **how)

    def results(self, models: Sequence[PlannedModel]) -> list[Result]:
        """The saved results of the models, made by any process, that fit their settings, the places
        and the images.
        """
        setup, found = f"{self.setup.fingerprint} {self.digest}", []
        for model in models:
            result = _saved(self.out / RESULTS / model.folder)
            if result is not None and result.setup == setup and _same(result, model.settings):
                found.append(result)
        return found

    def report(self, results: Sequence[Result]) -> Path:
        """Draw all figures and write the page; return its path."""
        return write_report(
            results,
            self.setup,
            self.images.read,
            self.out,
            command=self.command,
            as_printed=self.as_printed,
        )


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
    as_printed: bool = False,
    command: str = "",
    away: Sequence[str] = (),
) -> Study:
    """Read or render a set, ready to train its models. `away` are worlds to draw, or see
    `away_place`.
    """
    if not models:
        raise BadInputError("nothing to train; give at least one row and one seed")
    wanted = protocols_named(protocols)
    check_writable(out / PAGE)
    with wait_for(out / ".lock", "reads or renders the images"):
        setup, images = named.load(
            root, out, models[0].settings, every=every, overwrite=overwrite, choose=choose
        )
        others: list[Setup] = []
        if any(one.name == HOME_AND_AWAY for one in wanted):
            folders = [
                drawn(one, out, every) if one in {*worlds(), *named.away} else one for one in away
            ]
            others = [
                away_place(one, radius=setup.positive_radius, unit=setup.unit) for one in folders
            ]
    return Study(setup, images, out, wanted, device, overwrite, as_printed, command, tuple(others))


def _saved(home: Path) -> Result | None:
    """The result of an earlier run, if it can be read."""
    try:
        return Result.load(home)
    except LaterVersionError:
        raise
    except BadInputError:
        return None


def _same(result: Result, settings: Settings) -> bool:
    """Whether a result was made with these settings, except for those that do not change the
    weights.
    """
    before, now = with_defaults(result.settings), settings.model_dump(mode="json")
    return all(before[key] == value for key, value in now.items() if key not in WATCHING)


def _training(folder: Path) -> dict[str, float]:
    """The training time in seconds."""
    return {
        "training_seconds": max(
            (line["seconds"] for line in read_metrics(folder) if "seconds" in line), default=0.0
        )
    }
