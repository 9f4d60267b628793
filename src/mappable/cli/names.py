"""Lists of names in help texts: `{presets}` becomes the names of all presets when help is shown."""

import re
from importlib import import_module
from typing import Any

from typer.core import TyperCommand

# Module and attribute of each list. They are imported only for the help of one command: some
# modules import PyTorch.
SOURCES = {
    "encoders": "mappable.features.foreign.named:ENCODERS",
    "losses": "mappable.learning.losses:LOSS_NAMES",
    "map_protocols": "mappable.evaluation.protocols:MAP_PROTOCOLS",
    "methods": "mappable.recovery.methods:METHODS",
    "presets": "mappable.learning.setting_layers:preset_names",
    "protocols": "mappable.evaluation.protocols:PROTOCOLS",
    "rows": "mappable.evaluation.rows:ROWS",
    "sets": "mappable.evaluation.sets:set_names",
    "weights": "mappable.features.weights:WEIGHT_SETS",
    "worlds": "mappable.worlds:worlds",
}


class ListingCommand(TyperCommand):
    """A command whose help texts may contain keys of SOURCES in braces."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            if text := getattr(parameter, "help", None):
                setattr(parameter, "help", filled(text))  # noqa: B010
        super().format_help(ctx, formatter)


def filled(text: str) -> str:
    """A help text in which lists of names replace the keys in braces."""
    return re.sub(r"\{(\w+)\}", lambda match: ", ".join(_names(match[1])), text)


def _names(key: str) -> list[str]:
    module, _, name = SOURCES[key].partition(":")
    found = getattr(import_module(module), name)
    return [*(found() if callable(found) else found)]
