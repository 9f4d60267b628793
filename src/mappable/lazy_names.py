"""Public names that load on first use; the `__init__.pyi` of a package lists each name with its module."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def homes(file: str) -> dict[str, str]:
    """Map each public name to the module that defines it, as the stub beside a package's
    `__init__.py` lists them.
    """
    lines = Path(file).with_suffix(".pyi").read_text("utf-8").splitlines()
    words = (line.split() for line in lines if line.startswith("from "))
    return {name: home for _, home, _, name, *_ in words}


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package."""
    home_of = homes(file)
    names = sorted(home_of)

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        return (
            import_module(f"{home}.{name}")
            if home == package
            else getattr(import_module(home), name)
        )

    return load, lambda: names, names
