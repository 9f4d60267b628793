"""Errors of maps other than bad input."""

from mappable.errors import BadInputError


class UncalibratedError(BadInputError):
    """The images are sound, but do not tell what feature distances mean."""
