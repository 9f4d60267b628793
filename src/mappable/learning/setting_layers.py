"""Read unchecked settings from a preset, a YAML file, or single values."""

from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mappable.errors import BadInputError
from mappable.files import reading
from mappable.worlds import INSTALL, world_modules

PRESETS = resources.files("mappable") / "presets"
LONGEST_SHOWN = 80  # characters of a value in an error message


class Given(NamedTuple):
    """A value and its source, such as "mine.yaml, line 3"; the source is empty for a value from
    Python code.
    """

    value: Any
    source: str


Layer = dict[str, Given]


def preset_names() -> list[str]:
    """Names of all presets, also of those that come with installed worlds, sorted."""
    return sorted(_preset_files())


def _preset_files() -> dict[str, Traversable]:
    folders = [PRESETS, *(module.PRESETS for module in world_modules())]
    return {
        Path(file.name).stem: file
        for folder in folders
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    }


def read_preset(name: str) -> Layer:
    """Read the settings of a preset. The error for an unknown name lists all presets."""
    files = _preset_files()
    if name not in files:
        more = "" if world_modules() else f"; those of {INSTALL}"
        raise BadInputError(
            f"unknown preset {name!r}; the presets are {', '.join(sorted(files))}{more}"
        )
    source = f"preset {name}"
    layer = read_yaml(files[name].read_text("utf-8"), source)
    return {key: Given(given.value, source) for key, given in layer.items()}


def read_file(file: Path) -> Layer:
    """Read the settings of a YAML file."""
    with reading(file):
        return read_yaml(file.read_text("utf-8-sig"), str(file))


def read_overrides(overrides: Mapping[str, Any] | Sequence[str]) -> Layer:
    """Read single settings: values by name, or texts "key=value" with a YAML value. The last text
    for a key counts.
    """
    if isinstance(overrides, Mapping):
        return {str(name): Given(value, "") for name, value in overrides.items()}
    layer = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadInputError(f"--set {_cut(text)!r}: expected KEY=VALUE, such as seed=1")
        layer[name.strip()] = Given(_read_value(value, f"--set {_cut(text)!r}"), "--set")
    return layer


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _read_value(text: str, source: str) -> Any:
    try:
        return _with_none(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise BadInputError(
            f"{source}: {_cut(text)!r} is not a YAML value; try quotes around it"
        ) from None


def read_yaml(text: str, source: str) -> Layer:
    """Read the top-level keys with their values and lines.

    This reads YAML nodes, because a plain load would silently keep only the last of two equal keys.
    """
    layer: Layer = {}
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:  # an empty file, or only comments
            return layer
        if not isinstance(root, yaml.MappingNode):
            raise BadInputError(
                f"{source}: contains no settings; write one per line, such as `seed: 1`"
            )
        for key, value in root.value:
            line = key.start_mark.line + 1
            name = str(key.value)
            if name in layer:
                raise BadInputError(
                    f"{source}, line {line}: {name} occurs twice, first in {layer[name].source}"
                )
            layer[name] = Given(
                _with_none(loader.construct_object(value, deep=True)), f"{source}, line {line}"
            )
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where, problem = _position_of(error, text)
        raise BadInputError(
            f"{source}{where}: not YAML ({problem}); write a setting as `seed: 1`"
        ) from None
    return layer


def _position_of(error: Exception, text: str) -> tuple[str, str]:
    """The line where the parser stopped (", line 3", or empty), and the reason."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f", line {error.problem_mark.line + 1}", str(error.problem)
    if isinstance(error, yaml.reader.ReaderError):
        return f", line {text.count(chr(10), 0, error.position) + 1}", str(error.reason)
    return "", str(error).splitlines()[0]


def _with_none(value: Any) -> Any:
    """Replace the text "none" by None: users write none, YAML means null."""
    return None if isinstance(value, str) and value.lower() == "none" else value
