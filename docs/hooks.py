"""Fills pages when mkdocs builds the site: docstrings of Python names, and files of the root folder.

scripts/reference.py and scripts/api_page.py fill the other generated parts.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mappable.lazy_names import homes

ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    includes = r"<!-- include (\S+) -->\n(.*?)<!-- end of include -->\n"
    markdown = re.sub(includes, lambda match: include(match[1], match[2]), markdown, flags=re.DOTALL)
    names = r"<!-- names mappable(\.\w+)?: .*? -->\n(.*?)<!-- end of names -->"  # see scripts/api_page.py
    return re.sub(names, lambda match: describe_names(match[1]) if match[1] else match[2], markdown, flags=re.DOTALL)


def include(name: str, otherwise: str) -> str:
    """The text of a Markdown file of the root folder, without its title, with links that work in docs/.

    If the file does not exist, the result is `otherwise`, without its links. A code host shows that text.
    """
    file = ROOT / name
    if not file.is_file():
        return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", otherwise)
    text = re.sub(r"\A# .*\n+", "", file.read_text("utf-8"))
    return text.replace("](docs/", "](")


def describe_names(room: str) -> str:
    """One mkdocstrings block for each name of a sub-package, such as ".maps"."""
    return "\n".join(f"::: {home}.{name}" for name, home in homes(import_module(f"mappable{room}").__file__).items())
