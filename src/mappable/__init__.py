"""Mappable learns image features whose distances are metres.

`__init__.pyi` lists the public names of this package, and those of each room (`mappable.places`, `mappable.maps`, ...)
stand in the room's own. Everything else may change. Names load when first used, so that `import mappable` is quick.
"""

from typing import Any

from mappable.lazy_names import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        return _load(name)
    from importlib.metadata import version

    return version("mappable")
