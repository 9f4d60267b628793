"""Fills the generated parts of the documentation pages: readers, commands, fields of a located image, Python names.

python scripts/reference.py

A generated part stands between two comments, such as `<!-- command train -->` and `<!-- end of command train -->`.
The program itself supplies the text: docstrings, signatures and the help of options. Edit those, then run this script.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

import mappable
from mappable.cli.app import app
from mappable.cli.names import filled
from mappable.lazy_names import homes
from mappable.maps.location import Location
from mappable.places.readers import Option, find_reader, reader_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / name for name in ("api.md", "commands.md", "maps.md", "readers.md")]
WIDEST_SIGNATURE = 100  # characters; a longer signature has one argument per line
Function = ast.FunctionDef | ast.AsyncFunctionDef


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
    return "\n\n".join([f"`{usage}`", re.sub(r"\s*\n\s*", " ", help_text), table])


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


# Python names


def describe_first_page() -> str:
    """The names of `mappable` itself, with the first lines of their docstrings."""
    shown = {name: getattr(mappable, name) for name, home in homes(mappable.__file__).items() if home != "mappable"}
    rows = [f"| `mappable.{name}` | {one.__doc__.partition(chr(10))[0]} |" for name, one in shown.items()]
    return "\n".join(["| name | meaning |", "|---|---|", *rows])


def describe_errors() -> str:
    return "\n\n".join(describe_name("mappable.errors", name) for name in mappable.__all__ if name.endswith("Error"))


def describe_names(room: str) -> str:
    names = homes(import_module(f"mappable.{room}").__file__)
    return "\n\n".join(describe_name(home, name) for name, home in names.items())


def describe_name(module: str, name: str) -> str:
    """A heading, then the signature and docstring of a function, a class with its methods, or the value of a name."""
    node = definition(module, name)
    parts = [f"### {name}"]
    if isinstance(node, Function):
        parts += [code(signature(node, name)), docstring(node)]
    elif isinstance(node, ast.ClassDef):
        parts += [code(class_header(node)), docstring(node)]
        for method in public_methods(node):
            parts += [code(signature(method, f"{name}.{method.name}")), docstring(method)]
    else:
        parts.append(code(ast.unparse(node)))
    return "\n\n".join(part for part in parts if part)


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(Path(str(import_module(module).__file__)).read_text("utf-8"))


def definition(module: str, name: str) -> ast.stmt:
    """The statement that defines a name in a module; of several (overloads) the last, which has the docstring."""
    found = [node for node in parsed(module).body if name in defined_names(node)]
    if not found:
        raise SystemExit(f"{module} does not define {name}")
    return found[-1]


def defined_names(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def public_methods(node: ast.ClassDef) -> list[Function]:
    methods = {one.name: one for one in node.body if isinstance(one, Function)}
    return [one for name, one in methods.items() if name == "__getitem__" or not name.startswith("_")]


def class_header(node: ast.ClassDef) -> str:
    """The class with its bases and public fields, or with the arguments of its constructor."""
    header = f"class {node.name}" + (f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else "")
    attributes = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    public = [one for one in attributes if not ast.unparse(one.target).startswith("_")]
    lines = [f"{ast.unparse(one.target)}: {ast.unparse(one.annotation)}" for one in public]
    constructors = [one for one in node.body if isinstance(one, Function) and one.name == "__init__"]
    lines += [signature(one, node.name).removesuffix(" -> None") for one in constructors]
    return "\n".join([header, *(f"    {line}" for text in lines for line in text.splitlines())])


def signature(node: Function, name: str) -> str:
    """How the function is called, with the types of its arguments and result, as its source has them."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if any(ast.unparse(decorator) in ("property", "cached_property") for decorator in node.decorator_list):
        return f"{name}{result}"
    arguments = argument_list(node.args)
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= WIDEST_SIGNATURE:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){result}"])


def argument_list(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    listed = [argument(one, default) for one, default in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        listed.append(f"*{argument(arguments.vararg)}")
    elif arguments.kwonlyargs:
        listed.append("*")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    listed += [argument(one, default) for one, default in pairs]
    if arguments.kwarg:
        listed.append(f"**{argument(arguments.kwarg)}")
    return [one for one in listed if one not in ("self", "cls")]


def argument(one: ast.arg, default: ast.expr | None = None) -> str:
    annotated = one.arg + (f": {ast.unparse(one.annotation)}" if one.annotation else "")
    equals = " = " if one.annotation else "="
    return annotated if default is None else f"{annotated}{equals}{ast.unparse(default)}"


def docstring(node: Function | ast.ClassDef) -> str:
    """The docstring as Markdown: an interactive example becomes a block of code."""
    text = ast.get_docstring(node) or ""
    return re.sub(
        r"^>>> .*?(?=\n\n|\Z)", lambda match: f"```pycon\n{match[0]}\n```", text, flags=re.DOTALL | re.MULTILINE
    )


def code(text: str) -> str:
    return f"```text\n{text}\n```"


# What stands between the comments, by the words of the first comment.
PARTS: dict[str, Callable[..., str]] = {
    "readers": describe_readers,
    "located image": describe_location,
    "first page": describe_first_page,
    "errors": describe_errors,
    r"names (?P<argument>\w+)": describe_names,
    r"command (?P<argument>[\w ]+)": describe_command,
}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text("utf-8")), "utf-8")
