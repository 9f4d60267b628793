"""The filter over places, against a sum over all paths."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from mappable.maps.place_filter import (
    ENTER,
    JUMP,
    LEAST_JUMP,
    LEAVE,
    Belief,
    Layout,
    Motion,
    PlaceFilter,
    Sight,
    tie_images,
)
from mappable.maps.steps import Steps

STEPS = Steps(metres=(0.0, 1.0, 3.0, 10.0), mean=(0.3, 0.6, 1.2, 1.8), deviation=(0.3, 0.2, 0.2, 0.2))
AT = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.5], [4.0, 0.0]])


def sights(count: int, seed: int) -> list[Sight]:
    random = np.random.default_rng(seed)
    return [Sight(np.arange(4), random.uniform(0.1, 4, 4), 0.1, random.uniform(0.1, 2)) for _ in range(count)]


@pytest.mark.parametrize("parents", [[-1, 0, 1, 2], [-1, 0, 0, 2], [-1, 0, 0, 0]])
@pytest.mark.parametrize("usual", [None, 1.0])
def test_beliefs_are_the_sums_over_all_paths(parents: list[int], usual: float | None) -> None:
    """Four landmarks or none (4), four images, tied as a line or a tree."""
    places = PlaceFilter(Layout(AT, 1.0), STEPS, usual)
    seen, squared = sights(4, 1), np.array([0.0, 0.5, 1.1, 1.9])
    like = np.array([[*one.likelihood, one.away] for one in seen])
    totals, share = np.zeros((4, 5)), places.layout.weights / 4
    for path in product(range(5), repeat=4):
        chance = like[0, path[0]] * (LEAVE if path[0] == 4 else ENTER * share[path[0]])
        for n in range(1, 4):
            leave, enter = (one[places._level(squared[n])] for one in (places.leave, places.enter))
            moves = places._moves(np.arange(4), np.arange(4), squared[n])
            one, two = path[parents[n]], path[n]
            if one == 4:
                move = 1 - enter if two == 4 else enter * share[two]
            else:
                move = leave if two == 4 else (1 - leave) * moves[one, two]
            chance *= move * like[n, two]
        for n in range(4):
            totals[n, path[n]] += chance
    beliefs = places.smooth(seen, np.array(parents), squared)
    found = np.array([[*one.probability, one.away] for one in beliefs])
    np.testing.assert_allclose(found, totals / totals.sum(1, keepdims=True), rtol=1e-5)


def test_one_update_at_a_time_gives_the_belief_about_the_last_image() -> None:
    places, seen, squared = PlaceFilter(Layout(AT, 1.0), STEPS, 1.0), sights(5, 2), [0.0, 0.4, 0.9, 1.3, 0.2]
    belief = places.start(seen[0])
    for sight, far in zip(seen[1:], squared[1:], strict=True):
        belief = places.update(belief, sight, far)
    last = places.smooth(seen, np.arange(-1, 4), np.array(squared))[-1]
    np.testing.assert_allclose(belief.probability, last.probability)
    assert belief.probability.sum() + belief.away == pytest.approx(1)


def test_an_image_breaks_the_path_if_it_fits_any_place_as_well_as_the_next_step() -> None:
    steps = Steps(metres=(0.0, 1.0, 3.0, 10.0), mean=(0.3, 0.6, 1.2, 1.8), deviation=(0.1, 0.1, 0.2, 0.2))
    at = np.column_stack([np.arange(40.0), np.zeros(40)])
    short, long = (PlaceFilter(Layout(at, 1.0), steps, usual) for usual in (1.0, 6.0))
    assert [short.breaks(squared) for squared in (0.3, 0.6, 1.8)] == [False, False, True]
    assert short.breaks(1.5)
    assert not long.breaks(1.5)  # steps of 6 m look like that


def test_a_camera_that_was_carried_off_unnoticed_is_found_again() -> None:
    """Its images break nowhere and its odometry goes on, but each image now looks e⁴ times more like another place."""
    at = np.column_stack([np.arange(40.0), np.zeros(40)])
    places = PlaceFilter(Layout(at, 1.0), STEPS, 1.0)
    belief, still = Belief(np.arange(40), np.eye(40)[5], 0.0), Motion(0.0, 0.0, 0.0, 0.01)
    assert not places.breaks(0.0)
    for _ in range(8):
        sight = Sight(np.arange(40), np.where(np.abs(at[:, 0] - 30) < 1, np.exp(4.0), 1.0), 1.0, 1e-6)
        belief = places.update(belief, sight, 0.0, still)
    assert belief.probability[30] > 0.5


def test_a_few_landmarks_for_each_image_are_nearly_as_good_as_all(town: Any) -> None:
    at = town.map.places.positions
    layout = Layout(at, 5.0)
    steps = Steps.fit(town.known[1], town.known[0])
    places = PlaceFilter(layout, steps, 5.0)
    drive = np.arange(10, 40)
    likely = np.exp(-np.square(np.linalg.norm(at[drive][:, None] - at, axis=2) / 10)) + 1e-4
    likely[10:13] = 1e-4  # nothing is seen here
    whole = [Sight(np.arange(len(at)), one, 1e-4, 1e-3) for one in likely]
    best = np.sort(np.argsort(-likely, axis=1)[:, :10], axis=1)
    few = [Sight(rows, one[rows], float(one.min()), 1e-3) for rows, one in zip(best, likely, strict=True)]
    squared = np.full(len(drive), np.interp(5.0, steps.metres, steps.mean))
    parents = np.arange(-1, len(drive) - 1)
    for one, other in zip(places.smooth(whole, parents, squared), places.smooth(few, parents, squared), strict=True):
        dense = np.zeros(len(at))
        dense[other.rows] = other.probability
        assert np.abs(dense - one.probability).sum() < 0.1


def test_moves_are_probabilities() -> None:
    at = np.arange(60.0)[:, None] * [1.0, 0.0]
    places = PlaceFilter(Layout(at, 1.0), STEPS, 1.0)
    for squared in (0.0, 0.6, 1.2, 1.8, 5.0):
        moves = places._moves(np.arange(60), np.arange(60), squared)
        assert moves.sum(1) == pytest.approx(1.0)
        assert moves.min() >= 0.4 * (JUMP if squared >= STEPS.plateau else LEAST_JUMP) / 60
    told = places.information(np.array([0.6, 1.2, 1.8]))
    assert told[0] > told[1] > told[2]


def test_moves_do_not_favor_a_stretch_with_more_landmarks() -> None:
    """Landmarks every metre up to 30 m, then every 3 m: a camera that moves at random is equally often in both."""
    at = np.concatenate([np.arange(0.0, 30.0), np.arange(30.0, 60.0, 3.0)])[:, None]
    places = PlaceFilter(Layout(at, 1.5), STEPS, 1.0)
    moves = np.linalg.matrix_power(places._moves(np.arange(40), np.arange(40), 0.6).astype(np.float64), 2000)
    assert moves[0].sum() == pytest.approx(1.0, abs=1e-3)
    assert 0.4 < moves[0, :30].sum() < 0.75  # and 0.92 if each landmark counted the same


def test_a_camera_that_stands_still_does_not_come_back_to_the_map() -> None:
    places = PlaceFilter(Layout(AT, 1.0), STEPS, 1.0)
    assert places.enter[0] == 0
    assert places.enter[places._level(STEPS.plateau)] == pytest.approx(ENTER, rel=0.02)


def test_an_image_of_another_place_does_not_part_a_drive() -> None:
    """Distances to the images one, two and three before; the third image is unlike all."""
    inf = np.inf
    squared = np.array([[inf, inf, inf], [0.5, inf, inf], [1.8, 1.7, inf], [1.9, 0.6, 0.9], [0.5, 1.8, 0.7]])
    assert tie_images(squared, plateau=1.8).tolist() == [-1, 0, 1, 1, 3]
