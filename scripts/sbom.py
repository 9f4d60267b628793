"""Writes sbom.json: the software bill of materials of the environment that `make test` creates (CycloneDX 1.6).

python scripts/sbom.py [LOCK] [OUT]

It lists the packages of LOCK (default: locks/dev.lock) with the SHA-256 of their files, torch by
the version in locks/constraints.txt, and plotly.js, which packaging/vendor fetches. It needs no
network and no package.
"""

import json
import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def locked(lock: Path) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package in a lock, by name."""
    packages: dict[str, tuple[str, list[str]]] = {}
    hashes: list[str] = []
    for line in lock.read_text("utf-8").splitlines():
        if pin := PIN.match(line):
            hashes = []
            packages[pin[1]] = (pin[2], hashes)
        hashes += HASH.findall(line)
    return packages


def bill(lock: Path) -> dict[str, Any]:
    """The bill of materials as CycloneDX has it."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "locks/constraints.txt").read_text().splitlines()
        if "==" in line
    )
    components = [component(name, *found) for name, found in locked(lock).items()]
    components.append(component("torch", pins["torch"], []))
    vendor = runpy.run_path(str(ROOT / "packaging/vendor"))
    name, version = vendor["PACKAGE"].split("==")
    components.append(component(name, version, [digest for _, digest in vendor["FILES"].values()]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own = {
        "type": "application",
        "name": project["name"],
        "version": project["version"],
        "bom-ref": project["name"],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"license": {"id": project["license"]}}]}},
        "components": sorted(components, key=lambda one: one["name"]),
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": sorted(one["bom-ref"] for one in components)}
        ],
    }


def component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    """One package. Its hashes are those of all its files: the one for your machine is among them."""
    address = f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}"
    found: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": address,
        "bom-ref": address,
    }
    return found | (
        {"hashes": [{"alg": "SHA-256", "content": one} for one in hashes]} if hashes else {}
    )


def main() -> None:
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "locks/dev.lock"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "sbom.json"
    made = bill(lock)
    out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    print(f"{len(made['components'])} packages written to {out}")


if __name__ == "__main__":
    main()
