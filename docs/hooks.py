"""Fills pages (readers, commands, located images, Python names) from the program, so that the two cannot disagree."""

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from mappable.cli.app import app
from mappable.cli.names import filled
from mappable.lazy_names import homes
from mappable.maps.location import Location
from mappable.places.readers import Option, find_reader, reader_names

ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    includes = r"<!-- include (\S+) -->\n(.*?)<!-- end of include -->\n"
    markdown = re.sub(includes, lambda match: include(match[1], match[2]), markdown, flags=re.DOTALL)
    markdown = markdown.replace("<!-- readers -->", "\n\n".join(map(describe, reader_names())))
    markdown = markdown.replace("<!-- located image -->", describe_location())
    names = r"<!-- names mappable(\.\w+)?: .*? -->\n(.*?)<!-- end of names -->"  # see scripts/api_page.py
    markdown = re.sub(
        names, lambda match: describe_names(match[1]) if match[1] else match[2], markdown, flags=re.DOTALL
    )
    return re.sub(r"<!-- command (.+?) -->", lambda match: describe_command(match[1].split()), markdown)


def include(name: str, otherwise: str) -> str:
    """A Markdown file of the root folder without its title, with links as docs/ needs them.

    Without that file: the text that a code host shows `otherwise`, without links.
    """
    file = ROOT / name
    if not file.is_file():
        return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", otherwise)
    text = re.sub(r"\A# .*\n+", "", file.read_text("utf-8"))
    return text.replace("](docs/", "](")


def describe(name: str) -> str:
    reader = find_reader(name)
    parts = [f"## {name}", reader.documentation]
    if reader.options:
        rows = [
            f"| `{option.name}` | {choices(option)} | {default(option)} | {option.help} |" for option in reader.options
        ]
        parts.append("\n".join(["| option | values | default | |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def describe_names(room: str) -> str:
    """The lines for which mkdocstrings puts the full docstring of each name of a room, such as ".maps", on the page."""
    return "\n".join(f"::: {home}.{name}" for name, home in homes(import_module(f"mappable{room}").__file__).items())


def describe_location() -> str:
    """The fields of a located image, by what the record itself says about them."""
    rows = [f"| `{one.name}` | {one.metadata['description']} |" for one in fields(Location)]
    return "\n".join(["| field | |", "|---|---|", *rows])


def choices(option: Option) -> str:
    if isinstance(option.type, type):
        return option.type.__name__
    kinds = [kind for kind in get_args(option.type) if kind is not type(None)]
    if get_origin(option.type) is None or all(isinstance(kind, type) for kind in kinds):
        return ", ".join(kind.__name__ for kind in kinds)
    return ", ".join(f"`{kind}`" for kind in kinds)


def default(option: Option) -> str:
    return "" if option.default is None else f"`{option.default}`"


def command_names() -> list[list[str]]:
    """All commands, those of groups as two words; the readers of `convert` have a page of their own."""
    root: Any = typer.main.get_command(app)
    names = []
    for name in root.commands:
        below = getattr(root.commands[name], "commands", {})
        names += [[name, verb] for verb in below] or [[name]]
    return names


def describe_command(words: list[str]) -> str:
    """What a command says of itself with --help: usage, what it does, arguments and options."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    help_text = command.help
    if words == ["convert"]:  # what all readers share
        command, words = command.get_command(None, "manifest"), ["convert", "READER"]
    shown = [one for one in command.params if one.name != "help" and not getattr(one, "hidden", False)]
    plain = [one for one in shown if not (one.rich_help_panel or "").startswith("Options of")]
    arguments = [one for one in plain if one.param_type_name == "argument"]
    rows = [f"| `{written(one)}` | {said(one.help)} |" for one in arguments]
    rows += [f"| `{written(one)}` | {said(one.help)}{by_default(one)} |" for one in plain if one not in arguments]
    usage = " ".join(["mappable", *words, *(written(one) for one in arguments)])
    table = "\n".join(["| | |", "|---|---|", *rows])
    return "\n\n".join([f"`{usage}`", re.sub(r"\s*\n\s*", " ", help_text), table])


def written(parameter: Any) -> str:
    """How it is typed."""
    shown = (parameter.metavar or parameter.name.upper().replace("_", "-")).strip("{}[]")
    if parameter.param_type_name == "argument":
        return shown if parameter.required else f"[{shown}]"
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    kind = parameter.type_descriptor.annotation
    words = "|".join(get_args(kind)) if get_origin(kind) is Literal else kind.__name__.upper()
    return f"{names} {parameter.metavar or words}"


def by_default(parameter: Any) -> str:
    if parameter.is_flag or parameter.default in (None, ()) or callable(parameter.default):
        return " *Required.*" if parameter.required else ""
    return f" Default: `{parameter.default}`."


def said(text: str | None) -> str:
    return filled(text or "").replace("|", "\\|")
