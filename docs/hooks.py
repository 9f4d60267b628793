"""Fills the generated parts of pages when mkdocs builds the site.

A page names a part by a comment on its own line, such as `<!-- command train -->`. PARTS, at the
end, lists all parts. The text comes from the program: docstrings, the help of options, descriptions
of settings. Nothing here is committed.
"""

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

import mappable
from mappable.cli.app import app
from mappable.cli.names import filled
from mappable.lazy_names import homes
from mappable.learning.setting_kinds import kind_text
from mappable.learning.settings import Settings, load_settings, preset_names, value_text
from mappable.localization.location import Location
from mappable.readers.registry import Option, find_reader, reader_names

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/mappable"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    for pattern, describe in PARTS.items():
        markdown = re.sub(
            rf"^<!-- {pattern} -->$", partial(written, describe), markdown, flags=re.MULTILINE
        )
    return markdown


def written(describe: Callable[..., str], comment: re.Match[str]) -> str:
    """The text of a part, with the words of its comment as arguments."""
    return describe(*comment.groups()).strip()


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    columns = list(columns)
    cells = [
        columns,
        ["---"] * len(columns),
        *([cell.replace("|", "\\|") for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


# Commands


def command_names() -> list[str]:
    """All commands; a command of a group has two words. Readers of `convert` are not listed: they
    have a page.
    """
    root: Any = typer.main.get_command(app)
    names = []
    for name, command in root.commands.items():
        if not command.hidden:
            names += [f"{name} {verb}" for verb in getattr(command, "commands", {})] or [name]
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
    parameters = [
        parameter
        for parameter in command.params
        if parameter.name != "help"
        and not getattr(parameter, "hidden", False)
        and not (parameter.rich_help_panel or "").startswith("Options of")
    ]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name != "argument"]
    rows = [(f"`{as_typed(argument)}`", filled(argument.help or "")) for argument in arguments]
    rows += [
        (f"`{as_typed(option)}`", filled(option.help or "") + choices_and_default(option))
        for option in options
    ]
    usage = " ".join(["mappable", *words, *map(as_typed, arguments)])
    return "\n\n".join([f"`{usage}`", help_text, table(["argument or option", "meaning"], rows)])


def as_typed(parameter: Any) -> str:
    """An argument or option as a user types it, with a placeholder for its value."""
    placeholder = (parameter.metavar or parameter.name.upper().replace("_", "-")).strip("{}[]")
    if parameter.param_type_name == "argument":
        return placeholder if parameter.required else f"[{placeholder}]"
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    kind = parameter.type_descriptor.annotation
    return (
        f"{names}"
        f" {parameter.metavar or (placeholder if get_origin(kind) is Literal else kind.__name__.upper())}"
    )


def choices_and_default(parameter: Any) -> str:
    """The choices, if there are any, and the default."""
    kind = parameter.type_descriptor.annotation
    words = ", ".join(f"`{word}`" for word in get_args(kind)) if get_origin(kind) is Literal else ""
    choice = (
        f" One of {words}." if words and not parameter.is_flag and not parameter.metavar else ""
    )
    if parameter.is_flag or parameter.default in (None, (), "") or callable(parameter.default):
        return choice + (" *Required.*" if parameter.required else "")
    return f"{choice} Default: `{parameter.default}`."


# Readers and settings


def describe_readers() -> str:
    """A section per reader: its docstring, and a table of its own options."""
    return "\n\n".join(describe_reader(name) for name in reader_names())


def describe_reader(name: str) -> str:
    """The section of one reader."""
    reader = find_reader(name)
    section = f"## {name}\n\n{reader.documentation}"
    if not reader.options:
        return section
    rows = [
        (f"`{option.name}`", values(option), default(option), option.help)
        for option in reader.options
    ]
    return f"{section}\n\n{table(['option', 'values', 'default', 'meaning'], rows)}"


def values(option: Option) -> str:
    """The types of an option's values, or the values if there are only a few."""
    if isinstance(option.type, type):
        return option.type.__name__
    kinds = [kind for kind in get_args(option.type) if kind is not type(None)]
    if get_origin(option.type) is None or all(isinstance(kind, type) for kind in kinds):
        return ", ".join(kind.__name__ for kind in kinds)
    return ", ".join(f"`{kind}`" for kind in kinds)


def default(option: Option) -> str:
    """The default of a reader's option; empty if it has none."""
    return "" if option.default is None else f"`{option.default}`"


def describe_settings() -> str:
    """A section per group of settings; the comments of `Settings` name the groups."""
    hints = get_type_hints(Settings, include_extras=True)
    sections = []
    for group in re.split(r"^    # ", inspect.getsource(Settings), flags=re.MULTILINE)[1:]:
        title, _, body = group.partition("\n")
        rows = []
        for name in re.findall(r"^    (\w+): ", body, flags=re.MULTILINE):
            field = Settings.model_fields[name]
            standard = "required" if field.is_required() else value_text(field.default)
            rows.append(
                (
                    f"`{name}`",
                    kind_text(hints[name]),
                    f"`{standard}`",
                    " ".join((field.description or "").split()),
                )
            )
        sections.append(
            f"### {title}\n\n{table(['setting', 'values', 'default', 'meaning'], rows)}"
        )
    return "\n\n".join(sections)


def describe_presets() -> str:
    """The settings that differ between presets, side by side."""
    presets = {name: load_settings(name) for name in preset_names()}
    rows = [
        [f"`{name}`", *(value_text(getattr(preset, name)) for preset in presets.values())]
        for name in Settings.model_fields
    ]
    return table(
        ["setting", *(f"`{name}`" for name in presets)],
        [row for row in rows if len(set(row[1:])) > 1],
    )


# Python


def describe_names() -> str:
    """A table of the names that `mappable` itself has."""
    rows = [
        (f"`mappable.{name}`", first_paragraph(getattr(mappable, name)))
        for name, home in homes(mappable.__file__).items()
        if home != "mappable"
    ]
    return table(["name", "description"], rows)


def describe_names_of_modules() -> str:
    """A section per public module, with a block of mkdocstrings for each of its public names."""
    sections = []
    for module, home in homes(mappable.__file__).items():
        if home == "mappable":
            package = import_module(f"mappable.{module}")
            blocks = (
                f"::: {place}.{name}" for name, place in homes(package.__file__ or "").items()
            )
            sections.append(
                "\n".join([f"## mappable.{module}", "", first_paragraph(package), "", *blocks])
            )
    return "\n\n".join(sections)


def first_paragraph(described: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(described) or "").partition("\n\n")[0].split())


def describe_location() -> str:
    """The fields of a located image, with the descriptions that the record itself has."""
    return table(
        ["field", "meaning"],
        ((f"`{field.name}`", field.metadata["description"]) for field in fields(Location)),
    )


def describe_modules() -> str:
    """A section per room, in the order of the import contract: each module with the first line of
    its docstring.
    """
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    layers = re.findall(r"\w+", " ".join(reversed(contract["layers"])))
    sections = [section("Root modules: every room may import them", PACKAGE.glob("*.py"), PACKAGE)]
    for room in (PACKAGE / name for name in layers if (PACKAGE / name / "__init__.py").is_file()):
        modules = (module for module in room.rglob("*.py") if module != room / "__init__.py")
        sections.append(
            section(f"{room.name}\n\n{first_line(room / '__init__.py')}", modules, room)
        )
    return "\n\n".join(sections)


def section(title: str, modules: Iterable[Path], room: Path) -> str:
    """A heading, and a table with one row per module; the row of a sub-folder is above its modules."""
    ordered = sorted(
        modules, key=lambda module: module.relative_to(room).with_suffix("").as_posix()
    )
    rows = [
        (
            f"`{module.relative_to(room).as_posix().replace('/__init__.py', '/')}`",
            first_line(module),
        )
        for module in ordered
    ]
    return f"## {title}\n\n{table(['module', 'holds'], rows)}"


def first_line(module: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").partition("\n")[0]


# Files of the root folder


def include(name: str) -> str:
    """The text of a Markdown file of the root folder, without its title, with links that work in
    docs/.
    """
    text = re.sub(r"\A# .*\n+", "", (ROOT / name).read_text("utf-8"))
    return text.replace("](docs/", "](")


# What replaces a comment, by the text of the comment.
PARTS: dict[str, Callable[..., str]] = {
    r"command ([\w -]+)": describe_command,
    "readers": describe_readers,
    "settings": describe_settings,
    "presets": describe_presets,
    "names mappable": describe_names,
    "names of the modules": describe_names_of_modules,
    "located image": describe_location,
    "modules": describe_modules,
    r"include (\S+)": include,
}
