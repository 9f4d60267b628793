"""Readers by name: the modules of `formats/`, and those that other packages declare as entry points `mappable.readers`.

A reader is a module with a function `read(root, found, *, options) -> Places`. Its docstring is the
documentation: the first line states what it reads, then comes the expected tree of files. `found`
collects what the reader notes. The keyword-only arguments are options; an annotation holds the
help: `camera: Annotated[str, "folder of images"] = "cam0"`.

A module may also have:

- `LAYOUT`: patterns of files below ROOT that show the format; `SCORE` says how specific they are
  (default: 1)
- `fits(root)` instead: the evidence for the format, or ""
- `TRIAL = False` if `fits` itself finds out whether the reader would refuse the folder, because
  reading takes long
- `ONE_FILE = True` if ROOT may be a file
- `REMARK`: what to check before a conversion
- `SIZE`: default size of packed images
- `lenses(root, **options)`: the lenses of distorted images by path
- `contents(root)`: what is in a collection, for `convert auto`: a header and rows
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mappable.errors import BadInputError, MappableError
from mappable.places.images import Size
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers import formats
from mappable.readers.toolkit import is_image

DEFAULT_SIZE: Size = (240, 180)
GROUP = "mappable.readers"  # of entry points
# Readers whose score is this near to the best are proposed, too: the format may be either.
CLOSE = 0.5
TABLES = (".csv", ".parquet")


@dataclass(frozen=True)
class Option:
    """One option of a reader, as its signature declares it."""

    name: str
    type: Any
    help: str
    default: Any

    def checked(self, reader: str, value: Any) -> Any:
        """The value in the type that the reader expects; raise if it has another type."""
        kinds = tuple(get_origin(kind) or kind for kind in get_args(self.type) or (self.type,))
        if get_origin(self.type) is Literal:
            expected = f"one of: {', '.join(map(str, kinds))}"
            good = value in kinds
        else:
            expected = "a " + " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
            if isinstance(value, str) and Path in kinds:
                value = Path(value)
            if float in kinds and isinstance(value, int | str) and not isinstance(value, bool):
                with suppress(ValueError):
                    value = float(value)
            good = isinstance(value, kinds)
        if not good:
            raise BadInputError(f"reader {reader!r}: {self.name} is {value!r}, expected {expected}")
        return value


@dataclass(frozen=True)
class Proposal:
    """A reader that fits, the file or folder that shows it, a remark about what to check, and how
    specific it is.
    """

    reader: str
    evidence: str
    remark: str = ""
    score: float = 1.0


@dataclass(frozen=True)
class Reader:
    """A reader: its name and its module."""

    name: str
    module: ModuleType

    @property
    def documentation(self) -> str:
        return (self.module.__doc__ or "").strip()

    @property
    def summary(self) -> str:
        return self.documentation.splitlines()[0]

    @property
    def image_size(self) -> Size:
        """The default size of packed images: width, height."""
        size: Size = getattr(self.module, "SIZE", DEFAULT_SIZE)
        return size

    def function(self, name: str) -> Any:
        """The optional function `lenses` or `contents` of the module; None if it has none."""
        return getattr(self.module, name, None)

    @cached_property
    def options(self) -> tuple[Option, ...]:
        hints = get_type_hints(self.module.read, include_extras=True)
        found = []
        for parameter in inspect.signature(self.module.read).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                # The two parts of Annotated[kind, text].
                kind, text = get_args(hints[parameter.name])
                found.append(Option(parameter.name, kind, text, parameter.default))
        return tuple(found)

    def values(self, options: dict[str, Any]) -> dict[str, Any]:
        """The values of all options; raise if one is unknown or of another type."""
        unknown = sorted(options.keys() - {option.name for option in self.options})
        if unknown:
            known = ", ".join(option.name for option in self.options) or "none"
            raise BadInputError(
                f"reader {self.name!r} has no option {', '.join(unknown)}; its options: {known}"
            )
        return {
            one.name: one.checked(self.name, options.get(one.name, one.default))
            for one in self.options
        }

    def read(self, root: Path, options: dict[str, Any]) -> Places:
        """Read a collection; see `read_places`."""
        values = self.values(options)
        if not root.exists():
            raise BadInputError(f"{root}: no such file or folder")
        if root.is_file() and not getattr(self.module, "ONE_FILE", False):
            raise BadInputError(f"{root}: a file, expected the folder of the collection")
        found = Findings()
        places: Places = self.module.read(root, found, **values)
        if len(places) == 0:
            reasons = "".join(f"; {note}" for note in found)
            raise BadInputError(f"{root}: no usable images for reader {self.name!r}{reasons}")
        return places.noting(*found).in_time_order()

    def propose(self, root: Path, options: Mapping[str, Any]) -> "Proposal | BadInputError | None":
        """A proposal, or the reason why the reader would refuse what looks like its format, or
        None.
        """
        ask = self.function("fits")
        if ask is None:
            layout: tuple[str, ...] = getattr(self.module, "LAYOUT", ())
            matches = (next(iter(root.glob(pattern)), None) for pattern in layout if root.is_dir())
            match = next((one for one in matches if one is not None), None)
            evidence = "" if match is None else match.relative_to(root).as_posix()
        else:
            evidence = ask(root)
        if not evidence:
            return None
        if getattr(self.module, "TRIAL", True):
            try:
                known = {option.name for option in self.options}
                self.read(root, {name: value for name, value in options.items() if name in known})
            except BadInputError as error:
                return error
        remark, score = getattr(self.module, "REMARK", ""), getattr(self.module, "SCORE", 1.0)
        return Proposal(self.name, evidence, remark, score)


def _declared() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def reader_names() -> list[str]:
    """The names of all readers, in alphabetical order."""
    return sorted(
        {module.name for module in pkgutil.iter_modules(formats.__path__)} | _declared().keys()
    )


def find_reader(name: str) -> Reader:
    """Return the reader with this name; the error for an unknown name lists all readers."""
    if name in {module.name for module in pkgutil.iter_modules(formats.__path__)}:
        return Reader(name, importlib.import_module(f"{formats.__name__}.{name}"))
    if name not in _declared():
        raise BadInputError(f"unknown reader {name!r}; choose one of: {', '.join(reader_names())}")
    return Reader(name, _declared()[name].load())


def read_places(reader: str, root: Path | str, **options: Any) -> Places:
    """Read the image collection under `root` with the named reader. Every format enters through
    this function.

    The rows of each sequence are in time order. The `notes` of the table list everything that was
    left out.
    """
    return find_reader(reader).read(Path(root), options)


def propose(root: Path, **options: Any) -> list[Proposal]:
    """The readers that fit the folder or file `root`, the likeliest first, and others only if they
    are close.

    Each reader is asked, with those of the `options` that it has: one that would refuse the folder
    is not proposed.
    """
    if not root.exists():
        raise BadInputError(f"{root}: no such file or folder")
    answers = {name: find_reader(name).propose(root, options) for name in reader_names()}
    fitting = sorted(
        (one for one in answers.values() if isinstance(one, Proposal)), key=lambda one: -one.score
    )
    if not fitting:
        refusals = (
            f"it looks like {name}, but {one}"
            for name, one in answers.items()
            if isinstance(one, MappableError)
        )
        raise BadInputError(f"{root}: {'; '.join(refusals) or _why_none(root)}")
    return [one for one in fitting if one.score >= fitting[0].score - CLOSE]


def _why_none(root: Path) -> str:
    """Why no reader fits, and what to do."""
    table = "list your images in a table with the columns path, x and y (reader 'manifest')"
    if root.is_file():
        return (
            "no reader fits this file; give a video, a table or the folder of your images, or"
            f" {table}"
        )
    names = sorted(file.name for file in root.iterdir() if file.is_file())
    other = next((name for name in names if name.lower().endswith(TABLES)), None)
    if other is not None:
        return f"no reader fits: the table {other} has other columns; {table}"
    image = next(_images(root), None)
    if image is None:
        return (
            "no reader fits: no images and no video are in it or its subfolders; give another"
            f" folder, or {table}"
        )
    where = image.relative_to(root)
    return (
        f"no reader fits: there is no table of positions, and {where} has no GPS in its EXIF data;"
        f" {table}"
    )


def _images(root: Path) -> Iterator[Path]:
    return (file for level in ("*", "*/*") for file in root.glob(level) if is_image(file.name))
