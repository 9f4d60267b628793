"""Write the report as Markdown."""

import re
from collections.abc import Mapping, Sequence

from mappable.evaluation.protocol import Section
from mappable.evaluation.tables import Table


def markdown_of(
    title: str, beginning: Sequence[str], sections: Sequence[Section], figures: Mapping[str, tuple[str, str]]
) -> str:
    """A page: title, `beginning` paragraphs, then sections. `figures` maps a name to an address and a caption.

    A section shows its sentences, tables, figures, then its notes (methods and caveats) and commands.
    """
    parts = [f"# {_plain(title)}", *map(_plain, beginning)]
    for section in sections:
        parts += [f"## {_plain(section.title)}", *map(_plain, section.sentences)]
        for table in section.tables:
            parts += [f"**{_plain(table.caption)}**"] * bool(table.caption) + [table_markdown(table)]
        parts += [f"![{_plain(figures[name][1])}]({figures[name][0]})" for name in section.figures if name in figures]
        parts += [*map(_plain, section.notes)]
        parts += ["```sh\n" + "\n".join(section.commands) + "\n```"] * bool(section.commands)
    return "\n\n".join(part for part in parts if part) + "\n"


def table_markdown(table: Table) -> str:
    """A table with the best row in bold and references in italics."""
    titles = [f"{column.group}: {column.title}" if column.group else column.title for column in table.columns]
    rules = [":--" if column.words or not number else "--:" for number, column in enumerate(table.columns)]
    marks = {"best": "**", "reference": "*", "": ""}  # an empty cell gets none, because Markdown would show them
    rows = [
        [f"{marks[kind]}{_cell(text)}{marks[kind]}" if text else "" for text in texts] for kind, texts in table.rows
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[_cell(title) for title in titles], rules, *rows])


def _plain(text: str) -> str:
    """Escape the characters that Markdown interprets."""
    return re.sub(r"([\\`*_<>#|])", r"\\\1", text)


def _cell(text: str) -> str:
    return _plain(" ".join(text.split()))
