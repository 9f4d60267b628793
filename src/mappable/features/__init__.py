"""Features: turn pixels into descriptors."""

from mappable.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
