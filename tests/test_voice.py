"""The project's text: one spelling, no phrases that a reader stumbles over, short sentences (scripts/voice.py)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import voice

pytestmark = pytest.mark.medium
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def sentences() -> list[Any]:
    """All sentences of this checkout."""
    return [*voice.sentences(ROOT), *voice.help_sentences(ROOT)]


def check(sentences: list[Any], problem: str, groups: set[str] | None = None) -> None:
    """Fail with a line per sentence that has this kind of problem."""
    offenders = [
        f"{sentence.where}: {', '.join(sentence.problems)}: {sentence.text}"
        for sentence in sentences
        if groups is None or sentence.group in groups
        if any(problem in found for found in sentence.problems)
    ]
    if offenders:
        pytest.fail("\n".join(offenders), pytrace=False)


def test_every_kind_of_text_is_found(sentences: list[Any]) -> None:
    assert {sentence.group for sentence in sentences} >= set(voice.GROUPS) - {"names"}


def test_tracked_files_are_spelled_correctly() -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "codespell_lib", "--toml", "pyproject.toml", *files.split("\0")[:-1]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


def test_the_spelling_is_american(sentences: list[Any]) -> None:
    check(sentences, "spelling")


def test_no_sentence_has_a_banned_phrase(sentences: list[Any]) -> None:
    check(sentences, "phrase")


def test_sentences_that_users_meet_first_are_short(sentences: list[Any]) -> None:
    check(sentences, " words", {"readme", "help", "errors"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two words.", [2]),
        ("First one. Then `a code span` counts as one word.", [2, 6]),
        ("Text, e.g. this. See [the page](docs/house.md).", [3, 3]),
        ("```sh\nmappable --version\n```\nAfter the code.", [3]),
        ("| a cell with many words here | 7 |\n|---|---|", [6]),
        ("- An item\n- Another long item\n  that goes on", [2, 6]),
        ("OUT/\n  world.json   a description of what was drawn\n  images/      one file per image", [1]),
        (">>> a_doctest()\n7\n\nProse again.", [2]),
    ],
)
def test_text_is_split_into_sentences(text: str, words: list[int]) -> None:
    assert [sentence.words for sentence in voice.split("docs", "page.md", 1, text)] == words


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("Distances are in metres.", []),
        ("A neighbouring colour.", ["spelling 'neighbouring'", "spelling 'colour'"]),  # codespell:ignore
        ("Central analyses of optimism, realism and emphasis.", []),
        ("One each so many metres.", ["phrase 'so many'"]),
        ("It fails, for there is no file.", ["phrase 'for there'"]),
        ("word " * 26, ["26 words"]),
    ],
)
def test_problems_are_named(text: str, problems: list[str]) -> None:
    (sentence,) = voice.split("docs", "page.md", 1, text)
    assert sentence.problems == problems


def test_a_sentence_is_found_by_its_line() -> None:
    source = '"""A module."""\n\n\ndef check(n):\n    """Check.\n\n    Twice.\n    """\n'
    source += '    raise ValueError(f"{n} is not a number")\n'
    found = {(sentence.where, sentence.text) for sentence in voice.python_sentences("a.py", source)}
    assert found == {
        ("a.py:1", "A module."),
        ("a.py:5", "Check."),
        ("a.py:7", "Twice."),
        ("a.py:9", "X is not a number"),
    }
