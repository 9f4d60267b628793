"""Fills the page of readers from the readers themselves, so that the two cannot disagree."""

from typing import Any, get_args, get_origin

from mappable.places.readers import Option, find_reader, reader_names


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return markdown.replace("<!-- readers -->", "\n\n".join(map(describe, reader_names())))


def describe(name: str) -> str:
    reader = find_reader(name)
    parts = [f"## {name}", reader.documentation]
    if reader.options:
        rows = [
            f"| `{option.name}` | {choices(option)} | {default(option)} | {option.help} |" for option in reader.options
        ]
        parts.append("\n".join(["| option | values | default | |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def choices(option: Option) -> str:
    if isinstance(option.type, type):
        return option.type.__name__
    kinds = [kind for kind in get_args(option.type) if kind is not type(None)]
    if get_origin(option.type) is None or all(isinstance(kind, type) for kind in kinds):
        return ", ".join(kind.__name__ for kind in kinds)
    return ", ".join(f"`{kind}`" for kind in kinds)


def default(option: Option) -> str:
    return "" if option.default is None else f"`{option.default}`"
