"""The numbers of the place model that no data of the user decides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlaceNumbers:
    """Priors and limits of the place model.

    They were chosen on walks, a race track and a railway off the shelf, which are in no results for
    other sets. `studies/place/sensitivity.py` halves and doubles each of them.
    """

    # Log odds of a place per deviation of its likeness above the usual one, in a drive.
    sharpness: float = 2.0
    single_sharpness: float = 3.0  # the same for an image by itself
    blind: float = 0.05  # share of images that show nothing of their place
    # Log likelihood of the path of images from elsewhere, as a share of that of their best places.
    price: float = 0.4
    proof: float = 0.5  # log odds per independent image of a drive that a confident place needs
    jump: float = 1e-3  # probability per image that it is unrelated to the one before
    # Probability per image of leaving the map, and of turning around on the spot.
    leave: float = 0.01
    enter: float = 0.05  # probability per image of entering the map
    change: float = 0.1  # probability per image of a change to a neighboring class of speed
    # Standard deviation of a step without odometry, as a share of the speed.
    step_noise: float = 0.3
    # Standard deviation of a step with odometry, as a share of the step.
    odometry_noise: float = 0.1
    # Least probability of the place of a confident image, before a calibration raises it.
    sure: float = 0.9
    position_noise: float = 0.3  # standard deviation of positions between visits, in spacings
    # Share of the probability that intervals keep for what the model does not know.
    outside: float = 0.01
    slowest: float = 0.25  # smallest speed, in spacings per image
    fastest: float = 16.0  # largest speed, in spacings per image
    speed_ratio: float = 2.0  # ratio of neighboring classes of speed
    states: int = 3  # states per landmark along its visit
    # Landmarks that follow each other within this many spacings are joined by states.
    joined: float = 3.0
    least_correlation: float = 0.05  # an autocorrelation counts until it falls below this
    longest_lag: int = 40  # largest lag of an autocorrelation, in images
    # Weight of no shift against the shift that places leave over, in independent images.
    shift_images: float = 2.0
    # Times that a drive is located; each time with the shift that the last time left over.
    passes: int = 3
    window: int = 6  # landmarks on each side of a state that its descriptor is made of
    # Probability, as a share of the largest, below which a state does not move on.
    negligible: float = 1e-6


NUMBERS = PlaceNumbers()
