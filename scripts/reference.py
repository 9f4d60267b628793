"""Fills the generated parts of documentation pages: readers, commands and the fields of a located image.

python scripts/reference.py

A generated part stands between two comments, such as `<!-- command train -->` and `<!-- end of command train -->`.
The program itself supplies the text: docstrings and the help of options. Edit those, then run this script.
"""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from mappable.cli.app import app
from mappable.cli.names import filled
from mappable.maps.location import Location
from mappable.places.readers import Option, find_reader, reader_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / name for name in ("commands.md", "maps.md", "readers.md")]


def fill(page: str) -> str:
    """The page with all its generated parts written anew."""
    for pattern, describe in PARTS.items():
        begin = rf"<!-- (?P<part>{pattern}) -->\n"
        page = re.sub(
            begin + r"(?:(?:(?!<!--).)*?<!-- end of (?P=part) -->\n)?",
            lambda match, describe=describe: written_part(match, describe),  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
    return page


def written_part(match: re.Match[str], describe: Callable[..., str]) -> str:
    part = match["part"]
    arguments = [match["argument"]] if "argument" in match.re.groupindex else []
    return f"<!-- {part} -->\n\n{describe(*arguments).strip()}\n\n<!-- end of {part} -->\n"


# Readers


def describe_readers() -> str:
    return "\n\n".join(map(describe_reader, reader_names()))


def describe_reader(name: str) -> str:
    reader = find_reader(name)
    parts = [f"## {name}", reader.documentation]
    if reader.options:
        rows = [
            f"| `{option.name}` | {choices(option)} | {option_default(option)} | {option.help} |"
            for option in reader.options
        ]
        parts.append("\n".join(["| option | values | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def choices(option: Option) -> str:
    if isinstance(option.type, type):
        return option.type.__name__
    kinds = [kind for kind in get_args(option.type) if kind is not type(None)]
    if get_origin(option.type) is None or all(isinstance(kind, type) for kind in kinds):
        return ", ".join(kind.__name__ for kind in kinds)
    return ", ".join(f"`{kind}`" for kind in kinds)


def option_default(option: Option) -> str:
    return "" if option.default is None else f"`{option.default}`"


# Commands


def command_names() -> list[list[str]]:
    """All commands; a command of a group has two words. Readers of `convert` are not listed: they have a page."""
    root: Any = typer.main.get_command(app)
    names = []
    for name in root.commands:
        below = getattr(root.commands[name], "commands", {})
        names += [[name, verb] for verb in below] or [[name]]
    return names


def describe_command(name: str) -> str:
    """What `--help` prints for a command: usage, description, arguments and options."""
    words = name.split()
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    help_text = command.help
    if words == ["convert"]:  # show what all readers share
        command, words = command.get_command(None, "manifest"), ["convert", "READER"]
    shown = [one for one in command.params if one.name != "help" and not getattr(one, "hidden", False)]
    shared = [one for one in shown if not (one.rich_help_panel or "").startswith("Options of")]
    arguments = [one for one in shared if one.param_type_name == "argument"]
    rows = [f"| `{as_typed(one)}` | {cell(one.help)} |" for one in arguments]
    options = [one for one in shared if one not in arguments]
    rows += [f"| `{as_typed(one)}` | {cell(one.help)}{choices_and_default(one)} |" for one in options]
    usage = " ".join(["mappable", *words, *(as_typed(one) for one in arguments)])
    table = "\n".join(["| argument or option | meaning |", "|---|---|", *rows])
    return "\n\n".join([f"`{usage}`", help_text, table])


def as_typed(parameter: Any) -> str:
    """An argument or option as a user types it, with a placeholder for its value."""
    placeholder = (parameter.metavar or parameter.name.upper().replace("_", "-")).strip("{}[]")
    if parameter.param_type_name == "argument":
        return placeholder if parameter.required else f"[{placeholder}]"
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    kind = parameter.type_descriptor.annotation
    return f"{names} {parameter.metavar or (placeholder if get_origin(kind) is Literal else kind.__name__.upper())}"


def choices_and_default(parameter: Any) -> str:
    """The choices, if there are any, and the default."""
    kind = parameter.type_descriptor.annotation
    words = ", ".join(f"`{word}`" for word in get_args(kind)) if get_origin(kind) is Literal else ""
    choice = f" One of {words}." if words and not parameter.is_flag and not parameter.metavar else ""
    if parameter.is_flag or parameter.default in (None, (), "") or callable(parameter.default):
        return choice + (" *Required.*" if parameter.required else "")
    return f"{choice} Default: `{parameter.default}`."


def cell(text: str | None) -> str:
    return filled(text or "").replace("|", "\\|")


# Located images


def describe_location() -> str:
    """The fields of a located image, with the descriptions that the record itself has."""
    rows = [f"| `{one.name}` | {one.metadata['description']} |" for one in fields(Location)]
    return "\n".join(["| field | meaning |", "|---|---|", *rows])


# What stands between the comments, by the words of the first comment.
PARTS: dict[str, Callable[..., str]] = {
    "readers": describe_readers,
    "located image": describe_location,
    r"command (?P<argument>[\w ]+)": describe_command,
}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text("utf-8")), "utf-8")
