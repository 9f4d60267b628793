"""The protocol map-recovery on the synthetic street, with few images and repetitions."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.arrays import Bools, Floats, path_length
from mappable.evaluation.protocols.map_recovery import compute as map_recovery
from mappable.evaluation.protocols.map_recovery import repetition
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery, Method
from mappable.evaluation.protocols.map_recovery.repetition import ORACLE_MASK, PRINTED_MASK
from mappable.evaluation.records import Arrays, to_json
from mappable.evaluation.scoring import Descriptors, NotApplicableError, Scoring
from mappable.places.frames import Frame
from mappable.recovery.baselines import interpolated, trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.matrices import interior_point
from mappable.recovery.matrices.sdp import Completed
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered

pytestmark = pytest.mark.medium
RADIUS = 10.0  # metres


@pytest.fixture(scope="module", autouse=True)
def _few() -> Iterator[None]:
    """24 images, and two repetitions."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"IMAGES": 24, "REPETITIONS": 2}.items():
            patch.setattr(map_recovery, name, value)
        yield


@pytest.fixture(scope="module")
def scoring(scoring: Scoring) -> Scoring:
    """The first 160 m of the street."""
    return replace(scoring, setup=replace(scoring.setup, route_length=160.0))


@pytest.fixture(scope="module")
def scored(scoring: Scoring) -> MapRecovery:
    return map_recovery.score(scoring)


@pytest.fixture
def unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only interpolate known positions, which is faster."""

    def between(ranges: Ranges, dimensions: int = 2, anchors: Anchors | None = None, **hints: Any) -> Recovered:
        if anchors is None:
            return recover(ranges, dimensions, **hints)
        positions = interpolated(ranges.count, anchors.points, anchors.positions)
        return Recovered(positions, np.zeros(ranges.count, np.int64), np.ones(len(ranges), bool), 1.0, ())

    monkeypatch.setattr(repetition, "recover", between)


def rows_of(scored: MapRecovery) -> dict[str, Method]:
    return {row.method: row for row in scored.methods}


def off(scored: MapRecovery, name: str) -> float:
    """The root mean square error of the positions in a figure."""
    return float(np.sqrt(np.square(scored.positions[name] - scored.truth).sum(axis=1).mean()))


def written(scored: MapRecovery) -> tuple[Any, Arrays]:
    arrays: Arrays = {}
    return to_json(scored, arrays, "map-recovery"), arrays


def test_rows_hold_the_errors_of_the_positions(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_recovery, "REPETITIONS", 1)
    scored = map_recovery.score(scoring)
    rows = rows_of(scored)
    assert (scored.sequence, len(scored.images), len(scored.known)) == ("test-sun", 24, 10)
    np.testing.assert_array_equal(scoring.setup.places.positions[scored.images], scored.truth)
    assert set(scored.known) < set(scored.images)
    way = path_length(scoring.setup.places.positions[scoring.setup.places.sequence == "test-sun"])
    assert scored.length == pytest.approx(way[way <= 160.0].max())
    for name, found in trivial_rows(scored.truth).items():
        assert rows[name].mean == pytest.approx(found.rmse)
        assert rows[name].group == "trivial"
    for method, name in (
        ("SDP (trace form), classical MDS", "mds"),
        ("SDP (trace form), SMACOF", "smacof"),
        ("calibrated ranges", "recovered"),
        ("calibrated ranges and known positions", "anchored"),
    ):
        assert rows[method].mean == pytest.approx(off(scored, name))
        assert rows[method].percent == pytest.approx(100 * off(scored, name) / scored.length)
    assert rows["calibrated ranges"].rigid >= rows["calibrated ranges"].mean
    assert rows["calibrated ranges and known positions"].rigid is None
    assert any(note.startswith("5 of 5 semidefinite programs converged") for note in scored.notes)
    json.dumps(written(scored)[0], allow_nan=False)


def test_matrices_are_in_metres(scored: MapRecovery) -> None:
    assert scored.masked is not None
    assert scored.completed is not None
    kept = np.isfinite(scored.masked)
    assert (kept == kept.T).all()
    assert kept.diagonal().all()
    apart = np.linalg.norm(scored.truth[:, None] - scored.truth, axis=2)
    np.testing.assert_allclose(scored.true, apart)
    assert (np.diff(scored.truth[:, 0]) > 0).all()  # in order of time
    np.testing.assert_allclose(scored.completed[kept], scored.masked[kept], atol=0.3 * scored.masked[kept].max())


def test_known_positions_help_and_a_steady_pace_is_listed(scored: MapRecovery) -> None:
    rows = rows_of(scored)
    known = [name for name, row in rows.items() if row.group == "ours, known positions"]
    assert known == [
        "interpolated known positions",
        "a steady pace between known positions",
        "calibrated ranges and known positions",
    ]
    assert max(rows[name].mean for name in known) < 0.3 * rows["straight line"].mean
    assert all(rows[name].std > 0 for name in known)  # other images in each repetition


def test_the_papers_method_has_both_forms_and_all_masks_in_every_repetition(scored: MapRecovery) -> None:
    paper = [name for name, row in rows_of(scored).items() if row.group == "paper"]
    frobenius, trace = "SDP (Frobenius)", "SDP (trace form)"
    ways = [(frobenius, ""), (trace, ""), (frobenius, PRINTED_MASK), (frobenius, ORACLE_MASK), (trace, ORACLE_MASK)]
    assert paper == [f"{form}, {layout}{mask}" for form, mask in ways for layout in ("classical MDS", "SMACOF")]
    assert all(rows_of(scored)[name].std is not None for name in paper)


@pytest.mark.usefixtures("unfitted")
def test_a_program_that_does_not_converge_has_no_row(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interior_point, "STEPS", 3)
    scored = map_recovery.score(scoring)
    assert not any(row.group == "paper" for row in scored.methods)
    missing = [note for note in scored.notes if "did not converge" in note]
    assert missing[0].startswith('2 of 2 repetitions lack "trivial rows": ')
    assert any(note.startswith('2 of 2 repetitions lack "SDP (trace form), oracle mask": ') for note in missing)
    assert "0 of 10 semidefinite programs converged." in scored.notes
    assert scored.completed is None


def test_ours_also_runs_on_the_pairs_of_the_papers_mask(scored: MapRecovery) -> None:
    ours = [name for name, row in rows_of(scored).items() if row.group == "ours"]
    assert ours == ["calibrated ranges", "calibrated ranges, of the mask's pairs alone"]


def test_the_mask_is_judged_on_the_route(scored: MapRecovery) -> None:
    mask = scored.mask
    assert mask is not None
    assert 80 < mask.precision <= 100
    assert 0 < mask.recall < 100
    assert 0 < mask.per_row < 23
    bound = next(note for note in scored.notes if note.startswith("The mask keeps"))
    squared = float(bound.split("up to ")[1].split(". ")[0])
    assert mask.tau == pytest.approx(np.sqrt(squared / 0.9), rel=1e-3)


@pytest.mark.usefixtures("unfitted")
def test_the_mask_as_printed(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_recovery, "REPETITIONS", 1)
    masks, given = [], repetition.sdp_frobenius

    def watched(squared: Floats, mask: Bools, dimensions: int) -> Completed:
        masks.append((squared, mask))
        return given(squared, mask, dimensions)

    monkeypatch.setattr(repetition, "sdp_frobenius", watched)
    scored = map_recovery.score(scoring)
    squared_metres, mask = masks[1]  # after the mask with the chosen threshold
    described = scoring.descriptors[scored.images].astype(np.float64)
    pairs = [(i, j) for i in range(24) for j in range(i)]
    lam = RADIUS**2 / 0.9  # r1²/F²
    apart = {(i, j): lam * float(np.square(described[i] - described[j]).sum()) for i, j in pairs}  # squared metres
    kept = [pair for pair in pairs if apart[pair] <= RADIUS**2]
    assert 0 < len(kept) < len(pairs)
    for i, j in pairs:
        assert squared_metres[i, j] == pytest.approx(apart[i, j], rel=1e-3)
        assert mask[i, j] == mask[j, i] == ((i, j) in kept or (i == j + 1 and mask[i, j]))  # which connects parts
    near = [pair for pair in pairs if scored.true[pair] <= RADIUS]
    both = len(set(kept) & set(near))
    assert (
        f"keeps {2 * len(kept) / 24:.1f} of 23 pairs per image. {both / len(kept):.1%} of them are within 10 m. "
        f"It keeps {both / len(near):.1%} of all pairs within 10 m"
    ) in next(note for note in scored.notes if note.startswith("The mask as printed"))


@pytest.mark.usefixtures("unfitted")
def test_without_f_the_scale_is_fitted(scoring: Scoring, scored: MapRecovery) -> None:
    about = replace(scoring.about, feature_scale_squared=None, proportional=False)
    unknown = map_recovery.score(replace(scoring, about=about))
    products, squares = 0.0, 0.0
    for name in ("calibration-sun", "calibration-night"):
        rows = scoring.setup.rows_of(name, scoring.setup.calibration)
        for number, row in enumerate(rows):
            later = rows[number + 1 :]
            one = np.array([row])
            metres, squared = scoring.metres(one, later)[0], scoring.squared(one, later)[0]
            near = metres <= 10.0
            products += float(np.square(metres[near]) @ squared[near])
            squares += float(squared[near] @ squared[near])
    assert f"λ = {products / squares:.4g} m²: the best fit" in unknown.notes[0]
    assert f"the best fit to pairs within r1 is {products / squares:.4g} m²" in scored.notes[0]


def test_the_requested_rows_suffice_and_the_result_repeats(scoring: Scoring, scored: MapRecovery) -> None:
    rows = np.unique(map_recovery.rows(scoring.setup))
    assert len(rows) < len(scoring.setup.places)
    few = replace(scoring, descriptors=Descriptors(rows, scoring.descriptors[rows], scoring.descriptors.encoder))
    np.testing.assert_equal(written(map_recovery.score(few)), written(scored))


@pytest.mark.usefixtures("unfitted")
def test_features_without_information_leave_the_oracle_mask(scoring: Scoring) -> None:
    noise = np.random.default_rng(0).normal(size=scoring.descriptors.values.shape).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    scored = map_recovery.score(replace(scoring, descriptors=replace(scoring.descriptors, values=noise)))
    assert scored.mask is None
    assert [name for name, row in rows_of(scored).items() if row.group == "paper"] == [
        f"{form}, {layout}{mask}"
        for form, mask in (
            ("SDP (Frobenius)", PRINTED_MASK),
            ("SDP (Frobenius)", ORACLE_MASK),
            ("SDP (trace form)", ORACLE_MASK),
        )
        for layout in ("classical MDS", "SMACOF")
    ]
    assert scored.masked is None
    assert any(
        note.startswith("The mask as printed (λD ≤ r1²) keeps 0.0 of 23 pairs per image.") for note in scored.notes
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"route": "nowhere"}, r"route.* 0 images.*20"),
        ({"route_length": 30.0}, r"route.* 1. images"),
    ],
)
def test_too_few_images(scoring: Scoring, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(NotApplicableError, match=why):
        map_recovery.score(replace(scoring, setup=replace(scoring.setup, **changes)))


def test_positions_without_a_shape(scoring: Scoring) -> None:
    places = scoring.setup.places
    frames = replace(
        scoring, setup=replace(scoring.setup, places=places.replace(frames=Frame("street", unit="frames")))
    )
    with pytest.raises(NotApplicableError, match="positions are in frames, not in metres"):
        map_recovery.score(frames)
    still = places.replace(
        x=np.where(places.split == "test", 0.0, places.x), y=np.where(places.split == "test", 0.0, places.y)
    )
    with pytest.raises(NotApplicableError, match="one place"):
        map_recovery.score(replace(scoring, setup=replace(scoring.setup, places=still)))
