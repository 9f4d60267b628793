"""Mappable learns image features whose distances are metres.

`__init__.pyi` lists the public names of this package. Each room (`mappable.places`,
`mappable.maps`, ...) lists its public names in its own `__init__.pyi`. Everything else may change.
Names load on first use: `import mappable` is fast.
"""

from typing import Any

from mappable.lazy_names import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        return _load(name)
    from importlib.metadata import version

    return version("mappable")
