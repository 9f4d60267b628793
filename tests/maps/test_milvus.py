"""Maps on Milvus: the same answers as exact search, from a file and from a real server that is killed."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import MappableError
from mappable.localization.map import Map
from mappable.maps import milvus
from mappable.maps.exact import Exact
from mappable.maps.landmarks import Landmarks
from mappable.maps.milvus import Milvus
from milvus_server import Server


@pytest.mark.cluster
def test_a_request_that_takes_too_long_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    grpc = pytest.importorskip("grpc")

    class TooLong(grpc.RpcError):
        def details(self) -> str:
            return "Deadline Exceeded"

    def ask() -> None:
        raise TooLong

    monkeypatch.setattr(milvus, "PATIENCE", -1.0)
    ids = np.array(["a"], dtype=np.dtypes.StringDType())
    with pytest.raises(MappableError, match=r"Milvus failed .Deadline Exceeded.; start the server"):
        Milvus("http://127.0.0.1:1", "any", ids, 2)._asked(ask)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("milvus")
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.kill()


@pytest.fixture(params=["file", "server"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of either kind."""
    pytest.importorskip("pymilvus")
    return (
        str(tmp_path / "landmarks.db")
        if request.param == "file"
        else request.getfixturevalue("server").uri
    )


@pytest.mark.cluster
def test_finds_what_exact_search_finds(uri: str, town: Any, tmp_path: Path) -> None:
    saved = town.landmarks.upload(uri).save(tmp_path / "map")
    assert not list((tmp_path / "map").glob("descriptors-*"))
    queries = town.drive[1][:50]
    for opened in (saved, Landmarks.open(tmp_path / "map")):
        for count in (1, 80):
            rows, squared = opened.store.nearest(queries, count)
            true, expected = town.landmarks.store.nearest(queries, count)
            np.testing.assert_array_equal(rows, true)
            np.testing.assert_allclose(squared, expected, rtol=1e-5)
        rows = np.array([3, 70, 3, 0])
        np.testing.assert_array_equal(opened.store.take(rows), town.landmarks.store.take(rows))
        found, known = (Map(one).locate_all(queries) for one in (opened, town.landmarks))
        assert [one.landmark for one in found] == [one.landmark for one in known]
        np.testing.assert_allclose(
            [one.coordinates for one in found], [one.coordinates for one in known], atol=1e-3
        )


@pytest.mark.cluster
def test_a_large_map_is_searched_approximately(
    uri: str, described: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "WORTHWHILE", 2500)
    places, vectors = described(3000)
    made = Landmarks.build(places, vectors, "encoder")
    made.upload(uri).save(tmp_path / "map")
    store = Landmarks.open(tmp_path / "map").store
    assert store.recall["recall@1"] > 0.95
    rows, squared = store.nearest(vectors[:100], 5)
    true, expected = made.store.nearest(vectors[:100], 5)
    assert (rows == true).mean() > 0.95
    np.testing.assert_allclose(squared[rows == true], expected[rows == true], rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(milvus, "PROBED", 1)
    assert (store.nearest(vectors[:100], 5)[0] != true).any()
    # One cell has too few.
    found = [one.nearest(vectors[:20], 2800)[1] for one in (store, made.store)]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.cluster
def test_an_incomplete_collection_is_refused(uri: str, town: Any, tmp_path: Path) -> None:
    saved = town.landmarks.upload(uri).save(tmp_path / "map")
    saved.store._client.delete(saved.store.collection, filter="row == 5")
    with pytest.raises(MappableError, match=r"79 landmarks, but the map has 80; .*map upload"):
        Landmarks.open(tmp_path / "map").store.take(np.array([5]))
    assert town.landmarks.upload(uri).store._count() == 80  # repairs it


@pytest.mark.cluster
def test_commands_use_the_map_as_before(uri: str, town: Any, tmp_path: Path) -> None:
    town.landmarks.save(tmp_path / "map")
    np.save(tmp_path / "drive.npy", town.drive[1][:20])
    locate = ["locate", str(tmp_path / "map"), "--descriptors", str(tmp_path / "drive.npy")]
    locate += ["--fingerprint", town.encoder, "--json"]
    before = CliRunner().invoke(app, locate)
    uploaded = CliRunner().invoke(app, ["map", "upload", str(tmp_path / "map"), uri])
    assert uploaded.exit_code == 0, uploaded.output
    assert f"Milvus: {uri}" in uploaded.output
    after = CliRunner().invoke(app, locate)
    assert after.exit_code == before.exit_code == 0, after.output
    places = [
        [line for line in one.stdout.splitlines() if '"landmark"' in line]
        for one in (before, after)
    ]
    assert places[0] == places[1]
    assert CliRunner().invoke(app, ["map", "verify", str(tmp_path / "map")]).exit_code == 0
    smaller = (
        Landmarks.open(tmp_path / "map")
        .remove([town.landmarks.places.place_id[0]])
        .save(tmp_path / "smaller")
    )
    assert len(list((tmp_path / "smaller").glob("descriptors-*"))) == 1
    np.testing.assert_array_equal(
        smaller.store.take(np.arange(79)), town.landmarks.store.take(np.arange(1, 80))
    )


LOAD = """
import sys
from mappable.maps import milvus
from mappable.maps.landmarks import Landmarks
milvus.MOST_ROWS, upsert = 500, milvus.Milvus._upsert
def shown(self, rows, descriptors):
    upsert(self, rows, descriptors)
    print(rows[-1], flush=True)
milvus.Milvus._upsert = shown
Landmarks.open(sys.argv[1]).upload(sys.argv[2]).save(sys.argv[1])
"""


@pytest.mark.cluster
def test_survives_kills_of_the_server(
    server: Server, described: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, vectors = described(20_000)
    made = Landmarks.build(places, vectors, "encoder")
    made.save(tmp_path / "map")
    command = [sys.executable, "-c", LOAD, str(tmp_path / "map"), server.uri]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as loading:
        while int(loading.stdout.readline()) < 8000:
            pass
        server.kill()
        server.start()
        _, problem = loading.communicate()
    # It gave up; the map in the folder is as before, and the same command continues.
    if loading.returncode:
        assert "Milvus failed" in problem, problem
        assert isinstance(Landmarks.open(tmp_path / "map").store, Exact)
        again = subprocess.run(command, capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
        assert len(again.stdout.split()) < 40
    opened = Landmarks.open(tmp_path / "map")
    assert opened.store._count() == 20_000
    opened.store.verify()
    queries = vectors[:30]
    first = opened.store.nearest(queries, 10)
    server.kill()
    with monkeypatch.context() as impatient:
        impatient.setattr(milvus, "PATIENCE", 0.0)
        impatient.setattr(milvus, "SECONDS", 2.0)
        with pytest.raises(MappableError, match="start the server"):
            opened.store.nearest(queries, 10)
    server.start()
    second = opened.store.nearest(queries, 10)  # the same object, without opening the map again
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[0], made.store.nearest(queries, 10)[0])
    Landmarks.verify(tmp_path / "map")
