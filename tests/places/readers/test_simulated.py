"""The reader of what `mappable simulate` wrote."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.places import convert, find_pack, load_places
from mappable.places.readers import read_places
from mappable_worlds.simulation import write_simulated

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "rooms"
    write_simulated("rooms-v1", out, parts=["wing", "leaving"], size=(32, 24), every=100, pixels=False)
    return out


@pytest.fixture
def broken(folder: Path, tmp_path: Path) -> Path:
    """A copy without images, to be damaged."""
    for name in ("world.json", "places.parquet"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    return tmp_path


def test_a_simulated_world_is_read_as_it_was_written(folder: Path) -> None:
    assert read_places("simulated", folder) == load_places(folder)


def test_parts_are_chosen(folder: Path) -> None:
    places = read_places("simulated", folder, parts=" leaving")
    assert set(places.sequence) == {"leaving-query-cloudy", "leaving-query-night"}
    with pytest.raises(BadInputError, match=r"part.*'main'"):
        read_places("simulated", folder, parts="wing,main")


def test_it_is_converted_like_any_collection(folder: Path, tmp_path: Path) -> None:
    places = convert("simulated", folder, tmp_path / "out", size=(16, 12), options={"parts": "wing"})
    assert find_pack(tmp_path / "out").load(places).shape == (len(places), 12, 16, 3)


def test_missing_and_damaged_files_are_named(broken: Path, rewrite: Callable[..., None]) -> None:
    record = json.loads((broken / "world.json").read_text())
    table = (broken / "places.parquet").read_bytes()
    (broken / "places.parquet").write_bytes(table[:-100])
    with pytest.raises(BadInputError, match=r"places.parquet: "):
        read_places("simulated", broken)
    (broken / "places.parquet").unlink()
    with pytest.raises(BadInputError, match=r"places.parquet.*table"):
        read_places("simulated", broken)
    (broken / "places.parquet").write_bytes(table)
    for change, message in (
        ({"places": 3}, "places.parquet: .* places, expected 3 as in world.json"),
        ({"parts": 3}, "world.json: damaged"),
    ):
        rewrite(broken / "world.json", record | change)
        with pytest.raises(BadInputError, match=message):
            read_places("simulated", broken)
    del record["image_hash"]
    rewrite(broken / "world.json", record)
    with pytest.raises(BadInputError, match=r"world.json.*did not finish"):
        read_places("simulated", broken)
    (broken / "world.json").unlink()
    with pytest.raises(BadInputError, match=r"world\.json"):
        read_places("simulated", broken)
