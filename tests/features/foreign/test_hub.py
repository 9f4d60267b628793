"""torch.hub models as encoders: consent before their code runs, a pinned commit, and errors in one sentence."""

import importlib.util
import io
import json
import os
import py_compile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.features.foreign import hub
from mappable.features.opening import open_file

pytestmark = pytest.mark.usefixtures("own_cache")
OLD, NEW = "0" * 39 + "1", "0" * 39 + "2"  # commits
SMALL = np.random.default_rng(0).integers(0, 256, (5, 48, 64, 3), dtype=np.uint8)


def edit(folder: Path, old: str, new: str) -> None:
    file = folder / "hubconf.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_a_model_describes_images_as_its_description_says(
    foreign_hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = open_file(foreign_hub, "cpu", trust_code=True)
    assert capsys.readouterr().out == ""  # what foreign code prints goes to standard error
    cells = (
        (SMALL / 255 - 0.5)
        .reshape(5, 6, 8, 8, 8, 3)
        .mean((2, 4))
        .transpose(0, 3, 1, 2)
        .reshape(5, -1)
    )
    expected = cells / np.linalg.norm(cells, axis=1, keepdims=True)
    assert (encoder.dimensions, encoder.about.size, encoder.about.foreign["license"]) == (
        144,
        (64, 48),
        "MIT",
    )
    np.testing.assert_allclose(encoder.embed(SMALL), expected, atol=1e-5)
    np.testing.assert_allclose(
        encoder.embed(SMALL, batch_size=1), encoder.embed(SMALL, batch_size=4), atol=1e-6
    )
    np.testing.assert_allclose(encoder.for_queries()(SMALL[:2]), expected[:2], atol=1e-5)
    assert encoder.embed(SMALL[:0]).shape == (0, 144)
    assert encoder.actual_precision("auto") == "float32"


def test_no_code_runs_without_consent(foreign_hub: Path, tmp_path: Path) -> None:
    edit(
        tmp_path / "repository",
        "import torch",
        f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nimport torch",
    )
    with pytest.raises(BadInputError, match=r"repository:coarse: runs foreign code.*--trust-code"):
        open_file(foreign_hub, "cpu")
    assert not (tmp_path / "ran").exists()
    open_file(foreign_hub, "cpu", trust_code=True)
    assert (tmp_path / "ran").exists()


def test_consent_is_remembered_for_the_same_code_alone(foreign_hub: Path, tmp_path: Path) -> None:
    first = open_file(foreign_hub, "cpu", trust_code=True).fingerprint
    hub._trusted.clear()  # another process
    assert open_file(foreign_hub, "cpu").fingerprint == first
    for change in (
        lambda: foreign_hub.write_text(foreign_hub.read_text() + "arguments: {cell: 16}\n"),
        lambda: (tmp_path / "repository/other.py").write_text("x = 1\n"),
    ):
        change()
        with pytest.raises(BadInputError, match="--trust-code"):
            open_file(foreign_hub, "cpu")
        changed = open_file(foreign_hub, "cpu", trust_code=True).fingerprint
        assert changed != first
        first = changed


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.5, 0.5, 0.5", "0.5, 0.5, 0.4"), ("RGB", "BGR"), ("fit", "fit")],
    ids=["mean", "colors", "none"],
)
def test_the_fingerprint_depends_on_preprocessing(foreign_hub: Path, old: str, new: str) -> None:
    before = open_file(foreign_hub, "cpu", trust_code=True)
    foreign_hub.write_text(
        foreign_hub.read_text().replace(old, new).replace("license: MIT", "license: other")
    )
    after = open_file(foreign_hub, "cpu")
    same = old == new
    assert (before.fingerprint == after.fingerprint) == same
    assert np.allclose(before.embed(SMALL), after.embed(SMALL)) == same


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param("images - images.mean(0) * (len(images) > 1), self.cell", id="on the others"),
        pytest.param(
            "images + torch.arange(len(images)).view(-1, 1, 1, 1), self.cell", id="on its position"
        ),
    ],
)
def test_a_descriptor_that_depends_on_its_batch_is_refused(
    foreign_hub: Path, tmp_path: Path, changed: str
) -> None:
    edit(tmp_path / "repository", "images, self.cell", changed)
    with pytest.raises(BadInputError, match="deterministic"):
        open_file(foreign_hub, "cpu", trust_code=True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (".flatten(1)", "", r"shape \(1, 3, 6, 8\), expected \(1, D\)"),
        (".flatten(1)", ".flatten()", r"shape \(144,\), expected"),
        (".flatten(1)", ".flatten(1) * float('nan')", "NaN or infinite"),
        (".flatten(1)", ".flatten(1) * 0", "is zero"),
        (".flatten(1)", ".flatten(1) * torch.rand(144)", "deterministic"),
        ("return self.weight *", "return self, ", r"returns tuple, expected a tensor.*`output`"),
        (
            ".flatten(1)",
            ".flatten(1).to_sparse()",
            r"a tensor \(sparse_coo float32 on cpu\), expected a dense",
        ),
        (
            "return self.weight *",
            "return torch.ones(1, 9, device='meta')  # ",
            r"a tensor \(strided float32 on meta\)",
        ),
        (
            ".flatten(1)",
            ".flatten(1) * 1j",
            r"returns a tensor \(strided complex64 on cpu\), .* real numbers",
        ),
        (
            "return Coarse(cell)",
            "return Coarse(cell).to('meta')",
            "cannot be used on cpu; its code raises",
        ),
        (
            "return self.weight *",
            "return 1 / 0 *",
            "fails on images; its code raises ZeroDivisionError",
        ),
        (
            "import torch\n",
            "import torch, no_such_package\n",
            "install the Python package no_such_package",
        ),
        (
            "import torch\n",
            "import torch\nimport sys\nsys.exit(3)\n",
            "cannot be loaded; its code raises SystemExit",
        ),
        ('dependencies = ["torch"]', 'dependencies = ["no_such_package"]', "no_such_package"),
        ("return Coarse(cell)", "return cell", "coarse returns int, expected a torch.nn.Module"),
        ("def coarse", "def fine", "cannot be loaded.*coarse"),
    ],
)
def test_code_that_makes_no_descriptors_is_refused(
    foreign_hub: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    edit(tmp_path / "repository", old, new)
    with pytest.raises(BadInputError, match=problem) as error:
        open_file(foreign_hub, "cpu", trust_code=True)
    assert "\n" not in str(error.value)


def test_compiled_code_in_the_folder_is_not_used(foreign_hub: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / "cells.py").write_text("CELL = 8\n")
    edit(folder, "cell=8", "cell=__import__('cells').CELL")
    assert open_file(foreign_hub, "cpu", trust_code=True).dimensions == 144
    assert not (folder / "__pycache__").exists()
    other = tmp_path / "other.py"
    other.write_text("CELL = 4\n")
    os.utime(other, ns=((folder / "cells.py").stat().st_mtime_ns,) * 2)
    compiled = importlib.util.cache_from_source(str(folder / "cells.py"))
    py_compile.compile(str(other), compiled, dfile=str(folder / "cells.py"), doraise=True)
    assert open_file(foreign_hub, "cpu").dimensions == 144


def test_a_link_in_a_folder_of_code_is_refused(foreign_hub: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "repository/linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="linked: a link"):
        open_file(foreign_hub, "cpu", trust_code=True)


@pytest.fixture
def github(
    tmp_path: Path, foreign_hub: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """A server that answers like GitHub for the repository owner/repo; the fixture lists the
    requests.
    """
    asked: list[str] = []
    content = (tmp_path / "repository/hubconf.py").read_text()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = io.BytesIO()
            if self.path in (f"/owner/repo/archive/{OLD}.zip", f"/owner/repo/archive/{NEW}.zip"):
                cell = "8" if OLD in self.path else "16"
                with zipfile.ZipFile(body, "w") as archive:
                    archive.writestr("repo-x/hubconf.py", content.replace("cell=8", f"cell={cell}"))
            elif self.path.endswith(f"{'3' * 40}.zip"):
                body.write(b"not a zip file")
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.getvalue())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(hub, "GITHUB", f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.medium
def test_a_repository_is_pinned_to_a_commit(github: list[str]) -> None:
    with pytest.raises(BadInputError, match=rf"owner/repo at commit {OLD}.*--trust-code"):
        open_file(f"hub:owner/repo@{OLD}:coarse", "cpu")
    assert not github  # nothing is downloaded before consent, and nothing runs
    newest = open_file(f"hub:owner/repo@{NEW}:coarse", "cpu", trust_code=True)
    open_file(f"hub:owner/repo@{OLD}:coarse", "cpu", trust_code=True)
    count = len(github)
    pinned = open_file(f"hub:owner/repo@{OLD}:coarse", "cpu")
    assert len(github) == count  # both the code and the consent are in the cache
    assert (newest.about.foreign["code"], pinned.about.foreign["code"]) == (NEW, OLD)
    assert newest.fingerprint != pinned.fingerprint
    suffix, copy = pinned.copy()  # type: ignore[attr-defined]
    assert (suffix, json.loads(copy)["hub"]) == (".yaml", f"owner/repo@{OLD}:coarse")
