"""What can go wrong with maps, beside bad input."""

from mappable.errors import BadInputError


class UncalibratedError(BadInputError):
    """The images are sound, but do not tell what feature distances mean."""
