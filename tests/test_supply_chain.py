"""The locks, the bill of materials, and the audit of vulnerabilities."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = sorted(ROOT.glob("locks/*.lock"))
SBOM = runpy.run_path(str(ROOT / "scripts/sbom.py"))
AUDIT = runpy.run_path(str(ROOT / "scripts/audit.py"))
LOCK = runpy.run_path(str(ROOT / "scripts/lock.py"))


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "locks/constraints.txt").read_text().splitlines()
    return {
        normal(name): version
        for name, version in (line.split("==") for line in lines if "==" in line)
    }


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_the_pinned_versions_with_full_hashes_and_names_no_index(lock: Path) -> None:
    """If this fails, run scripts/lock.py."""
    packages = SBOM["locked"](lock)
    pinned = pins()
    assert {
        normal(name): version for name, (version, _) in packages.items()
    }.items() <= pinned.items()
    assert all(hashes for _, hashes in packages.values())
    assert "torch" not in packages
    assert not [name for name in packages if name.startswith(("nvidia", "cuda", "triton"))]
    text = lock.read_text()
    assert "://" not in text
    assert "--index" not in text
    assert len(re.findall(r"--hash=", text)) == sum(len(hashes) for _, hashes in packages.values())


def test_the_locks_hold_every_dependency_that_make_installs() -> None:
    assert {lock.name for lock in LOCKS} == LOCK["LOCKS"].keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name, extras in LOCK["LOCKS"].items():
        wanted = project["dependencies"] + [
            one for extra in extras for one in project["optional-dependencies"][extra]
        ]
        names = {normal(re.split(r"[\[<>=!~ ;]", one)[0]) for one in wanted} - {"mappable", "torch"}
        assert names <= {normal(one) for one in SBOM["locked"](ROOT / "locks" / name)}


def test_the_makefile_installs_from_the_locks_and_checks_their_hashes() -> None:
    text = (ROOT / "Makefile").read_text()
    assert "LOCKED := $(PIP) --no-deps --require-hashes --requirement\n" in text
    for lock in LOCKS:
        assert f"$(LOCKED) locks/{lock.name}" in text
    unlocked = [line.strip() for line in text.splitlines() if line.startswith("\t$(PIP)")]
    assert unlocked == [
        "$(PIP) --constraint locks/constraints.txt torch",
        "$(PIP) --no-deps --no-build-isolation --editable . --editable worlds",
    ]


def test_the_bill_of_materials_lists_every_package_once() -> None:
    made = SBOM["bill"](ROOT / "locks/dev.lock")
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    by_name = {one["name"]: one for one in made["components"]}
    assert (
        len(by_name) == len(made["components"]) == len(SBOM["locked"](ROOT / "locks/dev.lock")) + 2
    )
    assert by_name["torch"]["purl"] == f"pkg:pypi/torch@{pins()['torch']}"
    assert len(by_name["plotly"]["hashes"]) == 2
    assert all(len(one["content"]) == 64 for one in by_name["numpy"]["hashes"])
    (tree,) = made["dependencies"]
    assert set(tree["dependsOn"]) == {one["bom-ref"] for one in made["components"]}


SAFE: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
BAD: dict[str, Any] = {
    "name": "b",
    "version": "2",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}],
}
SKIPPED: dict[str, Any] = {
    "name": "c",
    "skip_reason": "Dependency not found on PyPI and could not be audited: c (1)",
}


@pytest.mark.parametrize(
    ("packages", "status", "last"),
    [
        ([SAFE, SAFE], 0, "2 packages audited, no known vulnerability"),
        ([SAFE, BAD], 1, "b 2: CVE-1, fixed in 3"),
        (
            [SKIPPED, SKIPPED],
            2,
            "2 of 2 packages were NOT audited: the database at pypi.org cannot be reached, .*",
        ),
        ([BAD, SKIPPED], 1, "1 of 2 packages were NOT audited: .*"),
    ],
)
def test_an_audit_that_could_not_look_does_not_pass(
    packages: list[dict[str, Any]], status: int, last: str
) -> None:
    found, lines = AUDIT["verdict"](packages)
    assert found == status
    assert re.fullmatch(last, lines[-1])
