"""CONTRIBUTING.md names files that exist, and its checks are those of `make test`."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()} - {".venv"}
SPANS = {word for span in re.findall(r"`([^`\n]+)`", TEXT) for word in span.split()}
LINKS = set(re.findall(r"\]\(([^)#:]+)\)", TEXT))
PATHS = {
    word
    for word in SPANS | LINKS
    if word.partition("/")[0] in FOLDERS or re.fullmatch(r"[\w.-]+\.(md|py|toml|txt|yaml)", word)
}


def test_paths_are_found() -> None:
    assert {
        "docs/house.md",
        "pyproject.toml",
        ".pre-commit-config.yaml",
        "packaging/vendor",
    } <= PATHS


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_path_in_contributing_exists(path: str) -> None:
    found = ROOT / path
    # NAME.py is the file that a reader will write.
    exists = found.parent.is_dir() if "NAME" in path else found.exists()
    assert exists, path


def test_every_make_target_exists() -> None:
    targets = set(
        re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    )
    assert set(re.findall(r"`make ([\w-]+)`", TEXT)) <= targets


def test_pre_commit_runs_the_checks_of_make_test() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.partition("\ntest: ")[2].partition("\n\n")[0]
    lines = (line.strip() for line in recipe.replace("$(BIN)", ".venv/bin").splitlines()[1:])
    checks = {line.partition(" >")[0] for line in lines if line.startswith(".venv/bin/")}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0][
        "hooks"
    ]
    entries = {hook["entry"] for hook in hooks}
    assert checks <= entries
