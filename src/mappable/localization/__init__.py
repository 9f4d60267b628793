"""Localization: one model of where images were taken, and how sure that is."""

from mappable.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
