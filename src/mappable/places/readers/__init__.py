"""Readers: one module per image collection, each with a function `read(root, *, options) -> Places`.

A new module here is a new reader: `mappable convert` and `read_places` find it by its name. The docstring of the module
is the documentation of the reader. Its first line states what the reader reads; then comes the expected tree of files.
The keyword-only arguments of `read` are its options. An annotation holds the help of an option:
`spacing: Annotated[float, "metres between frames"] = 1.0`.
"""

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mappable.errors import BadInputError
from mappable.places.images import SUFFIXES, Size
from mappable.places.lenses import Lens
from mappable.places.table import Places

DEFAULT_SIZE: Size = (240, 180)
Contents = tuple[tuple[str, ...], list[tuple[str, ...]]]  # a table for people: its header and its rows
CONVERTED = "convert.json"  # this file marks the folder of a converted collection


@dataclass(frozen=True)
class Option:
    """One option of a reader, as its signature declares it."""

    name: str
    type: Any
    help: str
    default: Any


@dataclass(frozen=True)
class Reader:
    """A reader. `image_size` (width, height) is the default size of packed images.

    Two functions are optional. `contents` lists what is in a collection, for `--list`. `lenses` takes the same
    arguments as `read`, and gives the lenses of distorted images by path.
    """

    name: str
    read: Callable[..., Places]
    documentation: str
    options: tuple[Option, ...]
    image_size: Size
    contents: Callable[[Path], Contents] | None = None
    lenses: Callable[..., dict[str, Lens]] | None = None

    @property
    def summary(self) -> str:
        return self.documentation.splitlines()[0]


def reader_names() -> list[str]:
    """The names of all readers, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_reader(name: str) -> Reader:
    """Return the reader with this name; the error for an unknown name lists all readers."""
    if name not in reader_names():
        raise BadInputError(f"unknown reader {name!r}; choose one of: {', '.join(reader_names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    documentation, size = (module.__doc__ or "").strip(), getattr(module, "SIZE", DEFAULT_SIZE)
    extras = (getattr(module, extra, None) for extra in ("contents", "lenses"))
    return Reader(name, module.read, documentation, _options(module.read), size, *extras)


def read_places(reader: str, root: Path | str, **options: Any) -> Places:
    """Read the image collection under `root` with the named reader. Every format enters through this function.

    The rows of each sequence are in time order. The `notes` of the table list everything that was left out.
    """
    found = find_reader(reader)
    unknown = sorted(options.keys() - {option.name for option in found.options})
    if unknown:
        known = ", ".join(option.name for option in found.options) or "none"
        raise BadInputError(f"reader {reader!r} has no option {', '.join(unknown)}; its options: {known}")
    options = {
        option.name: _checked(reader, option, options.get(option.name, option.default)) for option in found.options
    }
    root = Path(root)
    if not root.exists():
        raise BadInputError(f"{root}: no such file or folder")
    places = found.read(root, **options)
    if len(places) == 0:
        raise BadInputError(f"{root}: no usable images for reader {reader!r}" + _warnings(places))
    return places.in_time_order()


def _checked(reader: str, option: Option, value: Any) -> Any:
    """Return the value of an option in the type that the reader expects; raise if it has another type."""
    kinds = tuple(get_origin(kind) or kind for kind in get_args(option.type) or (option.type,))
    if get_origin(option.type) is Literal:
        if value not in kinds:
            listed = ", ".join(str(choice) for choice in kinds)
            raise BadInputError(f"reader {reader!r}: {option.name} is {value!r}, expected one of: {listed}")
        return value
    if isinstance(value, str) and Path in kinds:
        return Path(value)
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds:
        return float(value)
    if not isinstance(value, kinds):
        listed = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise BadInputError(f"reader {reader!r}: {option.name} is {value!r}, expected a {listed}")
    return value


def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield every folder below `root`, sorted: its path relative to `root` ("" for `root`), its folders and its files.

    Links are followed; each folder is visited once. Hidden files and folders, and the output of `mappable convert`, are
    skipped. As with `os.walk`, a folder that the caller removes from the list is not visited.
    """

    def fail(error: OSError) -> None:
        raise BadInputError(f"{error.filename}: cannot list this folder ({error.strerror})")

    seen: set[str] = set()
    for inside, folders, files in os.walk(root, onerror=fail, followlinks=True):
        real, path = os.path.realpath(inside), Path(inside).relative_to(root).as_posix()
        if real in seen or (CONVERTED in files and path != "."):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield "" if path == "." else path, folders, sorted(name for name in files if not name.startswith("."))


def join(folder: str, name: str) -> str:
    """Join a folder that `walk` yields and the name of a file in it."""
    return f"{folder}/{name}" if folder else name


def chosen(root: Path, wanted: str | None, known: Collection[str], what: str) -> list[str]:
    """The names in a list such as "00,05"; without a list, all known names. An unknown name raises an error."""
    names = list(dict.fromkeys(name.strip() for name in wanted.split(","))) if wanted else list(known)
    for name in names:
        if name not in known:
            raise BadInputError(f"{root}: no {what} {name!r}; found: {', '.join(known) or 'none'}")
    return names


def image_files(root: Path) -> list[Path]:
    """All image files below `root`, sorted by path."""
    found = ((folder, name) for folder, _, names in walk(root) for name in names)
    return sorted(root / folder / name for folder, name in found if Path(name).suffix.lower() in SUFFIXES)


def _warnings(places: Places) -> str:
    return "".join(f"; {note}" for note in places.notes if note.warning)


def _options(read: Callable[..., Places]) -> tuple[Option, ...]:
    hints = get_type_hints(read, include_extras=True)
    found = []
    for parameter in inspect.signature(read).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            kind, text = get_args(hints[parameter.name])  # the two parts of Annotated[kind, text]
            found.append(Option(parameter.name, kind, text, parameter.default))
    return tuple(found)
