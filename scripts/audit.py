"""Looks up known vulnerabilities of the locked packages with pip-audit, and fails if it could not look.

python scripts/audit.py PIP_AUDIT LOCK

pip-audit reports "no known vulnerabilities" also if its database cannot be reached. This script
counts the packages that were looked up. It exits with 0 if all were and none is vulnerable, 1 if
one is, and 2 if some were not looked up.
"""

import json
import subprocess
import sys
from typing import Any


def main() -> None:
    pip_audit, lock = sys.argv[1:]
    command = [
        pip_audit,
        "--disable-pip",
        "--require-hashes",
        "--requirement",
        lock,
        "--format",
        "json",
    ]
    try:
        done = subprocess.run([*command, "--timeout", "10"], capture_output=True, text=True)  # noqa: S603 (our words)
        packages = json.loads(done.stdout)["dependencies"]
    except OSError as error:
        sys.exit(f"{pip_audit}: cannot be run ({error.strerror})")
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"{lock}: pip-audit failed ({last})")
    status, lines = verdict(packages)
    print("\n".join(lines))
    sys.exit(status)


def verdict(packages: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """The exit status, and what to print."""
    lines = vulnerable(packages)
    known = sum("skip_reason" not in one for one in packages)
    if known < len(packages):
        why = "the database at pypi.org cannot be reached, or does not know them"
        return 1 if lines else 2, [
            *lines,
            f"{len(packages) - known} of {len(packages)} packages were NOT audited: {why}",
        ]
    return (1, lines) if lines else (0, [f"{known} packages audited, no known vulnerability"])


def vulnerable(packages: list[dict[str, Any]]) -> list[str]:
    """A line for each known vulnerability."""
    return [
        f"{one['name']} {one['version']}: {found['id']}, fixed in"
        f" {', '.join(found['fix_versions']) or 'no version'}"
        for one in packages
        for found in one.get("vulns", [])
    ]


if __name__ == "__main__":
    main()
