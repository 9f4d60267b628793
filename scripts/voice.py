"""Measures how the project speaks: sentence length, banned phrases and British spellings, per kind of text.

python scripts/voice.py [--list] [--group GROUP] [CHECKOUT]
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

LONGEST = 25  # words per sentence
GROUPS = ["readme", "docs", "help", "errors", "text", "docstrings", "comments", "page", "names"]
BANNED = re.compile(
    r"\b(so many|whoever|held to be|for want of|of which|of these|that of the latter|where there (is|are) none"
    r"|(is|are|was|were) (said|told)"
    r"|a (row|file|run|model|place|image|set) a (sequence|model|place|image|protocol|format))\b"
    r"|, for (it|there|they|the) ",
    re.IGNORECASE,
)
# British spellings that have an American one; *metre* is meant, because the SI spells it so.
BRITISH = re.compile(
    r"(?<![a-z])(?:un|re|de|non)?(?:"
    r"(?:arm|behavi|col|endeav|fav|flav|harb|hon|hum|lab|neighb|rig|rum|vap)our"
    r"|(?:capitalis|categoris|characteris|customis|discretis|finalis|generalis|harmonis|initialis|itemis|linearis"
    r"|localis|maximis|memoris|minimis|mobilis|normalis|organis|parallelis|penalis|prioritis|quantis|randomis"
    r"|recognis|regularis|serialis|specialis|stabilis|standardis|summaris|symmetris|synchronis|vectoris"
    r"|visualis|emphasis|optimis|realis)(?=e[drs]?\b|er|ing|ation)"
    r"|(?:analy|paraly|cataly)s(?=e[dr]?\b|ing)|(?<!stereo[/_])centr(?=e|ing)|fibre|theatre|calibre|analogue|catalogue|dialogue"
    r"|(?:cancel|label|level|model|signal|travel)l(?=ed|er|ing)|(?:def|lic|off|pret)ence\b|practis(?=e|ing)"
    r"|ageing|aluminium|amongst|artefact|cheque|grey|judgement|kerb|learnt|mould|plough|programme(?!d|r)|sceptic"
    r"|storey|towards|tyre|whilst)[a-z]*",
    re.IGNORECASE,
)
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|al|Fig|Eq|Sec|No|approx|resp|St)\.", re.IGNORECASE)


@dataclass(frozen=True)
class Sentence:
    """A sentence, where it stands (file and line, or command) and the kind of text it belongs to."""

    group: str
    where: str
    text: str

    @property
    def words(self) -> int:
        """Number of words; a code span or a formula counts as one."""
        return sum(1 for word in self.text.split() if re.search(r"\w", word))

    @property
    def problems(self) -> list[str]:
        """What the check objects to."""
        found = [f"{self.words} words"] if self.words > LONGEST and self.group != "names" else []
        found += [f"phrase '{match[0].strip(' ,')}'" for match in BANNED.finditer(self.text)]
        return found + [f"spelling '{match[0]}'" for match in BRITISH.finditer(self.text)]


def sentences(root: Path) -> Iterator[Sentence]:
    """All sentences of a checkout that a person reads, except the CLI help (see `help_sentences`)."""
    for file in [root / "README.md", *sorted(root.glob("CONTRIBUTING.md")), *sorted(root.glob("docs/*.md"))]:
        group = "readme" if file.name == "README.md" else "docs"
        text = file.read_text("utf-8").partition("<!-- made by")[0]  # a generated part follows
        yield from split(group, file.relative_to(root).as_posix(), 1, text)
    patterns = ["*.py", "benchmarks/*.py", "scripts/*.py", "src/mappable/**/*.py"]
    for file in (file for pattern in patterns for file in sorted(root.glob(pattern))):
        if file.name != "voice.py":  # its patterns would match themselves
            yield from python_sentences(file.relative_to(root).as_posix(), file.read_text("utf-8"))
    for file in sorted(root.glob("src/mappable/service/viewer/*.*")):
        if file.suffix in {".html", ".js"}:
            yield from page_sentences(file.relative_to(root).as_posix(), file.read_text("utf-8"))


def split(group: str, name: str, first_line: int, text: str) -> Iterator[Sentence]:
    """The sentences of Markdown or a docstring, without code blocks and file trees; a table cell is a paragraph."""
    paragraph: list[tuple[int, str]] = []
    fence = doctest = False
    for number, line in enumerate([*text.splitlines(), ""], first_line):
        bare = line.strip()
        fence ^= bare.startswith(("```", "~~~")) or bare == "$$"
        doctest = bool(bare) and (doctest or bare.startswith(">>>"))
        aligned = not bare.startswith("|") and re.search(r"\S {3,}\S", bare)  # file trees, commands with comments
        marked = bare.startswith(("```", "~~~", "$$", "#", ":::", "---", "===", "<", "!["))
        skipped = fence or doctest or aligned or marked
        starts = re.match(r"([-*+]|\d+\.)\s|\||!!!|>", bare)
        if paragraph and (not bare or skipped or starts):
            yield from _flush(group, name, paragraph)
            paragraph = []
        if bare.startswith("|") and not skipped:
            for cell in bare.strip("|").split(" | "):
                if len(cell.split()) > 4:
                    yield from _flush(group, name, [(number, cell)])
        elif bare and not skipped:
            paragraph.append((number, re.sub(r"^([-*+]|\d+\.|>)\s+", "", bare)))


def _flush(group: str, name: str, lines: list[tuple[int, str]]) -> Iterator[Sentence]:
    """The sentences of one paragraph, each with the line on which it begins."""
    text, starts = "", []
    for number, line in lines:
        starts.append((len(text), number))
        text += line + " "
    # Markup is replaced by text of the same length, so that positions still tell the line.
    for pattern in (r"(`+)[^`]+?\1", r"\$[^$\s][^$]*\$", r"(?<=\])\([^)\s]*\)", r"https?://\S+", r"<[^<>]*>"):
        keep = "" if pattern.startswith(("(?<=", "<")) else "X"
        text = re.sub(pattern, lambda match, keep=keep: keep.ljust(len(match[0]), "\0"), text)
    text = re.sub(r"\*\*|!?\[|\]", lambda match: "\0" * len(match[0]), text)
    text = ABBREVIATIONS.sub(lambda match: match[0][:-1] + "\1", text)
    ends = [match.end() for match in re.finditer(r"(?<=[.!?·])[)\"'”\0]*\s+(?=\S)", text)]
    for begin, end in pairwise([0, *ends, len(text)]):
        sentence = text[begin:end].replace("\0", "").replace("\1", ".").strip()
        first = max(number for start, number in starts if start <= begin)
        if re.search(r"[A-Za-z]{2}", sentence):
            yield Sentence(group, f"{name}:{first}", sentence)


def python_sentences(name: str, source: str) -> Iterator[Sentence]:
    """Docstrings, prose in string literals, comments and names with British spellings of one module."""
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    raised: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            skipped.add(node.value)
            yield from split("docstrings", name, node.value.lineno, node.value.value)
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _called(node) in {"warn", "note", "notes"}):
            raised.update(ast.walk(node))
        if isinstance(node, ast.keyword) and node.arg in {"help", "epilog"}:
            skipped.update(ast.walk(node))  # in the group "help"
        if isinstance(node, ast.JoinedStr):
            parts = [getattr(value, "format_spec", None) or value for value in node.values]
            skipped.update(part for part in parts if not isinstance(part, ast.FormattedValue))
    for node in ast.walk(tree):
        if node not in skipped and isinstance(node, ast.Constant | ast.JoinedStr):
            text = _prose(node)
            if len(re.findall(r"\b[a-z]{2,}\b", text)) >= 3:
                yield from split("errors" if node in raised else "text", name, node.lineno, text)
    for line, text in _comments(source):
        yield from split("comments", name, line, text)
    yield from _names(name, tree)


def _comments(source: str) -> list[tuple[int, str]]:
    """Comments with the line where each begins; whole lines of comment that follow each other are one."""
    found: list[tuple[int, str]] = []
    last = 0  # line of the last comment that has a line of its own
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(noqa|type:|!)", token.string):
            continue
        own_line = token.line.lstrip().startswith("#")
        if own_line and found and last == token.start[0] - 1:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + token.string.lstrip("# "))
        else:
            found.append((token.start[0], token.string.lstrip("# ")))
        last = token.start[0] if own_line else -1
    return found


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _prose(node: ast.Constant | ast.JoinedStr) -> str:
    """The text of a literal; X stands for each inserted value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(_prose(value) if isinstance(value, ast.Constant) else "X" for value in node.values)


def _names(name: str, tree: ast.AST) -> Iterator[Sentence]:
    """Names that a module defines and that have a British spelling."""
    for node in ast.walk(tree):
        defined = getattr(node, "name", None) or getattr(node, "arg", None)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined = node.id
        if isinstance(defined, str) and BRITISH.search(defined.replace("_", " ")):
            yield Sentence("names", f"{name}:{getattr(node, 'lineno', 1)}", defined.replace("_", " "))


def page_sentences(name: str, source: str) -> Iterator[Sentence]:
    """Texts between tags, string literals and comments of the viewer's HTML and JavaScript."""
    literal = re.compile(r"\"([^\"\n]{12,})\"|'([^'\n]{12,})'|`([^`]{12,})`|//\s+(.*)|>([^<>{}]{12,})<")
    for number, line in enumerate(source.splitlines(), 1):
        for match in literal.finditer(line):
            text = re.sub(r"\$\{[^}]*\}", "X", next(part for part in match.groups() if part))
            if len(re.findall(r"\b[a-z]{2,}\b", text)) >= 3:
                yield from split("page", name, number, text)


def help_sentences(root: Path) -> Iterator[Sentence]:
    """The help of all commands, arguments and options of a checkout; a text that many commands share counts once."""
    sys.path.insert(0, str(root / "src"))
    import typer

    from mappable.cli.app import app

    seen: set[str] = set()

    def walk(command: Any, words: str) -> Iterator[Sentence]:
        texts = [(words, command.help), (words, getattr(command, "epilog", None))]
        texts += [(f"{words} {one.opts[0]}", getattr(one, "help", None)) for one in command.params]
        for where, text in texts:
            for sentence in split("help", where, 1, text or ""):
                if sentence.text not in seen:
                    seen.add(sentence.text)
                    yield Sentence("help", where, sentence.text)
        for name in command.list_commands(None) if hasattr(command, "list_commands") else []:
            yield from walk(command.get_command(None, name), f"{words} {name}")

    yield from walk(typer.main.get_command(app), "mappable")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure sentence length, banned phrases and British spellings.")
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--list", action="store_true", help="print each offending sentence as FILE:LINE: problem: text")
    parser.add_argument("--group", choices=GROUPS, help="only this kind of text")
    arguments = parser.parse_args()
    root = arguments.checkout.resolve()
    found = [*sentences(root), *help_sentences(root)]
    print_table(found)
    for sentence in found if arguments.list else []:
        if sentence.problems and arguments.group in {None, sentence.group}:
            print(f"{sentence.where}: {', '.join(sentence.problems)}: {sentence.text}")


def print_table(found: list[Sentence]) -> None:
    """A row per group: sentences, their mean length, the share of long ones, banned phrases, British spellings."""
    print(
        f"{'group':<12}{'sentences':>10}{'words per sentence':>20}{'over 25 words, %':>18}{'phrases':>9}{'British':>9}"
    )
    for group in GROUPS:
        some = [sentence for sentence in found if sentence.group == group]
        count = max(len(some), 1)
        mean = sum(sentence.words for sentence in some) / count
        share = 100 * sum(sentence.words > LONGEST for sentence in some) / count
        phrases = sum(len(BANNED.findall(sentence.text)) for sentence in some)
        spellings = sum(len(BRITISH.findall(sentence.text)) for sentence in some)
        print(f"{group:<12}{len(some):>10}{mean:>20.1f}{share:>18.1f}{phrases:>9}{spellings:>9}")


if __name__ == "__main__":
    main()
