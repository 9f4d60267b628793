"""What a fit shows: the noise of ranges, which ranges are false, how steady the camera moves, how odometry drifts."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu
from scipy.stats import norm

from mappable.arrays import Bools, Floats
from mappable.recovery.graph import Fit, Model, Problem
from mappable.recovery.hints import Motions
from mappable.recovery.ranges import Ranges
from mappable.recovery.settings import SETTINGS
from mappable.recovery.starts import interpolated


def first_model(problem: Problem) -> Model:
    """Return the model before any fit: noise as stated, and steps as long as the ranges between
    consecutive images.
    """
    ranges = problem.ranges
    step = _usual_step(problem)
    sigma = ranges.sigma
    if problem.vague:
        sigma = sigma * np.sqrt(max(len(ranges) / ranges.count / SETTINGS.shared, 1.0))
    true = np.ones(len(ranges), dtype=bool)
    turn = SETTINGS.first_turn * step / problem.reach
    if problem.motions is not None and len(problem.pace):
        turn = SETTINGS.pause_turn / float(
            np.sqrt(np.mean([len(pause) for pause in problem.pauses]))
        )
    return Model(ranges.metres, sigma, true, 1.0, step, turn, 0.3)


def learned(problem: Problem, model: Model, fit: Fit) -> Model:
    """Estimate the model from a fit."""
    ranges = problem.ranges
    apart = np.linalg.norm(fit.positions[ranges.i] - fit.positions[ranges.j], axis=1)
    stated = _stated_sigma(ranges, apart)
    metres = ranges.metres + _cut_off(ranges, apart, stated)
    off = (apart - metres) / stated
    true = np.abs(off) < SETTINGS.false_range * max(1.0, spread(off))
    if problem.vague:
        deviations = _of_images(ranges, off, true)
        metres = metres + stated * deviations
        off = off - deviations
        true = np.abs(off) < SETTINGS.false_range * max(1.0, spread(off))
    noise = max(spread(off[true]) * _freedom(problem, fit, true), 1.0)
    alike = _alike(ranges, off, true)
    shared = np.sqrt(alike)
    found = replace(model, metres=metres, sigma=stated * noise * shared, true=true, noise=noise)
    if len(problem.pace):
        found = _with_pace(problem, found, fit)
    if problem.motions is not None:
        found = _with_drift(problem, problem.motions, found, fit)
    return found


def spread(values: Floats) -> float:
    """Return the standard deviation of most values, by the median."""
    return 1.4826 * float(np.median(np.abs(values))) if len(values) else 1.0


def _stated_sigma(ranges: Ranges, apart: Floats) -> Floats:
    """Return sigma (edges,) at the true distances, if it follows from the distance alone."""
    order = np.argsort(ranges.metres, kind="stable")
    rising = ranges.sigma[order]
    if not len(ranges) or (np.diff(rising) < -1e-9).any():
        return ranges.sigma
    return np.interp(apart, ranges.metres[order], rising)


def _cut_off(ranges: Ranges, apart: Floats, sigma: Floats) -> Floats:
    """Return by how much ranges (edges,) are too short because longer ones were not kept, in
    metres.
    """
    left = (ranges.metres.max(initial=0.0) - apart) / sigma
    shorter: Floats = sigma * np.exp(norm.logpdf(left) - norm.logcdf(left)) * (left > -2)
    return shorter


def _freedom(problem: Problem, fit: Fit, true: Bools) -> float:
    """Return the factor by which residuals are too small, because coordinates were fitted to them."""
    if problem.posed:
        return 1.0
    count = float(true.sum())
    return float(np.sqrt(count / max(count - fit.positions.size, 0.1 * count)))


def _of_images(ranges: Ranges, off: Floats, true: Bools) -> Floats:
    """Return what both images of a range add to it, in sigmas (edges,): the mean of a Gaussian
    model.

    The variance of an image follows from the products of residuals that share the image.
    """
    edges = np.flatnonzero(true)
    ends = np.stack([ranges.i[edges], ranges.j[edges]], 1).ravel()
    values = np.repeat(off[edges], 2)
    sums, squares, counts = (
        np.bincount(ends, w, ranges.count) for w in (values, values**2, np.ones(len(ends)))
    )
    pairs = float((counts * (counts - 1)).sum())
    variance = float((sums**2 - squares).sum()) / max(pairs, 1.0)
    own = float(np.mean(off[edges] ** 2)) - 2 * variance
    if variance <= 0 or own <= 0:
        return np.zeros(len(off))
    rows = csr_array(
        (np.ones(len(ends)), ends, np.arange(0, len(ends) + 1, 2)), shape=(len(edges), ranges.count)
    )
    system = rows.T @ rows / own + diags_array(np.full(ranges.count, 1 / variance))
    of_image = splu(system.tocsc()).solve(rows.T @ off[edges] / own)
    both: Floats = of_image[ranges.i] + of_image[ranges.j]
    return both


def _alike(ranges: Ranges, off: Floats, true: Bools) -> float:
    """Return how many ranges of an image count as one, because their residuals go together."""
    ends = np.concatenate([ranges.i[true], ranges.j[true]])
    values = np.tile(off[true], 2)
    counts = np.bincount(ends, minlength=ranges.count)
    means = np.bincount(ends, values, ranges.count) / np.maximum(counts, 1)
    several = counts > 2
    if not several.any():
        return 1.0
    return max(
        1.0, float((counts * means**2)[several].mean() / max(float(np.mean(values**2)), 1e-9))
    )


def _usual_step(problem: Problem) -> float:
    """Return the length of a usual step in metres; vague ranges do not tell it, but known positions
    do.
    """
    ranges, anchors = problem.ranges, problem.anchors
    if anchors is not None and len(anchors) > 1 and problem.vague and len(problem.pace):
        between = interpolated(problem)
        step = 1.1 * float(np.median(np.linalg.norm(np.diff(between, axis=0), axis=1)))
    else:
        keys = ranges.i * ranges.count + ranges.j
        wanted = problem.pace.min(1) * ranges.count + problem.pace.max(1)
        following = ranges.metres[np.isin(keys, wanted)]
        step = float(np.median(following)) if len(following) else problem.reach / 3
    return max(step, 1e-3 * problem.reach)


def _with_pace(problem: Problem, model: Model, fit: Fit) -> Model:
    before, after = problem.pace.T
    turned = np.einsum("nab,nac->nbc", fit.frames[before], fit.frames[after])
    angles = np.arctan2(turned[:, 1, 0], turned[:, 0, 0])
    steps = np.linalg.norm(fit.positions[after] - fit.positions[before], axis=1)
    turn = model.turn
    if problem.motions is None:
        turn = float(np.clip(spread(angles), SETTINGS.least_turn * model.step / problem.reach, 1.0))
    step = max(float(np.median(steps)), 1e-3 * problem.reach)
    uneven = float(np.clip(spread(steps / step - 1), 0.05, 0.5))
    return replace(model, turn=turn, step=step, uneven=uneven)


def _with_drift(problem: Problem, motions: Motions, model: Model, fit: Fit) -> Model:
    k = problem.dimensions
    ways = np.einsum(
        "mba,mb->ma", fit.frames[motions.i], fit.positions[motions.j] - fit.positions[motions.i]
    )
    lengths = np.linalg.norm(motions.metres, axis=1)
    sigmas = np.sqrt(np.einsum("maa->ma", motions.covariance))
    scale, bias, turned = model.scale, model.bias, None
    known = problem.anchors is not None and len(problem.anchors) > 1
    if known or not problem.vague:  # vague ranges alone do not tell the scale
        weights = sigmas[:, 0] ** -2
        scale = float(
            (weights * (ways * motions.metres).sum(1)).sum() / (weights * lengths**2).sum()
        )
    residuals = [((ways - scale * motions.metres) / sigmas[:, :k]).ravel()]
    if k == 2:
        predicted = fit.frames[motions.i] @ motions.rotations
        turned = np.einsum("mab,mac->mbc", predicted, fit.frames[motions.j])
        angles, weights = np.arctan2(turned[:, 1, 0], turned[:, 0, 0]), sigmas[:, 2] ** -2
        bias = -float((weights * lengths * angles).sum() / (weights * lengths**2).sum())
        residuals.append((angles + bias * lengths) / sigmas[:, 2])
    else:
        residuals.append(np.ones(1))
    loose = tuple(max(1.0, float(np.sqrt(np.mean(np.square(values))))) for values in residuals)
    return replace(model, scale=scale, bias=bias, loose=(loose[0], loose[1]))
