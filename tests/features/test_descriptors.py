"""Descriptors made elsewhere: each goes to its place, at length one, or a sentence says why not."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from mappable.checksums import UNSEALED, seal
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import read_descriptors
from mappable.features.export import write_descriptors, write_hloc
from mappable.places.frames import Frame
from mappable.places.table import Places

ABOUT = About(weights="random", size=(64, 48), fit="crop", mean=(0, 0, 0), std=(1, 1, 1))
Vectors = NDArray[np.float32]


@pytest.fixture
def places() -> Places:
    paths = ["day/0.jpg", "day/1.jpg", "night/0.jpg"]
    return Places(
        path=paths, x=[0, 1, 2], y=[0, 0, 0], frames=Frame("map"), place_id=["a", "b", "c"]
    )


@pytest.fixture
def vectors() -> Vectors:
    drawn = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture
def folder(places: Places, vectors: Vectors, tmp_path: Path) -> Path:
    write_descriptors(tmp_path / "embedded", places, vectors, ABOUT, "0123456789abcdef", "float32")
    return tmp_path / "embedded"


def saved(file: Path, array: Any) -> Path:
    np.save(file, array)
    return file


def test_a_folder_of_ours_brings_places_and_encoder_with_it(
    folder: Path, places: Places, vectors: Vectors
) -> None:
    found = read_descriptors(folder)
    assert found.places == places
    assert (found.encoder, found.about, found.notes) == ("0123456789abcdef", ABOUT, ())
    np.testing.assert_array_equal(found.descriptors, vectors)
    few = read_descriptors(folder, places[[2, 0]])
    assert few.places == places[[2, 0]]
    np.testing.assert_array_equal(few.descriptors, vectors[[2, 0]])


def test_hloc_files_are_looked_up_by_path(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    write_hloc(tmp_path / "d.h5", places, vectors)
    found = read_descriptors(tmp_path / "d.h5", places[[1, 2]])
    np.testing.assert_array_equal(found.descriptors, vectors[[1, 2]])
    # As hloc writes it: half precision, more than was asked for.
    with h5py.File(tmp_path / "half.h5", "w") as opened:
        for path, vector in zip([*places.path, "other.jpg"], [*vectors, vectors[0]], strict=True):
            opened.create_group(path).create_dataset(
                "global_descriptor", data=vector.astype(np.float16)
            )
    found = read_descriptors(tmp_path / "half.h5", places)
    assert found.descriptors.dtype == np.float32
    np.testing.assert_allclose(found.descriptors, vectors, atol=1e-3)


def test_other_lengths_are_brought_to_one_and_noted(
    places: Places, vectors: Vectors, tmp_path: Path
) -> None:
    scaled = vectors * np.array([[1.0], [30.0], [0.5]], dtype=np.float32)
    found = read_descriptors(saved(tmp_path / "d.npy", scaled), places)
    np.testing.assert_allclose(found.descriptors, vectors, rtol=1e-6)
    np.testing.assert_array_equal(found.descriptors[0], vectors[0])
    assert [str(note) for note in found.notes] == [
        "2 descriptors did not have length one and were scaled to it"
    ]
    assert found.notes[0].items == ("b", "c")


def test_a_folder_that_lacks_something_names_it(folder: Path, places: Places) -> None:
    strange = places.replace(place_id=["a", "b", "d"])
    with pytest.raises(BadInputError, match=r"embedded.*'d'"):
        read_descriptors(folder, strange)
    shutil.copy(folder / "descriptors.npy", folder / "kept.npy")
    (folder / "descriptors.npy").unlink()
    with pytest.raises(BadInputError, match=r"descriptors\.npy is missing"):
        read_descriptors(folder)
    (folder / "kept.npy").rename(folder / "descriptors.npy")
    facts = json.loads((folder / "descriptors.json").read_text())
    spoilt: list[tuple[str, str]] = [
        (json.dumps(facts | {"about": {}}), r"descriptors\.json: damaged.*checksum"),
        (
            seal(json.dumps(facts | {"about": {}, "checksum": UNSEALED}).encode()).decode(),
            r"\.json: damaged.*'backbone'",
        ),
        ("{", r"descriptors\.json: damaged"),
    ]
    for text, problem in spoilt:
        (folder / "descriptors.json").write_text(text)
        with pytest.raises(BadInputError, match=problem):
            read_descriptors(folder)


@pytest.mark.parametrize("name", ["descriptors.npy", "descriptors.json", "places.parquet"])
def test_a_flipped_bit_in_any_file_of_the_folder_is_found(name: str, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    for position in np.linspace(0, len(whole) - 1, 10).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 2
        (folder / name).write_bytes(damaged)
        with pytest.raises(BadInputError, match=rf"{name}.*mappable embed"):
            read_descriptors(folder)


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("descriptors-next.npy", True),
        ("places-next.parquet", True),
        ("descriptors.json", True),
        ("descriptors.npy", False),
        ("places.parquet", False),
    ],
)
def test_killed_writing_leaves_the_old_or_the_new_descriptors(
    places: Places,
    vectors: Vectors,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    old: bool,
) -> None:
    class Killed(BaseException):
        pass

    replaced = Path.replace

    def stop(self: Path, target: Path) -> Path:
        if Path(target).name == name:
            raise Killed
        return replaced(self, target)

    write_descriptors(tmp_path, places, vectors, ABOUT, "old", "float32")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        with pytest.raises(Killed):
            write_descriptors(tmp_path, places[[2, 0]], vectors[[2, 0]], ABOUT, "new", "float32")
    found = read_descriptors(tmp_path)
    assert (found.encoder, len(found.places)) == (("old", len(places)) if old else ("new", 2))
    write_descriptors(tmp_path, places[[2, 0]], vectors[[2, 0]], ABOUT, "new", "float32")
    assert {file.name for file in tmp_path.iterdir()} == {
        "descriptors.npy",
        "places.parquet",
        "descriptors.json",
    }


def test_an_hloc_file_that_refers_to_other_files_or_is_too_large_is_refused(
    places: Places, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(np.ones(4, np.float32).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["numbers"] = np.ones(4, np.float32)
    name, path = "global_descriptor", str(places.path[0])
    virtual = h5py.VirtualLayout((4,), "f4")
    virtual[:] = h5py.VirtualSource(tmp_path / "other.h5", "numbers", (4,))
    link = h5py.ExternalLink(tmp_path / "other.h5", "numbers")
    for write, problem in (
        (
            lambda g: g.create_dataset(name, (4,), "f4", external=[(tmp_path / "secret", 0, 16)]),
            "in another file",
        ),
        (lambda g: g.create_virtual_dataset(name, virtual), "in another file"),
        (lambda g: g.__setitem__(name, link), "in another file"),
        (
            lambda g: g.create_dataset(name, (10**12,), "f4", chunks=(9,)),
            "expected a vector of up to",
        ),
    ):
        with h5py.File(tmp_path / "d.h5", "w") as opened:
            write(opened.create_group(path))
        with pytest.raises(BadInputError, match=problem):
            read_descriptors(tmp_path / "d.h5", places)
