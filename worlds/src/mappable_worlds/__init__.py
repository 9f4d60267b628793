"""Worlds: simulated streets and buildings, so that a first run needs no data."""

from mappable.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
