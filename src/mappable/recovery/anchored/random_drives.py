"""Random drives in a plane: other ways that a path of some length could take between two points."""

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats

Complexes = NDArray[np.complex128]
DRAWS, ARRIVING = 200, 1.15  # drives drawn of each kind, and scale by which one is made to arrive, at most
SCALES = 1.0, 0.9, 1.1, 0.8, 1.25, 0.65, 1.5  # factors of the curvatures of a drive, tried until it arrives
BETWEEN, LASTING = 9.0, 1.5  # longest ranges: metres between turns, and length of a turn; as in motion.py
# Limits of the spread of curvatures of a winding drive, in 1 / longest range, and of the longest ranges after which 1/e
# of a curvature is left.
CURVED, REMEMBERED = (0.1, 1.0), (0.5, 8.0)


def random_drives(
    path: Floats, reach: float, rng: np.random.Generator, most: int, stretch: float = 1.0
) -> list[Floats]:
    """Draw random drives with the steps of a path times `stretch`, and keep at most `most` that arrive at its end.

    Every second drive goes straight between corners; the others wind. Curvatures are scaled to arrive.
    """
    line = path @ np.array([1, 1j])
    lengths, chord = stretch * np.abs(np.diff(line)), line[-1] - line[0]
    curvatures = np.stack([_cornered(lengths, reach, rng), _winding(lengths, reach, rng)], 1)
    headings = np.cumsum(curvatures.reshape(-1, len(lengths)) * lengths, axis=1)
    found: dict[int, Floats] = {}
    for scale in SCALES:
        ways = np.cumsum(lengths * np.exp(1j * scale * headings), axis=1)
        factors = chord / np.where(np.abs(ways[:, -1]) < 1e-9, 1e-9, ways[:, -1])
        for one in np.flatnonzero((np.abs(factors) < ARRIVING) & (np.abs(factors) > 1 / ARRIVING)).tolist():
            if one not in found:
                found[one] = plane(line[0] + factors[one] * np.concatenate([[0.0], ways[one]]))
    return [found[one] for one in sorted(found)[:most]]


def _cornered(lengths: Floats, reach: float, rng: np.random.Generator) -> Floats:
    """Draw curvatures (DRAWS, m) of drives that go straight between corners."""
    along = np.cumsum(lengths)
    corners = 2 + int(2 * along[-1] / (BETWEEN * reach))
    lasting = reach * rng.normal(LASTING, 0.3, (DRAWS, corners))
    gaps = reach * rng.gamma(4.0, BETWEEN / 4.0, (DRAWS, corners))
    gaps[:, 0] = reach * BETWEEN * (rng.exponential(1.0, DRAWS) - 0.5)
    end = np.cumsum(gaps + lasting, axis=1)
    signs = rng.choice([-1.0, 1.0], (DRAWS, corners))
    curvatures = np.zeros((DRAWS, len(lengths)))
    for corner in range(corners):
        stop, sign = end[:, corner, None], signs[:, corner, None]
        curvatures += np.where((along > stop - lasting[:, corner, None]) & (along <= stop), sign / reach, 0.0)
    return curvatures


def _winding(lengths: Floats, reach: float, rng: np.random.Generator) -> Floats:
    """Draw curvatures (DRAWS, m) of drives that wind: as strongly, and as long to one side, as chance has it."""
    spread, memory = (low * (high / low) ** rng.random((DRAWS, 1)) for low, high in (CURVED, REMEMBERED))
    alike = np.exp(-lengths / (memory * reach))
    noise = rng.standard_normal((DRAWS, len(lengths))) * np.sqrt(1 - alike**2)
    noise[:, 0] = rng.standard_normal(DRAWS)
    for step in range(1, len(lengths)):
        noise[:, step] += alike[:, step] * noise[:, step - 1]
    curvatures: Floats = noise * spread / reach
    return curvatures


def path_bends(line: Complexes, reach: float) -> tuple[Floats, Floats]:
    """Return the turns (m - 2,) along a path (m,) in radians, and its smooth curvature (m - 2,) per metre."""
    steps = np.diff(line)
    bends = np.angle(steps[1:] / np.where(steps[:-1] == 0, 1.0, steps[:-1]))
    usual = max(float(np.median(np.abs(steps))), 1e-9)
    wide = max(1, round(0.25 * reach / usual))
    return bends, np.convolve(bends, np.ones(2 * wide + 1) / (2 * wide + 1), mode="same") / usual


def path_length(path: Floats) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def plane(line: Floats) -> Floats:
    return np.stack([line.real, line.imag], 1)
