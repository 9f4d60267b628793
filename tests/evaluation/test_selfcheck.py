"""`mappable selfcheck`: correct code passes, and a deliberate error fails the matching check."""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import MappableError
from mappable.evaluation import references, selfcheck
from mappable.evaluation.selfcheck import CHECKS, Check, Trial, self_check
from mappable.learning.losses import terms
from mappable.learning.losses.loss import LOSS_NAMES
from mappable.learning.mining import FeatureCache
from mappable.maps import approximate
from mappable.maps.exact import Exact
from mappable.recovery.align import Alignment

NAMES = [check.name for check in CHECKS]


def run(name: str, seed: int = 0) -> Check:
    """One check alone, on the CPU."""
    return CHECKS[NAMES.index(name)].run(Trial(torch.device("cpu"), np.random.default_rng(seed)))


def changed(owner: Any, name: str, change: Callable[[Any], Any]) -> tuple[Any, str, Any]:
    """Arguments of `monkeypatch.setattr` that change the return value of a function."""
    original = getattr(owner, name)
    return owner, name, lambda *args, **options: change(original(*args, **options))


def without_mirror(points: Any, truth: Any, *, scale: bool = True) -> Alignment:
    """As `align`, but with rotations only."""
    own, wanted = points - points.mean(0), truth - truth.mean(0)
    left, strengths, right = np.linalg.svd(wanted.T @ own)
    signs = np.ones(len(strengths))
    signs[-1] = np.sign(np.linalg.det(left @ right))
    turn, factor = left @ np.diag(signs) @ right, (strengths @ signs) / np.square(own).sum() if scale else 1.0
    return Alignment(turn, factor, truth.mean(0) - factor * turn @ points.mean(0))


ERRORS = {  # the checks that fail: what is changed
    "a visual loss": (("losses", "losses, float32", "gradients"), changed(terms, "hinges", lambda one: 1.0001 * one)),
    "mining in half precision": (
        ("mining",),
        changed(FeatureCache, "squared_distances", lambda one: one.to(torch.bfloat16).float()),
    ),
    "rows of a search": (
        ("exact search", "exact search, float16"),
        changed(Exact, "nearest", lambda found: (found[0][:, ::-1], found[1])),
    ),
    "distances of a search": (
        ("exact search", "exact search, float16"),
        changed(Exact, "nearest", lambda found: (found[0], np.sqrt(found[1]))),
    ),
    "too few candidates": (("approximate search",), (approximate, "PROBED", 1)),
    "MDS": (("classical MDS",), changed(selfcheck, "classical_mds", lambda points: 1.001 * points)),
    "an early stop": (
        ("SMACOF",),
        (selfcheck, "sparse_smacof", lambda *args, steps, tolerance: smacof(*args, steps=5)),
    ),
    "alignment without mirror": (("alignment",), (selfcheck, "align", without_mirror)),
}
smacof = selfcheck.sparse_smacof


@pytest.mark.medium
def test_a_seed_gives_the_same_checks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "CHECKS", CHECKS[-3:])
    assert self_check("cpu", seed=3) == self_check("cpu", seed=3) != self_check("cpu", seed=4)


@pytest.mark.medium
@pytest.mark.parametrize("error", ERRORS)
def test_a_deliberate_error_is_caught(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names, change = ERRORS[error]
    if error == "a visual loss":
        monkeypatch.setattr("mappable.learning.losses.loss.hinges", change[2])
    monkeypatch.setattr(*change)
    for name in names:
        found = run(name)
        assert found.passed is False
        assert found.difference is None or found.difference > found.tolerance


def test_a_wrong_gradient_of_a_right_value_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(terms.GEOMETRIC, "huber", lambda residuals, delta: terms.huber(residuals.detach(), delta))
    assert run("losses").passed
    assert run("gradients").passed is False


def test_errors_and_nan_fail_and_missing_packages_are_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selfcheck, "align", lambda *_, **__: 1 / 0)
    assert run("alignment").error == "ZeroDivisionError: division by zero"
    assert run("alignment").passed is False
    monkeypatch.setattr(selfcheck, "classical_mds", lambda squared, _: np.full((len(squared), 2), np.nan))
    assert (run("classical MDS").passed, run("classical MDS").difference) == (False, None)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert (run("approximate search").passed, run("approximate search").error) == (None, "FAISS is not installed")


def test_every_variant_of_every_loss_is_checked() -> None:
    losses = list(selfcheck.all_losses())
    assert {one.name for one in losses} == set(LOSS_NAMES)
    assert len(set(losses)) == len(losses) == 4 + 10 * 4 + 4 * 2


def test_eigenvectors_of_the_reference_are_those_of_numpy() -> None:
    matrix = np.random.default_rng(0).normal(size=(7, 7))
    matrix += matrix.T
    values, vectors = zip(*references.eigenvalues_and_vectors(matrix.tolist()), strict=True)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], atol=1e-12)
    np.testing.assert_allclose(matrix @ np.transpose(vectors), np.transpose(vectors) * values, atol=1e-12)


@pytest.mark.medium
def test_the_command_prints_a_line_per_check_and_fails_if_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = CliRunner().invoke(app, ["selfcheck", "--device", "cpu", "--json"])
    assert sound.exit_code == 0, sound.output
    told = json.loads(sound.stdout)
    assert (told["seed"], told["passed"]) == (0, True)
    assert {one["name"]: one["passed"] for one in told["checks"]} == dict.fromkeys(NAMES, True)
    monkeypatch.setattr(selfcheck, "CHECKS", CHECKS[-3:])
    monkeypatch.setattr(selfcheck, "align", without_mirror)
    failed = CliRunner().invoke(app, ["selfcheck", "--device", "cpu", "--seed", "7"])
    lines = [line.strip() for line in failed.stdout.splitlines() if line.strip()]
    assert [line.rsplit(maxsplit=1)[-1] for line in lines[2:]] == ["ok", "ok", "FAILED"]
    assert failed.exit_code == 1
    assert isinstance(failed.exception, MappableError)
    assert str(failed.exception) == "1 of 3 checks failed (seed 7): alignment"
