"""Writes locks/*.lock: the versions of locks/constraints.txt, with the SHA-256 of every file of each package.

python scripts/lock.py

It needs uv (pip install uv) and a package index. torch is not locked, because its build depends on
the machine; the packages that torch needs on every machine are. The locks name no index.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = {  # what the Makefile installs, by the extras of pyproject.toml
    "core.lock": ("serve",),
    "dev.lock": ("ann", "dev", "hloc", "serve", "video"),
    "trust.lock": ("trust",),
    "cluster.lock": ("cluster",),
    "docs.lock": ("docs",),
}
PYTHON = {"docs.lock": "3.11.5"}  # lowest version; pymdown-extensions needs this one
BUILD = ("editables", "hatchling")  # `pip install --editable --no-build-isolation` needs them
TORCH_NEEDS = (
    "filelock",
    "fsspec",
    "jinja2",
    "networkx",
    "setuptools",
    "sympy",
    "typing-extensions",
)
HEADER = (
    "# Made by scripts/lock.py from pyproject.toml and constraints.txt. torch is not in it: see the"
    " Makefile.\n"
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        more, no_torch = Path(folder) / "more.in", Path(folder) / "no-torch.txt"
        more.write_text("\n".join((*BUILD, *TORCH_NEEDS)) + "\n")
        no_torch.write_text("torch ; python_version < '3'\n")
        for name, extras in LOCKS.items():
            lock = Path(folder) / name
            command = [
                "uv",
                "pip",
                "compile",
                "pyproject.toml",
                str(more),
                "--output-file",
                str(lock),
                "--quiet",
            ]
            command += [
                "--constraint",
                "locks/constraints.txt",
                "--override",
                str(no_torch),
                "--generate-hashes",
            ]
            command += [
                "--universal",
                "--python-version",
                PYTHON.get(name, "3.11"),
                "--no-python-downloads",
            ]
            command += [
                "--no-header",
                "--no-annotate",
                "--no-emit-index-url",
                "--no-emit-find-links",
            ]
            command += [word for extra in extras for word in ("--extra", extra)]
            try:
                subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 (fixed arguments)
            except (OSError, subprocess.CalledProcessError) as error:
                sys.exit(f"scripts/lock.py: {name} was not written ({error})")
            (ROOT / "locks" / name).write_text(HEADER + lock.read_text())


if __name__ == "__main__":
    main()
