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
# Names in settings files, encoder files and results of earlier versions.
FORMER_NAMES = {"whitening": "dimensions"}


class Removed(NamedTuple):
    """A setting of earlier versions that no longer exists."""

    instead: str  # what to use instead
    value: Any  # the value with which training is as now


LITERAL = Removed("in Python, Loss(..., normalized=False) is the paper's literal form", True)
REMOVED = {
    "normalized": LITERAL,
    "normalised": LITERAL,  # codespell:ignore
    "second_hinge": Removed("in Python, Loss(..., second_hinge='residuals') is the released code's form", "features"),
    "geometric_pairs": Removed("the geometric term compares the anchor with each positive, as in the paper", "anchor"),
    "momentum": Removed("training uses Adam", 0.9),
    "optimizer": Removed("training uses Adam", "adam"),
    "init_locations": Removed("it is 120,000 / init_images, at most 100", 100),
    "monitor_queries": Removed("landmarks: 0 turns the monitor off", 500),
    "checkpoint_seconds": Removed("set checkpoint_every", 10),
    "batch_size": Removed("passes without gradients choose it; micro_batch limits those with gradients", None),
    "weight_decay": Removed("distillation keeps what the weights know", 0),
    "layer_decay": Removed("distillation, or trainable: last, keeps what lower layers know", 1),
    "toward_start": Removed("distillation keeps what the weights know", 0),
}


class Given(NamedTuple):
    """A value and its source, such as "mine.yaml, line 3"; the source is empty for a value from Python code."""

    value: Any
    source: str


Layer = dict[str, Given]


def preset_names() -> list[str]:
    """Names of all presets, also of those that come with installed worlds, sorted."""
    return sorted(_preset_files())


def _preset_files() -> dict[str, Traversable]:
    folders = [PRESETS, *(module.PRESETS for module in world_modules())]
    return {
        Path(file.name).stem: file for folder in folders for file in folder.iterdir() if file.name.endswith(".yaml")
    }


def read_preset(name: str) -> Layer:
    """Read the settings of a preset. The error for an unknown name lists all presets."""
    files = _preset_files()
    if name not in files:
        more = "" if world_modules() else f"; those of {INSTALL}"
        raise BadInputError(f"unknown preset {name!r}; the presets are {', '.join(sorted(files))}{more}")
    source = f"preset {name}"
    layer = read_yaml(files[name].read_text("utf-8"), source)
    return {key: Given(given.value, source) for key, given in layer.items()}


def read_file(file: Path) -> Layer:
    """Read the settings of a YAML file."""
    with reading(file):
        return read_yaml(file.read_text("utf-8-sig"), str(file))


def read_overrides(overrides: Mapping[str, Any] | Sequence[str]) -> Layer:
    """Read single settings: values by name, or texts "key=value" with a YAML value. The last text for a key counts."""
    if isinstance(overrides, Mapping):
        return {current_name(str(name)): Given(value, "") for name, value in overrides.items()}
    layer = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadInputError(f"--set {_cut(text)!r}: expected KEY=VALUE, such as seed=1")
        layer[current_name(name.strip())] = Given(_read_value(value, f"--set {_cut(text)!r}"), "--set")
    return layer


def current_name(name: str) -> str:
    """The name of a setting, also for a name that it had in an earlier version."""
    return FORMER_NAMES.get(name, name)


def changing_removed(values: Mapping[str, Any]) -> list[str]:
    """Names of removed settings whose values would give other weights than training gives now."""
    return [name for name, setting in REMOVED.items() if values.get(name, setting.value) != setting.value]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _read_value(text: str, source: str) -> Any:
    try:
        return _with_none(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise BadInputError(f"{source}: {_cut(text)!r} is not a YAML value; try quotes around it") from None


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
            raise BadInputError(f"{source}: contains no settings; write one per line, such as `seed: 1`")
        for key, value in root.value:
            line = key.start_mark.line + 1
            name = current_name(str(key.value))
            if name in layer:
                raise BadInputError(f"{source}, line {line}: {name} occurs twice, first in {layer[name].source}")
            layer[name] = Given(_with_none(loader.construct_object(value, deep=True)), f"{source}, line {line}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where, problem = _position_of(error, text)
        raise BadInputError(f"{source}{where}: not YAML ({problem}); write a setting as `seed: 1`") from None
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
