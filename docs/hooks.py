"""Fills the page of Python names when the site is built; scripts/reference.py fills the other generated pages."""

import re
from importlib import import_module
from typing import Any

import mappable
from mappable.lazy_names import homes


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    markdown = markdown.replace("<!-- first page -->", first_page())
    return re.sub(r"<!-- names (\w+) -->", lambda match: describe_names(match[1]), markdown)


def first_page() -> str:
    """A table of the names in `mappable` itself, with the first line of each docstring."""
    shown = {name: getattr(mappable, name) for name, home in homes(mappable.__file__).items() if home != "mappable"}
    rows = [f"| `mappable.{name}` | {one.__doc__.partition(chr(10))[0]} |" for name, one in shown.items()]
    return "\n".join(["| name | |", "|---|---|", *rows])


def describe_names(room: str) -> str:
    """One mkdocstrings block for each name of a sub-package."""
    return "\n".join(f"::: {home}.{name}" for name, home in homes(import_module(f"mappable.{room}").__file__).items())
