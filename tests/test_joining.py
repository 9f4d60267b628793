"""What people need to join: the workflow, the templates, the citation and the container fit the rest of the tree."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONTAINER = runpy.run_path(str(ROOT / "scripts/container"))


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    """The only job of the workflow."""
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]["test"]
    return found


def test_the_workflow_covers_every_python_on_three_systems_with_two_torches(job: dict[str, Any]) -> None:
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert matrix["python"][0] == PROJECT["project"]["requires-python"].removeprefix(">=")
    assert [name.partition("-")[0] for name in matrix["system"]] == ["ubuntu", "macos", "windows"]
    assert matrix["torch"] == ["oldest", "newest"]


def test_the_workflow_calls_make_targets_that_exist(job: dict[str, Any]) -> None:
    steps = [step for step in job["steps"] if "run" in step]
    targets = re.findall(r"\bmake ([\w-]+)", " ".join(step["run"] for step in steps))
    known = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    assert set(targets) == {"test", "quick"}
    assert set(targets) <= known
    assert all(step.keys() & {"run", "uses"} for step in job["steps"])


def test_the_workflow_finds_the_oldest_torch(job: dict[str, Any]) -> None:
    (pin,) = [step["run"] for step in job["steps"] if "oldest" in step.get("if", "")]
    pattern = re.search(r"s/(.*?)/\\1/p", pin)
    assert pattern
    as_python = pattern[1].replace(r"\(", "(").replace(r"\)", ")")
    found = [
        match[1] for line in (ROOT / "pyproject.toml").read_text().splitlines() if (match := re.match(as_python, line))
    ]
    assert found == ["2.8"]
    assert "torch>=2.8" in PROJECT["project"]["dependencies"]


@pytest.mark.parametrize("file", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md")), ids=lambda file: file.name)
def test_an_issue_template_has_the_head_that_the_code_host_needs(file: Path) -> None:
    _, head, text = file.read_text("utf-8").split("---\n", 2)
    assert {"name", "about"} <= yaml.safe_load(head).keys()
    assert text.strip()


def test_the_citation_names_this_version_and_license() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "title", "message", "authors"} <= citation.keys()
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_worlds_have_this_version() -> None:
    worlds = tomllib.loads((ROOT / "worlds/pyproject.toml").read_text("utf-8"))
    assert worlds["project"]["version"] == PROJECT["project"]["version"]


def test_the_changelog_begins_with_this_version() -> None:
    titles = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    assert PROJECT["project"]["version"] in titles[:2]
    assert titles[0] in ("Unreleased", PROJECT["project"]["version"])


def test_every_step_of_the_dockerfile_can_be_run_without_a_container_engine() -> None:
    steps = CONTAINER["steps"]((ROOT / "Dockerfile").read_text("utf-8"))
    words = [word for word, _ in steps]
    assert words[0] == "FROM"
    assert {*words} == {"FROM", "ARG", "ENV", "RUN", "COPY", "USER", "EXPOSE", "CMD"}
    for word, rest in steps:
        if word == "COPY":
            assert all((ROOT / source).exists() for source in rest.split()[:-1])
    locked = [rest for word, rest in steps if word == "RUN" and "core.lock" in rest]
    assert ["--require-hashes" in rest for rest in locked] == [True]
