"""Approximate search: nearly all that exact search finds, exact distances, and a recall that can be believed."""

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mappable.arrays import Floats32
from mappable.errors import BadInputError
from mappable.maps import approximate
from mappable.maps.approximate import KEY, Approximate
from mappable.maps.exact import Exact

LANDMARKS, DIMENSIONS = 3000, 64


def describe(where: Floats32, seed: int) -> Floats32:
    """Descriptors of length one that follow positions (n, 2), with noise of their own."""
    of_world, of_noise = np.random.default_rng(7), np.random.default_rng(seed)
    waves, shifts = (
        of_world.normal(size=(2, DIMENSIONS)),
        of_world.uniform(0, 2 * np.pi, DIMENSIONS),
    )
    vectors = np.cos(where @ waves + shifts) + 0.2 * of_noise.normal(size=(len(where), DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def positions(count: int, seed: int) -> Floats32:
    return np.random.default_rng(seed).uniform(0, 10, (count, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def exact() -> Exact:
    return Exact(describe(positions(LANDMARKS, 0), 1))


@pytest.fixture(scope="module")
def queries() -> Floats32:
    return describe(positions(200, 2), 3)


@pytest.fixture(scope="module")
def built(exact: Exact) -> Approximate:
    return Approximate.build(exact)


def share_found(exact: Exact, store: Approximate, queries: Floats32, count: int) -> float:
    true, found = exact.nearest(queries, count)[0], store.nearest(queries, count)[0]
    return float((true[:, :, None] == found[:, None]).any(axis=2).mean())


def test_it_finds_nearly_all_and_says_how_many(
    exact: Exact, built: Approximate, queries: Floats32
) -> None:
    assert set(built.recall) == {"recall@1", "recall@10"}
    assert min(built.recall.values()) > 0.97
    for count in (1, 10):
        assert share_found(exact, built, queries, count) == pytest.approx(
            built.recall[f"recall@{count}"], abs=0.03
        )


def test_distances_are_those_of_the_full_descriptors(
    exact: Exact, built: Approximate, queries: Floats32
) -> None:
    rows, squared = built.nearest(queries, 5)
    differences = exact.take(rows.ravel()).reshape(*rows.shape, -1).astype(float) - queries[:, None]
    np.testing.assert_allclose(squared, np.square(differences).sum(axis=2), rtol=1e-5)
    assert (np.diff(squared, axis=1) >= 0).all()
    assert built.nearest(queries[:0], 5)[0].shape == (0, 5)
    assert (len(built), built.dimensions) == (LANDMARKS, DIMENSIONS)
    np.testing.assert_array_equal(built.take(rows[0]), exact.take(rows[0]))


def test_where_the_index_finds_too_few_search_is_exact(
    exact: Exact, built: Approximate, queries: Floats32, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximate, "PROBED", 1)
    np.testing.assert_array_equal(
        built.nearest(queries, LANDMARKS)[0], exact.nearest(queries, LANDMARKS)[0]
    )


def test_a_saved_index_answers_as_before(
    exact: Exact, built: Approximate, queries: Floats32, tmp_path: Path
) -> None:
    built.save(tmp_path / "index.safetensors")
    loaded = Approximate.load(tmp_path / "index.safetensors", exact)
    assert loaded.recall == built.recall
    np.testing.assert_array_equal(loaded.nearest(queries, 3), built.nearest(queries, 3))


def test_what_no_index_is_made_of_is_refused(
    exact: Exact, built: Approximate, queries: Floats32
) -> None:
    with pytest.raises(BadInputError, match=r"1,000 landmarks.*999"):
        Approximate.build(Exact(exact.take(np.arange(999))))
    with pytest.raises(BadInputError, match="0 nearest of 3000"):
        built.nearest(queries, 0)


def test_files_that_are_no_such_index_are_refused(
    exact: Exact, built: Approximate, queries: Floats32, tmp_path: Path
) -> None:
    file, about = (
        tmp_path / "index.safetensors",
        {"format": "mappable index", "version": 1, "landmarks": LANDMARKS},
    )
    built.save(file)
    with pytest.raises(BadInputError, match=r"3000.*64.*2999.*64"):
        Approximate.load(file, Exact(exact.take(np.arange(1, len(exact)))))
    tensors, content = load_file(file), file.read_bytes()
    for kept in (0, 4, 100, len(content) - 1):
        file.write_bytes(content[:kept])
        with pytest.raises(BadInputError, match=r"index\.safetensors.*damaged"):
            Approximate.load(file, exact)
    damaged = tensors | {"index": np.zeros_like(tensors["index"])}
    save_file(damaged, file, {KEY: json.dumps(about | {"dimensions": DIMENSIONS, "recall": {}})})
    with pytest.raises(BadInputError, match="damaged"):
        Approximate.load(file, exact).nearest(queries, 1)
    for change, problem in (
        (_with_other_rows, f"landmark .*{LANDMARKS} landmarks"),
        (_of_another_kind, "damaged"),
    ):
        changed = tensors | {"index": change(tensors["index"])}
        save_file(
            changed, file, {KEY: json.dumps(about | {"dimensions": DIMENSIONS, "recall": {}})}
        )
        with pytest.raises(BadInputError, match=problem):
            Approximate.load(file, exact).nearest(queries, 1)


def _with_other_rows(index: Any) -> Any:
    """The same index of FAISS, whose rows are not those of the map."""
    read = faiss.deserialize_index(index)
    read.make_direct_map()
    vectors = read.reconstruct_n(0, read.ntotal)
    read.set_direct_map_type(faiss.DirectMap.NoMap)
    read.reset()
    read.add_with_ids(vectors, np.arange(len(vectors)) + 10 * LANDMARKS)
    return faiss.serialize_index(read)


def _of_another_kind(index: Any) -> Any:
    flat = faiss.IndexFlatL2(faiss.deserialize_index(index).d)
    return faiss.serialize_index(flat)
