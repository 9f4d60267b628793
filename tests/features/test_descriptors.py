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
from mappable.features.descriptors import check_descriptors, read_descriptors
from mappable.features.export import write_descriptors, write_hloc
from mappable.places.frames import Frame
from mappable.places.table import Places

ABOUT = About(weights="random", size=(64, 48), fit="crop", mean=(0, 0, 0), std=(1, 1, 1))
Vectors = NDArray[np.float32]


@pytest.fixture
def places() -> Places:
    paths = ["day/0.jpg", "day/1.jpg", "night/0.jpg"]
    return Places(path=paths, x=[0, 1, 2], y=[0, 0, 0], frames=Frame("map"), place_id=["a", "b", "c"])


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


def test_a_folder_of_ours_brings_places_and_encoder_with_it(folder: Path, places: Places, vectors: Vectors) -> None:
    found = read_descriptors(folder)
    assert found.places == places
    assert (found.encoder, found.about, found.notes) == ("0123456789abcdef", ABOUT, ())
    np.testing.assert_array_equal(found.descriptors, vectors)
    few = read_descriptors(folder, places[[2, 0]])
    assert few.places == places[[2, 0]]
    np.testing.assert_array_equal(few.descriptors, vectors[[2, 0]])


def test_rows_of_an_array_are_those_of_the_places(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    for kind in ("<f4", "<f8", "<f2", ">f4"):
        found = read_descriptors(saved(tmp_path / "d.npy", vectors.astype(kind)), places)
        assert (found.encoder, found.about, found.notes) == (None, None, ())
        assert found.descriptors.dtype == np.float32
        np.testing.assert_allclose(found.descriptors, vectors, atol=1e-3 if kind == "<f2" else 1e-7)


def test_a_flipped_bit_in_a_file_for_hloc_is_found(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    file = tmp_path / "d.h5"
    write_hloc(file, places, vectors)
    whole = bytearray(file.read_bytes())
    whole[whole.index(vectors[1].tobytes()) + 2] ^= 1
    file.write_bytes(whole)
    with pytest.raises(BadInputError, match=r"d\.h5"):
        read_descriptors(file, places)


def test_hloc_files_are_looked_up_by_path(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    write_hloc(tmp_path / "d.h5", places, vectors)
    found = read_descriptors(tmp_path / "d.h5", places[[1, 2]])
    np.testing.assert_array_equal(found.descriptors, vectors[[1, 2]])
    with h5py.File(tmp_path / "half.h5", "w") as opened:  # as hloc writes it: half precision, more than was asked for
        for path, vector in zip([*places.path, "other.jpg"], [*vectors, vectors[0]], strict=True):
            opened.create_group(path).create_dataset("global_descriptor", data=vector.astype(np.float16))
    found = read_descriptors(tmp_path / "half.h5", places)
    assert found.descriptors.dtype == np.float32
    np.testing.assert_allclose(found.descriptors, vectors, atol=1e-3)


def test_other_lengths_are_brought_to_one_and_noted(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    scaled = vectors * np.array([[1.0], [30.0], [0.5]], dtype=np.float32)
    found = read_descriptors(saved(tmp_path / "d.npy", scaled), places)
    np.testing.assert_allclose(found.descriptors, vectors, rtol=1e-6)
    np.testing.assert_array_equal(found.descriptors[0], vectors[0])
    assert [str(note) for note in found.notes] == ["2 descriptors did not have length one and were scaled to it"]
    assert found.notes[0].items == ("b", "c")


@pytest.mark.parametrize(
    ("value", "problem"), [(0.0, "is zero"), (np.nan, "has NaN or infinite numbers"), (1e300, "infinite")]
)
def test_a_descriptor_without_direction_is_named(
    places: Places, vectors: Vectors, tmp_path: Path, value: float, problem: str
) -> None:
    spoilt = vectors.astype(np.float64)
    spoilt[1] = value
    with pytest.raises(BadInputError, match=rf"d\.npy.*place 1.*'b'.*{problem}"):
        read_descriptors(saved(tmp_path / "d.npy", spoilt), places)


def test_what_is_no_file_of_descriptors_is_said_to_be_none(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    file = saved(tmp_path / "d.npy", vectors)
    refusals: list[tuple[Path, Places | None, str]] = [
        (tmp_path / "none.npy", places, "no such file"),
        (tmp_path, places, r"no descriptors here \(descriptors\.json is missing\)"),
        (file, None, "does not record the places of its descriptors"),
        (file, places[[]], "table of places is empty"),
        (file, places[:2], "3 descriptors.*2 places"),
        (saved(tmp_path / "whole.npy", np.zeros((3, 5), np.int32)), places, r"int32 of shape \(3, 5\)"),
        (saved(tmp_path / "flat.npy", vectors[0]), places, r"float32 of shape \(5,\)"),
    ]
    for name in ("text.csv", "cut.npy", "cut.h5"):
        (tmp_path / name).write_bytes(file.read_bytes()[:140] if name == "cut.npy" else b"1,2,3")
    refusals += [
        (tmp_path / "text.csv", places, r"\.npy.*\.h5.*\(hloc\).*folder"),
        (tmp_path / "cut.npy", places, "damaged, or not a .npy file of numbers .*truncated"),
        (tmp_path / "cut.h5", places, "truncated, damaged or not an HDF5 file"),
    ]
    for source, table, problem in refusals:
        with pytest.raises(BadInputError, match=rf"^{source}: .*{problem}"):
            read_descriptors(source, table)


def test_an_hloc_file_that_lacks_something_names_it(places: Places, vectors: Vectors, tmp_path: Path) -> None:
    def refused(problem: str) -> None:
        with pytest.raises(BadInputError, match=problem):
            read_descriptors(tmp_path / "d.h5", places)

    write_hloc(tmp_path / "d.h5", places[:2], vectors[:2])
    refused(r"d\.h5: no descriptor of 'night/0\.jpg'")
    with h5py.File(tmp_path / "d.h5", "a") as opened:
        opened.create_group("night/0.jpg").create_dataset("keypoints", data=np.zeros(4))
    refused(r"d\.h5: no descriptor of 'night/0\.jpg'")
    with h5py.File(tmp_path / "d.h5", "a") as opened:
        opened["night/0.jpg"].create_dataset("global_descriptor", data=np.ones(4, np.float32))
    refused(r"the descriptor of 'night/0\.jpg' has shape \(4,\), expected \(5,\) like 'day/0\.jpg'")
    with h5py.File(tmp_path / "d.h5", "a") as opened:
        del opened["night/0.jpg/global_descriptor"]
        opened["night/0.jpg"].create_dataset("global_descriptor", data=np.ones((1, 5), np.float32))
    refused(r"the descriptor of 'night/0\.jpg' is float32 of shape \(1, 5\), expected a vector")


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


def test_descriptors_of_a_map_must_have_length_one(places: Places, vectors: Vectors) -> None:
    check_descriptors(vectors, places)
    check_descriptors(vectors.astype(np.float16), places)
    for factor, problem in ((2.0, "has length 2, not 1"), (0.0, "has length 0"), (np.nan, "NaN")):
        spoilt = vectors * np.array([[1.0], [factor], [1.0]], dtype=np.float32)
        with pytest.raises(BadInputError, match=rf"place 1.*'b'.*{problem}"):
            check_descriptors(spoilt, places)
    for shape in ((2, 5), (3,), (3, 0)):
        with pytest.raises(BadInputError, match="3 places"):
            check_descriptors(np.ones(shape, np.float32), places)


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
    places: Places, vectors: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: bool
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
    assert {file.name for file in tmp_path.iterdir()} == {"descriptors.npy", "places.parquet", "descriptors.json"}


def test_an_hloc_file_that_refers_to_other_files_or_is_too_large_is_refused(places: Places, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(np.ones(4, np.float32).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["numbers"] = np.ones(4, np.float32)
    name, path = "global_descriptor", str(places.path[0])
    virtual = h5py.VirtualLayout((4,), "f4")
    virtual[:] = h5py.VirtualSource(tmp_path / "other.h5", "numbers", (4,))
    link = h5py.ExternalLink(tmp_path / "other.h5", "numbers")
    for write, problem in (
        (lambda g: g.create_dataset(name, (4,), "f4", external=[(tmp_path / "secret", 0, 16)]), "in another file"),
        (lambda g: g.create_virtual_dataset(name, virtual), "in another file"),
        (lambda g: g.__setitem__(name, link), "in another file"),
        (lambda g: g.create_dataset(name, (10**12,), "f4", chunks=(9,)), "expected a vector of up to"),
    ):
        with h5py.File(tmp_path / "d.h5", "w") as opened:
            write(opened.create_group(path))
        with pytest.raises(BadInputError, match=problem):
            read_descriptors(tmp_path / "d.h5", places)
