"""Evaluation: accuracy of encoders and maps with confidence intervals, and reports."""

from mappable.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
