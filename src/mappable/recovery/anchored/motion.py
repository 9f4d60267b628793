"""The motion prior of a camera along its sequence: straight on, or turning.

Positions in order have steps v, with lengths l = |v| and directions t = v / l.

- Length: a step is about as long as the step before, l - `pace` = `steady` * (l_before - `pace`) + noise of spread
  `uneven`.
- Curvature: c = (t' - t) / h, where h is the mean length of the two steps. On a straight stretch, c is noise of spread
  `straight`. In a turn, it is similar to the point before: c = `likeness` * c_before + noise of spread `turning`.
- Turns: a path changes rarely between straight and turning.

The user does not give these numbers. They are drawn together with the positions. Their priors depend on the scale of
the ranges: a turn has a radius of about the longest range.
"""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints

# Priors. r is the longest range and h the length of a step. A count is the weight of a prior in observations.
STRAIGHT, STRAIGHT_COUNT = 0.04, 40  # radians * sqrt(h / r): change of direction per step on a straight stretch
TIGHT, TIGHT_COUNT = 1.0, 100  # of 1 / r: curvature of a turn
REMEMBERED = 0.75  # of r: metres along a turn after which 1/e of the curvature is left
BETWEEN, LASTING, TURN_COUNT = 10.0, 1.5, 100  # times r: metres between turns, and length of a turn
UNEVEN, UNEVEN_COUNT = 0.05, 30  # of h: spread of the noise in the length of a step
PACE_SPREAD = 0.5  # of h: spread of the mean length of a step
STEADY, STEADY_SPREAD = 0.5, 0.3  # correlation of the lengths of consecutive steps, and its spread
# Numerics.
LEAST_STEP = 0.3  # of h: shorter steps count as this long, because their direction is not reliable
WIDE = 0.2  # of r: metres to each side over which a direction is measured
STENCIL = (1.0, -2.0, 1.0)  # second difference


@dataclass
class Motion:
    """The motion prior, linearized at given positions: curvature and change of step for small displacements."""

    order: Ints  # (m,): the points in the order of their images, one sequence after the other
    inside: Bools  # (m - 2,): False if three consecutive points are of more than one sequence
    step: float  # typical metres from one point to the next
    reach: float  # metres of the longest range

    def __post_init__(self) -> None:
        h, r = self.step, self.reach
        self.wide = max(1, round(WIDE * r / h))
        self.usual_straight = STRAIGHT * np.sqrt(h / r) / h
        self.usual_likeness = float(np.exp(-h / (REMEMBERED * r)))
        self.usual_turning = TIGHT / r * np.sqrt(1 - self.usual_likeness**2)
        self.usual_begin, self.usual_end = min(h / (BETWEEN * r), 0.5), min(h / (LASTING * r), 0.5)
        self.parts = [np.full(len(self.inside), number / h**2) for number in STENCIL]
        self.between: Floats = np.full(len(self.inside), h)  # metres over which a change of direction is measured
        self.angle, self.angle_sigma = np.zeros(len(self.inside)), np.full(len(self.inside), np.inf)
        self.reset()

    def reset(self) -> None:
        """Return to the prior."""
        self.straight, self.turning, self.likeness = self.usual_straight, self.usual_turning, self.usual_likeness
        self.begin, self.end = self.usual_begin, self.usual_end
        self.uneven, self.pace, self.steady = UNEVEN * self.step, self.step, STEADY
        self.precision: Floats = np.where(self.inside, self.straight**-2.0, 0.0)  # of c, given c_before
        self.alike: Floats = np.zeros(len(self.inside))  # factor of c_before: `likeness` in turns, else 0

    def hint(self, at: Ints, radians: Floats, sigma: Floats) -> None:
        """Set known changes of direction, positive to the left, at some of the middle points (t,)."""
        self.angle[at], self.angle_sigma[at] = radians, sigma

    def _hints(self) -> tuple[Floats, Floats]:
        """Return differences (t, k) of curvatures from the known ones, and precisions (t,), 0 where none is known."""
        precision = np.where(self.inside, np.square(self.between / self.angle_sigma), 0.0)
        if not precision.any():
            return np.zeros_like(self.along), precision
        left = np.stack([-self.along[:, 1], self.along[:, 0]], 1)
        off: Floats = self.curvature - (self.angle / self.between)[:, None] * left
        return off, precision

    def look(self, positions: Floats) -> None:
        """Linearize at these positions (n, k): measure directions, curvatures and steps."""
        path = positions[self.order]
        last = len(path) - 1
        middle = np.arange(1, last)
        chords = path[np.minimum(middle + self.wide, last)] - path[np.maximum(middle - self.wide, 0)]
        self.along = chords / np.maximum(np.linalg.norm(chords, axis=1), 1e-9)[:, None]
        self.sideways = np.eye(path.shape[1]) - self.along[:, :, None] * self.along[:, None, :]
        self.curvature, self.before, self.behind = self.measure(positions)
        self.news = self.surprise(self.before, self.behind)

    def measure(self, positions: Floats) -> tuple[Floats, Floats, Floats]:
        """Return curvatures (t, k) and lengths (t,) of the steps before and after, linearized at the last `look`."""
        path = positions[self.order]
        steps = np.diff(path, axis=0)
        before, behind = ((some * self.along).sum(1) for some in (steps[:-1], steps[1:]))
        bend = sum(part[:, None] * path[p : p + len(part)] for p, part in enumerate(self.parts))
        return bend - (bend * self.along).sum(1)[:, None] * self.along, before, behind

    def surprise(self, before: Floats, behind: Floats) -> Floats:
        """Return the difference (t,) of step lengths from their prediction by the step before."""
        news: Floats = behind - self.pace - self.steady * (before - self.pace)
        return news

    def measure_steps(self, positions: Floats) -> None:
        """Update the stencil by the step lengths at these positions (n, k)."""
        lengths = np.linalg.norm(np.diff(positions[self.order], axis=0), axis=1)
        lengths = np.maximum(lengths, LEAST_STEP * self.step)
        before, behind = lengths[:-1], lengths[1:]
        mean = (before + behind) / 2
        self.between = mean
        self.parts = [1 / (before * mean), -(1 / before + 1 / behind) / mean, 1 / (behind * mean)]

    def relax(self) -> None:
        """Reduce the weight of strong curvatures, by the weights of a Cauchy distribution as wide as `straight`."""
        k = self.curvature.shape[1]
        squared = np.square(self.curvature).sum(1)
        self.precision = np.where(self.inside, k / (self.straight**2 + squared), 0.0)
        self.pace = float(np.median(self.behind[self.inside]))
        news = self.surprise(self.before, self.behind)
        even = np.square(news[self.inside]).sum() + UNEVEN_COUNT * np.square(UNEVEN * self.step)
        self.uneven = float(np.sqrt(even / (self.inside.sum() + UNEVEN_COUNT)))

    def draw(self, positions: Floats, rng: np.random.Generator) -> None:
        """Draw which points are in turns, and then all spreads and rates, for positions near the last `look`."""
        c, *lengths = self.measure(positions)
        self._draw_pace(lengths[0][self.inside], lengths[1][self.inside], rng)
        k = c.shape[1] - 1  # number of directions in which a path can turn
        before, as_straight, as_turn = self._likelihoods(c)
        turns = _draw_turns(as_turn - as_straight, self.begin, self.end, rng)
        straight, turn = self.inside & ~turns, self.inside & turns
        self.straight = _draw_spread(
            np.square(c[straight]).sum(), k * straight.sum(), self.usual_straight, STRAIGHT_COUNT, rng
        )
        precision = np.square(before[turn]).sum() / self.turning**2 + 1 / 0.2**2
        mean = ((before[turn] * c[turn]).sum() / self.turning**2 + self.usual_likeness / 0.2**2) / precision
        self.likeness = float(np.clip(rng.normal(mean, precision**-0.5), 0.0, 0.99))
        squared = np.square(c[turn] - self.likeness * before[turn]).sum()
        self.turning = _draw_spread(squared, k * turn.sum(), self.usual_turning, TIGHT_COUNT, rng)
        begins, ends = (turns[1:] & ~turns[:-1]).sum(), (~turns[1:] & turns[:-1]).sum()
        self.begin = _draw_rate(begins, straight.sum(), self.usual_begin, rng)
        self.end = _draw_rate(ends, turn.sum(), self.usual_end, rng)
        self._weigh(np.where(turns, self.turning, self.straight) ** -2.0, np.where(turn, self.likeness, 0.0))

    def _likelihoods(self, c: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the curvature before each curvature (t, k), and log likelihoods (t,) on a straight and in a turn."""
        before = np.concatenate([np.zeros((1, c.shape[1])), c[:-1]])
        before[1:][~self.inside[:-1]] = 0.0
        off = [(c, self.straight), (c - self.likeness * before, self.turning)]
        logs = [-0.5 * np.square(one / spread).sum(1) - (c.shape[1] - 1) * np.log(spread) for one, spread in off]
        straight, turn = (np.where(self.inside, one, 0.0) for one in logs)
        return before, straight, turn

    def _weigh(self, precision: Floats, alike: Floats) -> None:
        self.precision, self.alike = (np.where(self.inside, some, 0.0) for some in (precision, alike))
        self.alike[0] = 0.0
        self.alike[1:][~self.inside[:-1]] = 0.0

    def _draw_pace(self, before: Floats, behind: Floats, rng: np.random.Generator) -> None:
        """Draw `pace`, `steady` and `uneven`, given the lengths of steps and of the steps after them."""
        new = (1 - self.steady) / self.uneven
        precision = len(before) * new**2 + (PACE_SPREAD * self.step) ** -2
        mean = new * (behind - self.steady * before).sum() / self.uneven + self.step / (PACE_SPREAD * self.step) ** 2
        self.pace = float(rng.normal(mean / precision, precision**-0.5))
        off = before - self.pace
        precision = np.square(off).sum() / self.uneven**2 + STEADY_SPREAD**-2
        mean = (off * (behind - self.pace)).sum() / self.uneven**2 + STEADY / STEADY_SPREAD**2
        self.steady = float(np.clip(rng.normal(mean / precision, precision**-0.5), 0.0, 0.98))
        squared = np.square(self.surprise(before, behind)).sum()
        self.uneven = _draw_spread(squared, len(before), UNEVEN * self.step, UNEVEN_COUNT, rng)

    def costs(self) -> Floats:
        """Return half the squares (t,), in units of their variances, at the present positions and parameters."""
        off = self.curvature.copy()
        off[1:] -= self.alike[1:, None] * self.curvature[:-1]
        even = np.where(self.inside, np.square(self.news / self.uneven), 0.0)
        off_hints, hints = self._hints()
        costs: Floats = 0.5 * (self.precision * np.square(off).sum(1) + hints * np.square(off_hints).sum(1) + even)
        return costs

    def system(self) -> tuple[Floats, list[Floats]]:
        """Return the descent direction (m, k), and the bands [(m, k, k), (m - 1, k, k), ...] of the Hessian, by lag."""
        m, k = len(self.order), self.sideways.shape[1]
        likeness, weight = self.alike, self.precision
        # The penalty of the curvatures is c'Tc with a tridiagonal T.
        own = weight.copy()
        own[:-1] += np.square(likeness[1:]) * weight[1:]
        next_ = -likeness[1:] * weight[1:]
        pull = own[:, None] * self.curvature
        pull[:-1] += next_[:, None] * self.curvature[1:]
        pull[1:] += next_[:, None] * self.curvature[:-1]
        off_hints, hints = self._hints()
        own += hints
        pull += hints[:, None] * off_hints
        even = np.where(self.inside, self.uneven**-2, 0.0)
        evenly = even[:, None, None] * self.along[:, :, None] * self.along[:, None, :]
        sideways_next = self.sideways[:-1] @ self.sideways[1:]
        toward = np.einsum("tab,tb->ta", self.sideways, pull)
        gradient = np.zeros((m, k))
        bands = [np.zeros((m - lag, k, k)) for lag in range(4)]
        t = m - 2
        steps = self.steady, -1 - self.steady, 1.0
        for p, one in enumerate(self.parts):
            gradient[p : p + t] -= one[:, None] * toward + steps[p] * (even * self.news)[:, None] * self.along
            for q, two in enumerate(self.parts):
                if p <= q:
                    bands[q - p][p : p + t] += (one * two * own)[:, None, None] * self.sideways
                    bands[q - p][p : p + t] += steps[p] * steps[q] * evenly
                lag = q + 1 - p
                block = (one[:-1] * two[1:] * next_)[:, None, None] * sideways_next
                if lag >= 0:
                    bands[lag][p : p + t - 1] += block
                if lag <= 0:
                    bands[-lag][q + 1 : q + t] += block.transpose(0, 2, 1)
        return gradient, bands


def _filter_turns(ratios: Floats, begin: float, end: float) -> tuple[list[float], list[float]]:
    """Return chances (t,) of a turn in a two-state Markov chain, given log likelihood ratios up to there.

    Also return the likelihoods (t,) of each, relative to straight.
    """
    chances: list[float] = []
    both: list[float] = []
    chance = begin / (begin + end)
    for odd in np.exp(np.clip(ratios, -200, 200)).tolist():
        both.append(chance * odd + 1 - chance)
        chance = chance * odd / both[-1]
        chances.append(chance)
        chance = chance * (1 - end) + (1 - chance) * begin
    return chances, both


def _given_later(chance: float, later: bool, begin: float, end: float) -> float:
    """Return the chance of a turn, given whether the next point is in a turn."""
    yes, no = (1 - end, begin) if later else (end, 1 - begin)
    return chance * yes / (chance * yes + (1 - chance) * no)


def _draw_turns(ratios: Floats, begin: float, end: float, rng: np.random.Generator) -> Bools:
    """Draw states of a two-state Markov chain from log likelihood ratios (t,): forward filter, backward sampling."""
    chances, _ = _filter_turns(ratios, begin, end)
    turns = np.zeros(len(chances), dtype=bool)
    later: bool | None = None
    for number, dice in zip(reversed(range(len(chances))), rng.random(len(chances)).tolist(), strict=True):
        chance = chances[number] if later is None else _given_later(chances[number], later, begin, end)
        turns[number] = later = dice < chance
    return turns


def _draw_spread(squared: float, count: int, usual: float, usual_count: int, rng: np.random.Generator) -> float:
    """Draw a spread, given a sum of `count` squares and a prior `usual` that is worth `usual_count` numbers."""
    return float(np.sqrt((squared + usual_count * usual**2) / rng.chisquare(count + usual_count)))


def _draw_rate(times: int, trials: int, usual: float, rng: np.random.Generator) -> float:
    return float(
        np.clip(rng.beta(times + TURN_COUNT, max(trials - times, 0) + TURN_COUNT * (1 / usual - 1)), 1e-6, 0.9)
    )
