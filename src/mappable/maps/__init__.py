"""Maps: landmarks with descriptors, search, and files."""

from mappable.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
