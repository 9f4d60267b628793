"""Fills docs/house.md from the first lines of all module docstrings; the part above the marker is written by hand.

python scripts/house.py
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/mappable"
PAGE = ROOT / "docs/house.md"
MARKER = "<!-- made by scripts/house.py from the first lines of the modules: edit those -->\n"


def page(now: str) -> str:
    """The new page: the upper part of the page `now`, then a section per room, in the order of the import contract."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    names = re.findall(r"\w+", " ".join(reversed(contract["layers"])))
    rooms = [PACKAGE / name for name in names if (PACKAGE / name).is_dir()]
    sections = [section("Root modules: every room may import them", PACKAGE.glob("*.py"), PACKAGE)]
    for room in rooms:
        modules = (module for module in room.rglob("*.py") if module != room / "__init__.py")
        sections.append(section(f"{room.name}\n\n{first_line(room / '__init__.py')}", modules, room))
    return now.partition(MARKER)[0] + MARKER + "".join(sections)


def section(title: str, modules: Iterator[Path], room: Path) -> str:
    """A heading, and a table with one row per module; the row of a sub-folder is above its modules."""
    rows = []
    for module in sorted(modules, key=lambda module: module.relative_to(room).with_suffix("").as_posix()):
        name = module.relative_to(room).as_posix().replace("/__init__.py", "/")
        rows.append(f"| `{name}` | {first_line(module).replace('|', chr(92) + '|')} |")
    return "\n".join(["", f"## {title}", "", "| module | holds |", "|---|---|", *rows, ""])


def first_line(module: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    line, _, rest = text.partition("\n")
    if not line.endswith((".", "?")) or rest.partition("\n")[0]:
        raise SystemExit(
            f"{module.relative_to(ROOT)}: the docstring must begin with one sentence on one line: {line!r}"
        )
    return line


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
