"""Localize a sequence: consecutive images decide together which place they show."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps.locate import CANDIDATES, Locator
from mappable.maps.location import Location

ALIKE = 0.2  # of the reach: images along such a way err alike, and are worth one; at least so many:
LEAST_ALIKE = 5
CHOICES = 64  # landmarks for each image among which the path chooses
WEAKER = 0.07  # how much less an image counts for the path than for a position of its own
STRETCH = 0.25  # of the reach: a way of that length costs one in the logarithm of the odds
USUAL, FREE = 0.3, 2.0  # quantile of the ways from one image to the next, and how often that way costs nothing
JUMP = 8.0  # logarithm of the odds against a jump to any other place
BEND = 0.3  # change of velocity from one image to the next, as a share of the usual step
STRIDE = 20  # images over which the usual step is measured
WINDOW = 11  # images that decide together whether they are on the map
DOUBTED = 25.0  # how much larger the variance of an image that is not on the map is held to be


def locate_sequence(
    locator: Locator,
    descriptors: Floats32,
    *,
    encoder: str,
    coverage: float | None = None,
    images: Sequence[str] | None = None,
    candidates: int = CANDIDATES,
) -> list[Location]:
    """Where the images of one drive are, by descriptors (n, D) in their order, which is held to be even in time.

    The places are those of the most likely path: images want near landmarks, and consecutive ones landmarks close
    together. Positions are refined as for single images, and then smoothed (a Kalman smoother of constant velocity)
    between one jump of the path and the next. The distance to the landmark and its interval stay those of a
    single image. For the options see `Locator.locate`.
    """
    calibration, at = locator.calibration, locator.positions
    if not len(descriptors):
        raise BadInputError("a sequence needs at least one image")
    rows, squared = locator.nearest(descriptors, encoder, candidates)
    moves = np.linalg.norm(np.diff(locator.look(rows, squared).found.position, axis=0), axis=1)
    free, stretch = FREE * np.quantile(moves, USUAL) if len(moves) else 0.0, STRETCH * calibration.response.reach
    path = rows[:, 0]
    if free <= FREE * calibration.response.reach:  # or images are too far apart to say anything about each other
        first, costs = rows[:, :CHOICES], WEAKER / calibration.temperature * squared[:, :CHOICES].astype(np.float64)
        path = _path(at, first, costs, free, stretch)
    near = np.linalg.norm(at[rows[:, : locator.neighbours]] - at[path][:, None], axis=2) <= calibration.response.reach
    seen = locator.look(rows, squared, near)
    seen = replace(seen, matched=_mean_of_window(seen.matched), place=_mean_of_window(seen.place))
    present = seen.matched <= calibration.threshold
    noise = locator.covariances(seen) * np.where(present, 1.0, DOUBTED)[:, None, None]
    jumped = np.linalg.norm(np.diff(at[path], axis=0), axis=1) > free + JUMP * stretch
    breaks = np.flatnonzero(jumped) + 1
    parts = np.split(np.arange(len(rows)), breaks)
    smooth = [_smooth(seen.found.position[part], noise[part], ALIKE * calibration.response.reach) for part in parts]
    coordinates, covariances = (np.concatenate(both) for both in zip(*smooth, strict=True))
    return locator.judge(
        rows, squared, seen, coverage, images=images, candidates=candidates, smoothed=(coordinates, covariances)
    )


def _path(at: Floats, rows: Ints, costs: Floats, free: float, stretch: float) -> Ints:
    """The landmarks (n,) of the cheapest path through rows (n, c).

    What goes beyond a `free` way costs one each `stretch`, and a jump `JUMP`.
    """
    total = costs[0]
    back = np.zeros(rows.shape, dtype=np.int64)
    for n in range(1, len(rows)):
        steps = (np.linalg.norm(at[rows[n]][:, None] - at[rows[n - 1]], axis=2) - free) / stretch
        whole = np.clip(steps, 0.0, JUMP) + total
        back[n] = whole.argmin(1)
        total = whole.min(1) + costs[n]
    chosen = np.empty(len(rows), dtype=np.int64)
    chosen[-1] = total.argmin()
    for n in range(len(rows) - 1, 0, -1):
        chosen[n - 1] = back[n, chosen[n]]
    return rows[np.arange(len(rows)), chosen]


def _mean_of_window(values: Floats) -> Floats:
    """The mean over `WINDOW` images around each, or as many as there are."""
    ones = np.ones(WINDOW)
    sums, counts = (np.convolve(one, ones)[WINDOW // 2 :][: len(values)] for one in (values, np.ones(len(values))))
    mean: Floats = sums / counts
    return mean


def _smooth(measured: Floats, noise: Floats, alike: float) -> tuple[Floats, Floats]:
    """Positions (n, k) and covariances (n, k, k) of a camera whose velocity changes little, measured with `noise`.

    Errors within a way `alike` are the same, so that all images on it count as one.
    """
    count, k = measured.shape
    stride = min(STRIDE, max(1, count - 1))
    step = (
        float(np.median(np.linalg.norm(measured[stride:] - measured[:-stride], axis=1))) / stride if count > 1 else 0.0
    )
    noise = noise * np.clip(alike / max(step, 1e-9), min(LEAST_ALIKE, count), count)
    change = max(BEND * step, 1e-3 * float(np.sqrt(noise[:, 0, 0].min())))
    zero, unit = np.zeros((k, k)), np.eye(k)
    onward = np.block([[unit, unit], [zero, unit]])
    drift = change**2 * np.block([[unit / 3, unit / 2], [unit / 2, unit]])  # of a velocity that walks at random
    states, spreads = np.empty((count, 2 * k)), np.empty((count, 2 * k, 2 * k))
    guesses, doubts = np.empty_like(states), np.empty_like(spreads)
    guess = np.concatenate([measured[0], np.zeros(k)])
    doubt = np.block([[1e3 * noise[0], zero], [zero, (10 * (step + change)) ** 2 * unit]])
    for n in range(count):
        guesses[n], doubts[n] = guess, doubt
        gain = np.linalg.solve(doubt[:k, :k] + noise[n], doubt[:k]).T
        states[n] = guess + gain @ (measured[n] - guess[:k])
        kept = np.eye(2 * k) - np.hstack([gain, np.zeros((2 * k, k))])
        spreads[n] = kept @ doubt @ kept.T + gain @ noise[n] @ gain.T  # of the forms of this the one that rounds best
        guess, doubt = onward @ states[n], onward @ spreads[n] @ onward.T + drift
    for n in range(count - 2, -1, -1):
        back = np.linalg.solve(doubts[n + 1], onward @ spreads[n]).T
        states[n] += back @ (states[n + 1] - guesses[n + 1])
        spreads[n] += back @ (spreads[n + 1] - doubts[n + 1]) @ back.T
    covariance = 0.5 * (spreads[:, :k, :k] + spreads[:, :k, :k].transpose(0, 2, 1))
    return states[:, :k], covariance
