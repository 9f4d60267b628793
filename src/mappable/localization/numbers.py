"""The numbers of the place model that no data of the user decides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlaceNumbers:
    """Priors and limits of the place model.

    They were chosen on walks, a race track and a railway off the shelf, which are in no results for other sets.
    `studies/place/sensitivity.py` halves and doubles each of them.
    """

    sharpness: float = 2.0  # log odds of a place per deviation of its likeness above the usual one, in a drive
    single_sharpness: float = 3.0  # the same for an image by itself
    blind: float = 0.05  # share of images that show nothing of their place
    price: float = 0.4  # log likelihood of the path of images from elsewhere, as a share of that of their best places
    proof: float = 0.5  # log odds per independent image of a drive that a confident place needs
    jump: float = 1e-3  # probability per image that it is unrelated to the one before
    leave: float = 0.01  # probability per image of leaving the map, and of turning around on the spot
    enter: float = 0.05  # probability per image of entering the map
    change: float = 0.1  # probability per image of a change to a neighboring class of speed
    step_noise: float = 0.3  # standard deviation of a step without odometry, as a share of the speed
    odometry_noise: float = 0.1  # standard deviation of a step with odometry, as a share of the step
    sure: float = 0.9  # least probability of the place of a confident image, before a calibration raises it
    position_noise: float = 0.3  # standard deviation of positions between visits, in spacings
    outside: float = 0.01  # share of the probability that intervals keep for what the model does not know
    slowest: float = 0.25  # smallest speed, in spacings per image
    fastest: float = 16.0  # largest speed, in spacings per image
    speed_ratio: float = 2.0  # ratio of neighboring classes of speed
    states: int = 3  # states per landmark along its visit
    joined: float = 3.0  # landmarks that follow each other within this many spacings are joined by states
    least_correlation: float = 0.05  # an autocorrelation counts until it falls below this
    longest_lag: int = 40  # largest lag of an autocorrelation, in images
    shift_images: float = 2.0  # weight of no shift against the shift that places leave over, in independent images
    passes: int = 3  # times that a drive is located; each time with the shift that the last time left over
    window: int = 6  # landmarks on each side of a state that its descriptor is made of
    negligible: float = 1e-6  # probability, as a share of the largest, below which a state does not move on


NUMBERS = PlaceNumbers()
