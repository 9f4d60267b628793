"""Fills docs/api.md with the signature and first line of every public name, so that a code host shows them, too.

python scripts/api_page.py
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs/api.md"
# What stands between these two comments is generated; the rest of the page is written by hand.
GENERATED = re.compile(
    r"(<!-- names ([\w.]+): made by scripts/api_page\.py -->\n).*?(<!-- end of names -->)", re.DOTALL
)
LINE_LENGTH = 100


def page(now: str) -> str:
    """The page as it is `now`, with every generated part made again."""
    return GENERATED.sub(lambda match: f"{match[1]}\n{names_of(match[2])}\n{match[3]}", now)


def names_of(package: str) -> str:
    """Markdown for all public names of a package: a table for `mappable` itself, signatures for its modules."""
    stub = SOURCE.joinpath(*package.split(".")) / "__init__.pyi"
    homes = re.findall(r"^from (\S+) import (\w+)", stub.read_text("utf-8"), flags=re.MULTILINE)
    homes = [(home, name) for home, name in homes if home != "mappable"]
    if package != "mappable":
        return "\n".join(describe(home, name) for home, name in homes)
    rows = [f"| `mappable.{name}` | {first_line(definition(home, name), name)} |" for home, name in homes]
    return "\n".join(["| name | description |", "|---|---|", *rows, ""])


def describe(home: str, name: str) -> str:
    """The signature and first line of one name, and for a class those of its public methods and properties."""
    found = definition(home, name)
    if isinstance(found, ast.FunctionDef):
        return f"### {name}\n\n```python\n{signature(found)}\n```\n\n{first_line(found, name)}\n"
    if isinstance(found, ast.ClassDef):
        members = [f"- `{signature(one)}`: {first_line(one, name)}" for one in public_members(found)]
        listed = "\n" + "\n".join(members) + "\n" if members else ""
        return f"### {name}\n\n```python\n{constructor(found)}\n```\n\n{first_line(found, name)}\n{listed}"
    return f"### {name}\n\nA constant of `{home}`.\n"


def definition(home: str, name: str) -> ast.stmt:
    """The statement that defines a name in its module."""
    module = SOURCE.joinpath(*home.split("."))
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    for statement in ast.parse(file.read_text("utf-8")).body:
        if name in defined_by(statement):
            return statement
    raise SystemExit(f"{file.relative_to(ROOT)} does not define {name}")


def defined_by(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def public_members(found: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The documented methods and properties of a class without a leading underscore."""
    for one in found.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and ast.get_docstring(one):
            yield one


def constructor(found: ast.ClassDef) -> str:
    """How a class is called: by its `__init__`, or by its fields if it is a dataclass or a settings class."""
    for one in found.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return signature(one, found.name).removesuffix(" -> None")
    fields = [
        _argument(ast.arg(one.target.id, one.annotation), default(one.value))
        for one in found.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and not one.target.id.startswith("_")
    ]
    if fields:
        return wrapped(found.name, fields, "")
    bases = [ast.unparse(base) for base in found.bases]
    return f"class {found.name}({', '.join(bases)})" if bases else f"class {found.name}"


def default(value: ast.expr | None) -> ast.expr | None:
    """The default of a field; `...` for one that a function makes."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) not in ("field", "Field"):
        return value
    given = {one.arg: one.value for one in value.keywords}
    if "default_factory" in given:
        return ast.Constant(...)
    return given.get("default", value.args[0] if value.args else None)


def signature(function: ast.FunctionDef, name: str = "") -> str:
    """A function's name, arguments and result, as its source has them; a property is its name and type."""
    result = f" -> {annotation(function.returns)}" if function.returns else ""
    if any("property" in ast.unparse(one) for one in function.decorator_list):
        return f"{function.name}: {result.removeprefix(' -> ')}"
    arguments = split_arguments(function.args)
    if arguments and arguments[0] in ("self", "cls"):
        del arguments[0]
    return wrapped(name or function.name, arguments, result, bool(name) or function.col_offset == 0)


def split_arguments(arguments: ast.arguments) -> list[str]:
    """Each argument with its annotation and default, and the signs `/`, `*` and `**`."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    parts = [_argument(one, value) for one, value in zip(plain, [*defaults, *arguments.defaults], strict=True)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        parts.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [_argument(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        parts.append(f"**{ast.unparse(arguments.kwarg)}")
    return parts


def _argument(one: ast.arg, value: ast.expr | None) -> str:
    equals = " = " if one.annotation else "="
    written = f"{one.arg}: {annotation(one.annotation)}" if one.annotation else one.arg
    return written + (f"{equals}{ast.unparse(value)}" if value is not None else "")


def annotation(of: ast.expr) -> str:
    """A type as its source has it, without quotes round names that are defined later."""
    return of.value if isinstance(of, ast.Constant) and isinstance(of.value, str) else ast.unparse(of)


def wrapped(name: str, arguments: list[str], result: str, may_wrap: bool = True) -> str:
    """A call on one line, or one argument per line if it is longer than LINE_LENGTH."""
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= LINE_LENGTH or not may_wrap:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in arguments), f"){result}"])


def first_line(found: ast.stmt, name: str) -> str:
    """The first paragraph of a docstring, on one line."""
    text = ast.get_docstring(found) if isinstance(found, ast.FunctionDef | ast.ClassDef) else None
    if not text:
        raise SystemExit(f"{name} has no docstring")
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
