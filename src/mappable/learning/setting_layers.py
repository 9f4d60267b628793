"""Settings before they are checked: from a preset, a YAML file, or single values."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mappable.errors import BadInputError
from mappable.files import reading

PRESETS = resources.files("mappable") / "presets"


class Given(NamedTuple):
    """A value, and where it was given; empty for a value of a program."""

    value: Any
    source: str


Layer = dict[str, Given]


def preset_names() -> list[str]:
    """The names that `read_preset` knows, sorted."""
    return sorted(Path(file.name).stem for file in PRESETS.iterdir() if file.name.endswith(".yaml"))


def read_preset(name: str) -> Layer:
    """The settings of a preset; an unknown name lists the known ones."""
    if name not in preset_names():
        raise BadInputError(f"there is no preset {name!r}; the presets are {', '.join(preset_names())}")
    source = f"preset {name}"
    layer = _read_yaml((PRESETS / f"{name}.yaml").read_text("utf-8"), source)
    return {key: Given(given.value, source) for key, given in layer.items()}


def read_file(file: Path) -> Layer:
    """The settings of a YAML file."""
    with reading(file):
        return _read_yaml(file.read_text("utf-8-sig"), str(file))


def read_overrides(overrides: Mapping[str, Any] | Sequence[str]) -> Layer:
    """Single settings: values by name, or texts "key=value" with the value as in YAML; of two for a key the later."""
    if isinstance(overrides, Mapping):
        return {str(name): Given(value, "") for name, value in overrides.items()}
    layer = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadInputError(f"--set {text!r} is not KEY=VALUE, such as seed=1")
        layer[name.strip()] = Given(_read_value(value, f"--set {text!r}"), "--set")
    return layer


def _read_value(text: str, source: str) -> Any:
    try:
        return _none_or(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise BadInputError(f"{source}: {text!r} is not a value as YAML has it; quotes may help") from None


def _read_yaml(text: str, source: str) -> Layer:
    """Top-level keys with values and lines. It goes by nodes, for a plain load lets the last of two equal keys win."""
    layer: Layer = {}
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:  # nothing but comments
            return layer
        if not isinstance(root, yaml.MappingNode):
            raise BadInputError(f"{source}: holds no settings; each is a line such as `seed: 1`")
        for key, value in root.value:
            line = key.start_mark.line + 1
            name = str(key.value)
            if name in layer:
                raise BadInputError(f"{source}, line {line}: {name} is there twice, first in {layer[name].source}")
            layer[name] = Given(_none_or(loader.construct_object(value, deep=True)), f"{source}, line {line}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where, problem = _place_of(error, text)
        raise BadInputError(f"{source}{where}: not YAML ({problem}); a setting is a line such as `seed: 1`") from None
    return layer


def _place_of(error: Exception, text: str) -> tuple[str, str]:
    """Where in the text the parser stopped, and why."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f", line {error.problem_mark.line + 1}", str(error.problem)
    if isinstance(error, yaml.reader.ReaderError):
        return f", line {text.count(chr(10), 0, error.position) + 1}", str(error.reason)
    return "", str(error).splitlines()[0]


def _none_or(value: Any) -> Any:
    """People write none where YAML has null."""
    return None if isinstance(value, str) and value.lower() == "none" else value
