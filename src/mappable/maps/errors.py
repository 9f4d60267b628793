"""The error for images that cannot calibrate a map."""

from mappable.errors import BadInputError


class UncalibratedError(BadInputError):
    """The images can be read, but they do not show what feature distances mean in metres."""
