"""Public names that load when first used: `__init__.pyi` of a package lists them, each with its module."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def homes(file: str) -> dict[str, str]:
    """The module that defines each name, by the stub beside a package's `__init__.py`."""
    lines = Path(file).with_suffix(".pyi").read_text("utf-8").splitlines()
    words = (line.split() for line in lines if line.startswith("from "))
    return {name: home for _, home, _, name, *_ in words}


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package."""
    home_of = homes(file)
    names = sorted(home_of)

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

    return load, lambda: names, names
