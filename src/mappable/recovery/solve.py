"""Recovery with known positions or odometry: several starts, a robust fit, and what else would fit."""

from dataclasses import replace
from functools import partial

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.randomness import Purpose, generator
from mappable.recovery.align import align
from mappable.recovery.estimate import first_model, learned
from mappable.recovery.filtering import common_neighbor_filter
from mappable.recovery.folds import (
    OtherMaps,
    Start,
    distinct,
    mirrored_runs,
    other_maps,
    turned_pauses,
    unfold,
)
from mappable.recovery.graph import Builder, Fit, Model, Problem, connected
from mappable.recovery.result import Recovered
from mappable.recovery.settings import SETTINGS
from mappable.recovery.shape import embedded
from mappable.recovery.starts import interpolated, reckoned
from mappable.recovery.stretches import bent, find_stretches, search
from mappable.recovery.undetermined import describe


def solve(given: Problem, *, seed: int = 0) -> Recovered:
    """Recover positions in the coordinates of the known positions, or of the first image if only
    odometry is given.
    """
    kept = common_neighbor_filter(given.ranges)
    problem = replace(given, ranges=given.ranges.where(kept))
    try:
        problem, model, best, maps = _searched(problem, generator(seed, Purpose.ANCHORED), seed)
        model, best, covariances = _refined(problem, model, best)
    except RuntimeError as error:  # GTSAM raises it for singular systems
        raise BadInputError(
            f"the measurements leave a position without any bound ({error})"
        ) from None
    kept[kept] = model.true
    parts = _parts(problem)
    positions = best.positions + maps.shift
    covariances = covariances + maps.covariances + _mirror_image(problem, positions)
    lost = np.zeros(len(parts), dtype=bool)
    if problem.anchors is not None:
        lost = ~np.isin(parts, parts[problem.anchors.points])
        parts = np.where(lost, 1 + parts, 0)
        positions[lost], covariances[lost] = np.nan, np.nan
    sentences = describe(
        parts,
        covariances,
        problem.reach,
        loose=maps.loose & ~lost,
        placed=problem.anchors is not None,
    )
    frames = best.frames if problem.motions is not None else None
    return Recovered(positions, parts, kept, model.noise, sentences, covariances, frames)


def _searched(
    problem: Problem, rng: np.random.Generator, seed: int
) -> tuple[Problem, Model, Fit, OtherMaps]:
    """Return the best of several starts, and the other maps that were tried."""
    starts = _starts(problem, rng, seed)
    if len(problem.pace) and problem.motions is None and _ranges_suffice(problem, starts):
        problem = replace(problem, drives=[])
    model = first_model(problem)
    builder = Builder(problem, model)
    best = _best(builder, starts)
    if len(problem.pace):
        model = learned(problem, model, best)
        builder = Builder(problem, model)
        best = builder.fit(best.positions, best.frames if problem.motions is not None else None)
        if problem.motions is None:
            best, courses = search(problem, builder, best, rng)
            return problem, model, best, courses.mean()
    fits = [best]
    if len(problem.pace):
        best, fits = unfold(builder, best, lambda fit: turned_pauses(problem, fit, rng))
    elif problem.foldable:
        best, fits = unfold(builder, best, partial(mirrored_runs, problem))
    return problem, model, best, other_maps(distinct(best, fits, problem.reach), problem.reach)


def _best(builder: Builder, starts: list[Start]) -> Fit:
    return min((builder.fit(*start) for start in starts), key=lambda fit: fit.cost)


def _ranges_suffice(problem: Problem, starts: list[Start]) -> bool:
    """Return True if ranges alone place the points so precisely that a steady pace is not assumed."""
    if problem.ranges.count > SETTINGS.largest_search or problem.vague:
        return False
    loose = replace(problem, drives=[])
    builder = Builder(loose, first_model(loose))
    variances = (
        np.trace(builder.covariances(_best(builder, starts)), axis1=1, axis2=2) / problem.dimensions
    )
    return bool(np.sqrt(np.median(variances)) < SETTINGS.sure * first_model(problem).step)


def _starts(problem: Problem, rng: np.random.Generator, seed: int) -> list[Start]:
    if problem.motions is not None:
        return [reckoned(problem, problem.motions)]
    starts: list[Start] = []
    if problem.drives:
        between = interpolated(problem)
        step = first_model(problem).step
        for stretch in find_stretches(problem, step):
            between[stretch.points] = bent(stretch, between, step, rng)
        starts.append((between, None))
    if not starts or (problem.anchors is not None and len(problem.anchors) > problem.dimensions):
        starts += [(shape, None) for shape in _shapes(problem, seed)]
    return starts


def _shapes(problem: Problem, seed: int) -> list[Floats]:
    """Return the shapes (n, k) that fit ranges alone best, moved to the known positions."""
    maps = embedded(problem.ranges, problem.dimensions, seed)[: SETTINGS.fold_fits]
    shapes = [positions for _, positions in maps]
    anchors = problem.anchors
    if anchors is None:
        return shapes
    return [align(shape[anchors.points], anchors.positions, scale=False)(shape) for shape in shapes]


def _refined(problem: Problem, model: Model, best: Fit) -> tuple[Model, Fit, Floats]:
    """Fit again with the noise that each fit shows; return the last fit with covariances (n, k, k)."""
    for number in range(SETTINGS.rounds):
        model = learned(problem, model, best)
        builder = Builder(problem, model, robust=number < SETTINGS.rounds - 1)
        best = builder.fit(best.positions, best.frames)
    covariances = builder.covariances(best)
    if problem.motions is None:
        return model, best, covariances
    shift, drift = _drift(problem, model, best)
    return model, replace(best, positions=best.positions + shift), covariances + drift


def _drift(problem: Problem, model: Model, best: Fit) -> tuple[Floats, Floats]:
    """Return shifts (n, k) and covariances (n, k, k) of positions that follow from the drift of
    odometry.

    Scale and turn per metre are estimated apart from positions. So the graph is fitted with either
    a little changed. The misfit of these fits tells the best value and its variance.
    """
    shift, covariances = (
        np.zeros_like(best.positions),
        np.zeros((*best.positions.shape, problem.dimensions)),
    )
    steps = {"scale": SETTINGS.scale_step, "bias": SETTINGS.bias_step}
    if problem.dimensions == 3:
        del steps["bias"]
    if problem.vague and (problem.anchors is None or len(problem.anchors) < 2):
        del steps["scale"]  # vague ranges do not tell it
    for name, change in steps.items():
        value = getattr(model, name)
        more, less = (
            Builder(problem, replace(model, **{name: value + side * change}), robust=False).fit(
                best.positions, best.frames, steps=3
            )
            for side in (1, -1)
        )
        slope = (more.positions - less.positions) / (2 * change)
        precision = (more.cost + less.cost - 2 * best.cost) / change**2
        if precision > 0:
            off = (less.cost - more.cost) / (2 * change * precision)
            shift += slope * np.clip(off, -3 * change, 3 * change)
            covariances += np.einsum("na,nb->nab", slope, slope) / precision
    return shift, covariances


def _mirror_image(problem: Problem, positions: Floats) -> Floats | float:
    """Return covariances (n, k, k) for the mirror image, if known positions lie in a line (in 3-D:
    in a plane).
    """
    anchors = problem.anchors
    if anchors is None or problem.motions is not None:
        return 0.0
    center = anchors.positions.mean(0)
    sizes, ways = np.linalg.svd(anchors.positions - center)[1:]
    if len(sizes) == problem.dimensions and sizes[-1] > 3 * float(np.median(anchors.sigma)):
        return 0.0
    off = 2 * ((positions - center) @ ways[-1])[:, None] * ways[-1]
    other: Floats = np.einsum("na,nb->nab", off, off) / 2
    return other


def _parts(problem: Problem) -> Ints:
    """Return the connected part (n,) of each point, by ranges and motions."""
    i, j = problem.ranges.i, problem.ranges.j
    if problem.motions is not None:
        i, j = np.concatenate([i, problem.motions.i]), np.concatenate([j, problem.motions.j])
    return connected(problem.ranges.count, i, j)
