"""The study: cases drawn as stated, every method beside the trivial rows, and the same numbers each time."""

import json
from dataclasses import replace

import numpy as np
import pytest

import recovery_study as comparison
from mappable.errors import BadInputError
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.methods import METHODS, method
from mappable.recovery.ranges import Ranges
from recovery_study import Case, cases, draw, run_study, study_to_json, summarize
from simulated_ranges import route

LOOP = Case("loop", "mid", 150, seed=1, length=300.0)


# Cases


def test_every_combination_is_a_case() -> None:
    wanted = cases(["open", "city"], ["mid", "learned"], count=50, seeds=3, anchors=[5, 10])
    assert len(wanted) == len(set(wanted)) == 2 * 2 * 3 * 3
    assert {case.anchors for case in wanted} == {0, 5, 10}
    assert {case.seed for case in wanted} == {0, 1, 2}
    assert {(case.kind, case.length) for case in wanted} == {("open", 672.0), ("city", 50.0)}


def test_a_case_is_drawn_the_same_each_time_and_each_noise_measures_the_same_route() -> None:
    truth, ranges, anchors = draw(LOOP)
    again = draw(LOOP)
    np.testing.assert_array_equal(truth, route("loop", 150, seed=1, length=300.0))
    np.testing.assert_array_equal(ranges.metres, again[1].metres)
    assert anchors is None
    learned = draw(replace(LOOP, noise="learned"))
    np.testing.assert_array_equal(learned[0], truth)
    assert len(learned[1]) != len(ranges)


def test_known_positions_are_evenly_spread_and_off_by_their_sigma() -> None:
    errors = []
    for seed in range(20):
        truth, _, anchors = draw(replace(LOOP, anchors=16, seed=seed))
        assert anchors is not None
        assert anchors.points[[0, -1]].tolist() == [0, 149]
        assert np.ptp(np.diff(anchors.points)) <= 1
        errors.append(anchors.positions - truth[anchors.points])
    assert np.std(errors) == pytest.approx(comparison.ANCHOR_SIGMA, rel=0.1)


def test_repetitions_of_one_route_take_other_images_of_it() -> None:
    one, two = (draw(replace(LOOP, same_route=True, seed=seed))[0] for seed in (0, 1))
    dense = route("loop", comparison.DENSER * 150, seed=0, length=300.0)
    for truth in (one, two):
        assert truth.shape == (150, 2)
        assert (np.linalg.norm(truth[:, None] - dense, axis=2).min(1) == 0).all()
        rows = [int(np.flatnonzero((dense == point).all(1))[0]) for point in truth]
        assert (np.diff(rows) > 0).all()  # in order
        assert np.diff(rows).max() <= 2 * comparison.DENSER + 1  # no gaps
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"noises": ["loud"]}, "no noise 'loud'; there are low, mid, high and learned"),
        ({"anchors": [0]}, "0 of 400 positions"),
        ({"anchors": [401]}, "401 of 400 positions"),
        ({"seeds": 0}, "0 repetitions"),
        ({"kinds": []}, "nothing to study"),
        ({"noises": []}, "nothing to study"),
    ],
)
def test_cases_that_cannot_be_are_refused(options: dict[str, object], part: str) -> None:
    values: dict[str, object] = {"kinds": ["open"], "noises": ["mid"]} | options
    with pytest.raises(BadInputError) as refused:
        cases(**values)  # type: ignore[arg-type]
    assert part in str(refused.value)


# Rows


@pytest.mark.medium
@pytest.mark.usefixtures("few_sweeps")
def test_each_case_has_its_trivial_rows_and_every_method() -> None:
    wanted = cases(["loop"], ["mid", "learned"], count=60, seeds=1, anchors=[8], length=120.0)
    rows = run_study(wanted, ["default", "geodesic"])
    for case in wanted:
        own = [row for row in rows if row.case == case]
        names = [row.method for row in own]
        if case.anchors:
            assert names == ["interpolated anchors", "anchored"]
        else:
            assert names == ["point", "straight line", "circle", "default", "geodesic"]
            truth = draw(case)[0]
            assert own[1].similarity == trivial_rows(truth)["straight line"]
            assert own[1].rigid == trivial_rows(truth, scale=False)["straight line"]
        for row in own:
            assert row.rigid.rmse >= row.similarity.rmse - 1e-9
            assert 0 < row.points <= 60


def test_the_same_study_gives_the_same_scores() -> None:
    first, second = (run_study([LOOP], ["default"]) for _ in range(2))
    assert [row.similarity for row in first] == [row.similarity for row in second]


def test_a_method_that_is_made_for_fewer_points_is_left_out() -> None:
    assert method("sdp").most < 310
    rows = run_study([replace(LOOP, count=310)], ["sdp", "geodesic"])
    assert [row.method for row in rows] == ["point", "straight line", "circle", "geodesic"]


@pytest.mark.parametrize("name", ["sdp", "sdp-frobenius"])
def test_a_dense_method_says_at_once_what_to_use_for_many_points(name: str) -> None:
    many = Ranges(1_000_000, [0, 1], [1, 2], [1.0, 1.0], 0.1)  # of which no matrix could be kept
    with pytest.raises(BadInputError, match="1,000,000"):
        method(name).run(many, 2, 0)


def test_a_method_that_does_not_exist_lists_those_that_do() -> None:
    with pytest.raises(BadInputError, match=r"method.*'magic'"):
        run_study([LOOP], ["magic"])


@pytest.mark.parametrize("name", [name for name in METHODS if name != "sdp"])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_method_finds_exact_points_again(name: str, dimensions: int) -> None:
    from mappable.recovery.align import aligned_score
    from mappable.recovery.ranges import Ranges

    points = np.random.default_rng(0).uniform(0, 10, (25, dimensions))
    i, j = np.triu_indices(25, 1)
    ranges = Ranges(25, i, j, np.linalg.norm(points[i] - points[j], axis=1), 0.1)
    recovered = method(name).run(ranges, dimensions, 0)
    assert aligned_score(recovered.positions, points, scale=False).rmse < 0.02
    assert any("mirror" in sentence for sentence in recovered.undetermined)
    assert recovered.parts.tolist() == [0] * 25


# Medians and files


def test_medians_are_over_repetitions_and_kept_with_every_row() -> None:
    rows = run_study(cases(["loop"], ["mid"], count=120, seeds=3, length=240.0), ["default"])
    found = {one.method: one for one in summarize(rows)}
    shares = [row.similarity.of_length for row in rows if row.method == "default"]
    assert found["default"].repetitions == 3
    assert found["default"].similarity == sorted(shares)[1]
    assert (found["default"].lowest, found["default"].highest) == (min(shares), max(shares))
    assert found["default"].mean == pytest.approx(np.mean(shares))
    assert found["default"].deviation == pytest.approx(np.std(shares))
    assert found["point"].of_gyration == pytest.approx(100)
    contents = json.loads(json.dumps(study_to_json(rows)))
    assert len(contents["rows"]) == len(rows)
    assert contents["rows"][3]["case"]["noise"] == "mid"
    assert contents["medians"][3]["similarity"] == found["default"].similarity
