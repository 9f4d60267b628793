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
    found: dict[str, Any] = yaml.safe_load(
        (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    )["jobs"]["test"]
    return found


def test_the_workflow_calls_make_targets_that_exist(job: dict[str, Any]) -> None:
    steps = [step for step in job["steps"] if "run" in step]
    targets = re.findall(r"\bmake ([\w-]+)", " ".join(step["run"] for step in steps))
    known = set(
        re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    )
    assert set(targets) == {"test", "quick"}
    assert set(targets) <= known
    assert all(step.keys() & {"run", "uses"} for step in job["steps"])


def test_the_changelog_begins_with_this_version() -> None:
    titles = re.findall(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE
    )
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
