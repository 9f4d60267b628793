"""Every number that decides something in recovery with known positions or odometry."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Chosen on simulated drives with seeds below 9,000; `studies/recovery/compare.py` measures
    other seeds.
    """

    # Loss. Widths are in sigmas, as usual in the field.
    cauchy: float = 1.0  # width of the robust loss of ranges
    # Of a steady pace; 0.5 doubles the error of vague ranges with ten known positions.
    pace_cauchy: float = 2.0
    huber: float = 3.0  # of motions: wheels slip rarely
    false_range: float = 4.0  # residual beyond which a range is false
    # Noise.
    vague: float = 0.3  # median of sigma / metres above which ranges do not measure a step
    shared: float = 0.3  # vague ranges of an image that count as independent before the first fit
    rounds: int = 3  # fits, each with the noise that the fit before shows
    # Pace. A camera keeps its direction up to this spread, as a share of a step over the reach of
    # ranges.
    first_turn: float = 0.3  # before the first fit
    # 0.05 and 0.25 make the error at ten known positions up to a third larger.
    least_turn: float = 0.15
    sure: float = 0.25  # if ranges alone place points to this share of a step, the pace is not used
    # Search for the course of stretches between known positions.
    # Random courses per round; 10 in 6 rounds lower the error of 400 images by a third.
    members: int = 8
    search_rounds: int = 4
    # images; larger problems try two courses in one round, to save time.
    largest_search: int = 1_000
    changed: float = 0.4  # share of stretches that a random course changes after the first round
    two_bends: float = 0.3  # share of random courses that bend to one side and then to the other
    temper: float = 3.0  # misfit (half squared sigmas) at which another course counts 1/e
    # Search for folds of precise ranges, and for turns where odometry pauses.
    # Median of sigma / metres up to which folds of the map show in the misfit.
    precise: float = 0.05
    fold_points: int = 200  # points up to which folds are searched for, to save time
    fold_rounds: int = 12  # at most; each goes on from a better map
    fold_fits: int = 10  # mirrored maps per round that are fitted
    better: float = 0.3  # decrease of the misfit (half squared sigmas) for which the search goes on
    pause_turn: float = 0.7  # radians: spread of the turn in a pause, which may hide a corner
    same_map: float = 0.05  # maps this near to each other, in reaches of the ranges, are one
    # Wide stretches: ranges do not determine their course, so positions are the mean of all
    # courses.
    # Length, in reaches of the ranges: 7.6 are determined in tests, and 10.2 are not.
    wide: float = 9.0
    # As `temper`: the pace is only a guess there; 100 doubles the error of loops.
    wide_temper: float = 30.0
    # Numerics.
    scale_step: float = 0.003  # change of the scale of odometry, from which its variance follows
    bias_step: float = 3e-4  # the same for the turn per metre, in radians
    # Images above which METIS orders the unknowns; the other order fails at 100,000.
    long: int = 2_000


SETTINGS = Settings()
