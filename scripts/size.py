"""Prints how large the project is, room by room.

python scripts/size.py [--json]

| column | meaning |
|---|---|
| lines | lines of Python files |
| code | lines without blank lines, comments and docstrings |
| nodes | nodes of the syntax trees without docstrings: what a reader must take in |
| density | nodes per line of code |
| numbers | numbers that are constants of modules |

Nodes do not fall if code is packed into fewer lines. Words are counted in Markdown files.
"""

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
COLUMNS = ("files", "lines", "code", "nodes", "numbers")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
WORDS = ("docs", "README.md", "studies")
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def rooms() -> dict[str, Counter[str]]:
    """The sums of each room, by its name."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for file in tracked("*.py"):
        sums[room_of(file)].update(measure((ROOT / file).read_text("utf-8")))
    return dict(sorted(sums.items(), key=lambda room: (not room[0].startswith("src/"), room[0])))


def tracked(pattern: str) -> list[Path]:
    """Files of the checkout that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", pattern]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def room_of(file: Path) -> str:
    """A sub-package, or the folder of the root; tests of all distributions are one room."""
    if "tests" in file.parts:
        return "tests"
    if file.parts[0] == "src":
        return f"src/{file.parts[2] if len(file.parts) > 3 else '(root)'}"
    return file.parts[0] if len(file.parts) > 1 else "(root)"


def measure(text: str) -> dict[str, int]:
    """The numbers of one Python file."""
    tree = ast.parse(text)
    docstrings = list(docstrings_of(tree))
    left_out = {id(node) for docstring in docstrings for node in ast.walk(docstring)}
    left_out_lines = {
        line
        for docstring in docstrings
        for line in range(docstring.lineno, (docstring.end_lineno or 0) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    nodes = (
        node for node in ast.walk(tree) if not isinstance(node, ast.Load | ast.Store | ast.Del)
    )
    return {
        "files": 1,
        "lines": text.count("\n"),
        "code": len(
            {token.start[0] for token in tokens if token.type not in LAYOUT} - left_out_lines
        ),
        "nodes": sum(id(node) not in left_out for node in nodes),
        "numbers": sum(map(numbers_in, tree.body)),
    }


def docstrings_of(tree: ast.Module) -> Iterator[ast.Expr]:
    """The docstrings of a module, and of the classes and functions in it."""
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(node, WITH_DOCSTRING) and node.body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            yield first


def numbers_in(statement: ast.stmt) -> int:
    """How many numbers a statement gives a name, such as 2 for `WIDTH, HEIGHT = 240, 180`."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return 0
    values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return len(values) if all(map(is_number, values)) else 0


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, a tuple of numbers, or arithmetic with numbers alone."""
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_number, node.elts))
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def words() -> dict[str, int]:
    """Words of the Markdown files, by their folder."""
    counts = Counter(dict.fromkeys(WORDS, 0))
    for file in tracked("*.md"):
        if file.parts[0] in WORDS:
            counts[file.parts[0]] += len((ROOT / file).read_text("utf-8").split())
    return dict(counts)


def main() -> None:
    sums, counts = rooms(), words()
    package = sum((room for name, room in sums.items() if name.startswith("src/")), Counter())
    if "--json" in sys.argv:
        print(json.dumps({"rooms": sums, "src": package, "words": counts}))
        return
    print(f"{'room':16}{'files':>7}{'lines':>8}{'code':>8}{'nodes':>9}{'density':>9}{'numbers':>9}")
    for name, room in {**sums, "src, all rooms": package}.items():
        files, lines, code, nodes, numbers = (room[column] for column in COLUMNS)
        print(
            f"{name:16}{files:7,}{lines:8,}{code:8,}{nodes:9,}{nodes / max(code, 1):9.1f}{numbers:9,}"
        )
    print("words: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
