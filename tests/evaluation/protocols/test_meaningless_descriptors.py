"""Descriptors without information: every protocol, its sections and its figures still work."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mappable.arrays import Ints, Pixels
from mappable.evaluation.evaluate import score_all
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.map_recovery import compute as map_recovery
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery
from mappable.evaluation.report import draw_all, failures_of, write_report
from mappable.evaluation.result import empty_result
from mappable.evaluation.scoring import Descriptors, Scoring

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module", autouse=True)
def _few() -> Iterator[None]:
    """Recover maps once, from 24 images."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"IMAGES": 24, "REPETITIONS": 1}.items():
            patch.setattr(map_recovery, name, value)
        yield


def images(rows: Ints) -> Pixels:
    return np.repeat(rows % 256, 12 * 16 * 3).reshape(-1, 12, 16, 3).astype(np.uint8)


def random(count: int) -> np.ndarray:
    made = np.random.default_rng(5).normal(size=(count, 48))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.parametrize("describe", [random, lambda count: np.tile(random(1), (count, 1))], ids=["random", "constant"])
def test_every_protocol_handles_meaningless_descriptors(
    describe: Callable[[int], np.ndarray], scoring: Scoring, tmp_path: Path
) -> None:
    setup = scoring.setup
    values = describe(len(setup.places)).astype(np.float32)
    encoder = SimpleNamespace(
        device=torch.device("cpu"),
        for_queries=lambda: lambda pixels: values[:1],
        embed=lambda pixels, progress: values[: len(pixels)],
    )
    about = replace(scoring.about, feature_scale_squared=None)
    described = Descriptors(np.arange(len(values)), values, "nothing")
    nothing = Scoring(setup, described, about, lambda: (encoder, SimpleNamespace(read=images)))  # type: ignore[arg-type, return-value]
    started = empty_result(setup, row="off-the-shelf", title="nothing", seed=0, encoder="nothing", settings={})
    result = score_all(nothing, started, list(PROTOCOLS.values()))
    assert not result.failed
    assert set(result.scored) | set(result.skipped) == set(PROTOCOLS)
    assert set(result.skipped) <= {"map-recovery"}  # where no two images are near
    figures, failed = draw_all([result], setup, images, tmp_path)
    page = write_report([result], setup, figures, tmp_path, command="", failed=failed)
    assert failures_of(page) == []
    shown = {one["name"] for one in json.loads((tmp_path / "report.json").read_text())["sections"]}
    assert {"table1", "curves", "proportionality", "localization", "qualitative", "timing"} <= shown
    recovered = result.get(MapRecovery)
    assert (recovered is not None) == ("map-recovery" in figures) == ("map-recovery" in shown)
    if describe is random:
        assert recovered is not None
        assert recovered.masked is None  # no threshold of feature distances is precise enough
