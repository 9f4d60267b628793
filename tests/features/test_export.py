"""Descriptors on disk, for NumPy and for hloc; what was there before outlives whatever fails."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import read_descriptors
from mappable.features.export import write_descriptors, write_hloc
from mappable.places.files import load_places
from mappable.places.frames import Frame
from mappable.places.table import Places

ABOUT = About(
    weights="random", size=(64, 48), fit="crop", mean=(0, 0, 0), std=(1, 1, 1), positive_radius=10.0
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    paths = ["day/0.jpg", "day/1.jpg", "night/0.jpg"]
    return Places(
        path=paths, x=[0, 1, 2], y=[0, 0, 0], frames=Frame("map"), root=tmp_path / "images"
    )


@pytest.fixture
def descriptors() -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_rows_of_the_array_are_those_of_the_table(
    places: Places, descriptors: NDArray[np.float32], tmp_path: Path
) -> None:
    out = tmp_path / "deep/out"
    write_descriptors(out, places, descriptors, ABOUT, "0123456789abcdef", "float32")
    written = np.load(out / "descriptors.npy")
    assert written.dtype == np.float32
    np.testing.assert_array_equal(written, descriptors)
    table = load_places(out)
    assert table == places
    assert table.root == places.root
    record = json.loads((out / "descriptors.json").read_text())
    assert (record["encoder"], record["descriptors"], record["dimensions"]) == (
        "0123456789abcdef",
        3,
        5,
    )
    assert record["about"]["positive_radius"] == 10.0
    assert About.from_json(record["about"]) == ABOUT
    assert set(contents(out)) == {"descriptors.npy", "places.parquet", "descriptors.json"}


@pytest.mark.parametrize("failing", range(1, 7))
def test_a_run_that_fails_leaves_what_the_first_wrote(
    places: Places,
    descriptors: NDArray[np.float32],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
) -> None:
    out = tmp_path / "out"
    write_descriptors(out, places, descriptors, ABOUT, "first", "float32")
    before, count = contents(out), 0

    def fail(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(BadInputError, match="written"):
        write_descriptors(out, places[:2], descriptors[:2], ABOUT, "second", "float32")
    if failing <= 4:
        assert contents(out) == before
    # The record replaced, then failed.
    assert read_descriptors(out).encoder == ("first" if failing <= 5 else "second")


def names_as_hloc_finds_them(file: Path) -> list[str]:
    """hloc's own way: the group of each data set, by its path."""
    names = set()
    with h5py.File(file, "r") as opened:
        opened.visititems(
            lambda _, found: (
                names.add(found.parent.name.strip("/")) if hasattr(found, "dtype") else None
            )
        )
    return sorted(names)


def test_hloc_finds_each_image_by_its_path(
    places: Places, descriptors: NDArray[np.float32], tmp_path: Path
) -> None:
    file = tmp_path / "deep/global.h5"
    write_hloc(file, places, descriptors)
    assert names_as_hloc_finds_them(file) == ["day/0.jpg", "day/1.jpg", "night/0.jpg"]
    with h5py.File(file, "r") as opened:
        for path, descriptor in zip(places.path, descriptors, strict=True):
            found = opened[path]["global_descriptor"]
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found[()], descriptor)
    assert set(contents(file.parent)) == {"global.h5"}


@pytest.mark.parametrize("room", [0, 3_000, 30_000])
def test_an_hloc_file_outlives_a_full_disk(
    places: Places,
    full_disk: Callable[[int], AbstractContextManager[None]],
    room: int,
    tmp_path: Path,
) -> None:
    file, descriptors = tmp_path / "global.h5", np.eye(3, 4096, dtype=np.float32)
    write_hloc(file, places, descriptors)
    before = contents(tmp_path)
    with full_disk(room), pytest.raises(BadInputError, match=r"global\.h5: cannot be written"):
        write_hloc(file, places, -descriptors)
    assert contents(tmp_path) == before
