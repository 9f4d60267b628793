"""Landmarks and their descriptors, search among them, metres from feature distances, and where an image was taken."""

from mappable.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
