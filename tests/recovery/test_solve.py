"""Known positions and odometry: near the truth, with honest covariances, in every kind of problem."""

from dataclasses import dataclass

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery import graph
from mappable.recovery.align import align
from mappable.recovery.baselines import interpolated
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from simulated_ranges import NOISES, measure, route

pytestmark = pytest.mark.usefixtures("gtsam")


@dataclass
class Drive:
    truth: Floats
    ranges: Ranges
    motions: Motions

    def known(self, count: int, sigma: float = 0.5) -> Anchors:
        points = np.linspace(0, len(self.truth) - 1, count).round().astype(int)
        errors = np.random.default_rng(1).normal(0, sigma, (count, 2))
        return Anchors(points, self.truth[points] + errors, sigma)

    def error(self, recovered: Recovered) -> float:
        return float(np.sqrt(np.square(recovered.positions - self.truth).sum(1).mean()))

    def nees(self, recovered: Recovered) -> float:
        off = recovered.positions - self.truth
        assert recovered.covariances is not None
        return (
            float(np.einsum("na,nab,nb->n", off, np.linalg.inv(recovered.covariances), off).mean())
            / off.shape[1]
        )


def drive(kind: str = "open", *, seed: int = 4, drift: float = 0.0, count: int = 100) -> Drive:
    truth = route(kind, count, seed=seed, length=1.7 * count)  # type: ignore[arg-type]
    ranges = measure(truth, NOISES["mid"], seed=seed, missing=0.1, outliers=0.05)
    x, y = np.gradient(truth, axis=0).T
    heading = np.unwrap(np.arctan2(y, x))
    cos, sin = np.cos(heading[:-1]), np.sin(heading[:-1])
    east, north = np.diff(truth, axis=0).T
    metres = np.stack([cos * east + sin * north, cos * north - sin * east], 1)
    rng = np.random.default_rng(seed)
    turns = (
        np.diff(heading) + drift * np.linalg.norm(metres, axis=1) + rng.normal(0, 0.01, count - 1)
    )
    metres = (1 + 20 * drift) * metres + rng.normal(0, 0.05, metres.shape)
    i = np.arange(count - 1)
    return Drive(truth, ranges, Motions(i, i + 1, metres, turns, (0.05, 0.01)))


@pytest.mark.medium
@pytest.mark.parametrize("drift", [0.0, 0.002])
def test_odometry_and_two_known_positions_are_enough(drift: float) -> None:
    case = drive(drift=drift)
    recovered = recover(case.ranges, anchors=case.known(2, 0.1), motions=case.motions)
    assert case.error(recovered) < 2.0
    assert case.nees(recovered) < 3
    assert recovered.undetermined == ()


@pytest.mark.medium
def test_a_loop_with_odometry_needs_no_known_position() -> None:
    case = drive("loop")
    recovered = recover(case.ranges, motions=case.motions)
    positions = align(recovered.positions, case.truth, scale=False, mirror=False)(
        recovered.positions
    )
    assert np.sqrt(np.square(positions - case.truth).sum(1).mean()) < 1.0
    assert "begins at the first image" in recovered.undetermined[0]
    assert recovered.frames is not None


@pytest.mark.medium
@pytest.mark.parametrize("points", [[0, 20, 40], [0, 30, 70, 99]])
def test_a_pause_of_odometry_is_within_its_covariance(points: list[int]) -> None:
    case = drive(seed=8_002)
    keep = (case.motions.i < 48) | (case.motions.i >= 55)
    motions = Motions(
        *(
            getattr(case.motions, name)[keep]
            for name in ("i", "j", "metres", "rotations", "covariance")
        )
    )
    recovered = recover(
        case.ranges, anchors=Anchors(points, case.truth[points], 0.5), motions=motions
    )
    assert case.nees(recovered) < 3
    if points[-1] < 48:
        assert "to 99 are not determined" in recovered.undetermined[0]
    else:
        assert case.error(recovered) < 1.0


@pytest.mark.medium
def test_known_positions_every_twenty_metres_decide_the_turns() -> None:
    case = drive()
    known = case.known(9)
    recovered = recover(case.ranges, anchors=known)
    line = interpolated(100, known.points, known.positions)
    assert case.error(recovered) < 0.7 * np.sqrt(np.square(line - case.truth).sum(1).mean())
    assert case.nees(recovered) < 3
    true = np.linalg.norm(case.truth[case.ranges.i] - case.truth[case.ranges.j], axis=1)
    assert not recovered.used[true > 50].any()


@pytest.mark.medium
def test_a_long_stretch_between_known_positions_is_not_determined() -> None:
    case = drive()
    known = case.known(2)
    recovered = recover(case.ranges, anchors=known)
    assert "Images 1 to 98 are not determined: ± " in recovered.undetermined[0]
    line = interpolated(100, known.points, known.positions)
    assert case.error(recovered) < 1.2 * np.sqrt(np.square(line - case.truth).sum(1).mean())


@pytest.mark.medium
def test_known_positions_in_a_line_leave_the_mirror_image() -> None:
    truth = np.random.default_rng(2).uniform(0, 20, (40, 2))
    truth[:3, 1] = 10.0
    ranges = measure(truth, NOISES["low"], seed=0, radius=12.0)
    recovered = recover(ranges, anchors=Anchors(range(3), truth[:3], 0.05), ordered=False)
    other = truth * [1, -1] + [0, 20]
    off = [np.linalg.norm(recovered.positions - points, axis=1) for points in (truth, other)]
    assert min(np.median(each) for each in off) < 0.5
    assert recovered.covariances is not None
    assert (recovered.covariances[:, 1, 1] >= 0.5 * (recovered.positions[:, 1] - 10) ** 2).all()


@pytest.mark.medium
def test_points_that_nothing_connects_to_known_ones_have_no_position() -> None:
    case = drive()
    cut = case.ranges.where((case.ranges.i < 60) == (case.ranges.j < 60))
    recovered = recover(cut, anchors=Anchors([0, 30, 59], case.truth[[0, 30, 59]], 0.5))
    assert np.isfinite(recovered.positions[:60]).all()
    assert np.isnan(recovered.positions[60:]).all()
    assert "Images 60 to 99 are not connected to the rest." in recovered.undetermined
    assert recovered.assumed == 0
    joined = recover(
        cut, anchors=Anchors([0, 30, 59], case.truth[[0, 30, 59]], 0.5), assume_steps=True
    )
    assert joined.assumed > 0
    assert np.isfinite(joined.positions).all()


@pytest.mark.medium
def test_motions_alone_add_up() -> None:
    case = drive()
    recovered = recover(
        Ranges(100, [], [], [], []), anchors=case.known(4, 0.1), motions=case.motions
    )
    assert case.error(recovered) < 2.0


@pytest.mark.medium
def test_a_long_chain_is_solved() -> None:
    """Orderings other than METIS overflow the stack at 100,000 poses; this is a tenth, which both
    solve.
    """
    count = 10_000
    i = np.arange(count - 1)
    motions = Motions(
        i, i + 1, np.tile([1.0, 0.0], (count - 1, 1)), np.zeros(count - 1), (0.05, 0.01)
    )
    problem = graph.Problem(Ranges(count, [], [], [], []), 2, None, motions)
    model = graph.Model(np.zeros(0), np.zeros(0), np.zeros(0, bool), 1.0, 1.0, 0.1, 0.1)
    straight = np.stack([np.arange(count, dtype=float), np.zeros(count)], 1)
    found = graph.Builder(problem, model).fit(
        straight + np.random.default_rng(0).normal(0, 0.1, straight.shape)
    )
    np.testing.assert_allclose(
        np.linalg.norm(np.diff(found.positions, axis=0), axis=1), 1.0, atol=0.05
    )
