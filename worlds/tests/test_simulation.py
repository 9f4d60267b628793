"""Presets become images: the same ones each time, in memory and on disk, whatever happens in between."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.errors import BadInputError
from mappable.places import find_pack, load_places
from mappable_worlds import drives
from mappable_worlds.simulation import Simulated, simulate, write_simulated

pytestmark = pytest.mark.medium

SMALL = (32, 24)
NAME, FEW = "street-v1-3d", 30  # quickly drawn: five runs, and of each every 30th image


@pytest.fixture(scope="module")
def drawn() -> Simulated:
    return simulate(NAME, size=SMALL, every=FEW)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("written") / "demo"
    write_simulated(NAME, out, size=SMALL, every=FEW)
    return out


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "demo")
    return tmp_path / "demo"


def contents(out: Path) -> dict[str, bytes]:
    """What is in a folder; the pack knows its files by their full path, so it is compared by its
    pixels.
    """
    files = (file for file in out.rglob("*") if file.is_file() and "pixels" not in file.parts)
    return {file.relative_to(out).as_posix(): file.read_bytes() for file in files}


def test_a_preset_becomes_places_and_images(drawn: Simulated) -> None:
    places = drawn.places
    assert drawn.pixels.shape == (len(places), 24, 32, 3)
    assert list(places.sequences()) == [run.name for run in drawn.preset.runs]
    assert set(places.split) == {"train", "calibration", "test"}
    assert set(places.frame) == {NAME}
    assert places.unit == "m"
    assert np.isfinite(places.z).all()
    assert places.in_time_order() == places
    assert places.place_id[1] == "train-sun/00030"
    assert len({image.tobytes() for image in drawn.pixels}) == len(places)
    assert drawn.pixels.std() > 20


def test_the_same_preset_is_the_same_images_whatever_the_order_of_drawing(
    drawn: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drives, "CHUNK", 3)
    again = simulate(NAME, size=SMALL, every=FEW)
    assert again.places == drawn.places
    assert again.image_hash == drawn.image_hash


def test_a_folder_holds_the_same_as_memory(drawn: Simulated, written: Path) -> None:
    places = load_places(written)
    assert places == drawn.places
    assert np.array_equal(find_pack(written).load(places), drawn.pixels)
    with Image.open(places.files[3]) as image:
        assert np.array_equal(np.asarray(image), drawn.pixels[3])
    record = json.loads((written / "world.json").read_text())
    assert record["image_hash"] == record["image_hashes"]["main"] == drawn.image_hash
    assert record["parts"]["main"]["test-night"]["split"] == "test"
    assert (record["positive_radius"], record["negative_radius"], record["landmarks"]) == (
        10,
        25,
        100,
    )
    assert len(record["aliases"]) == len(drawn.world.aliases) > 0
    assert record["statistics"]["images"]["train"] == len(places.where(split="train"))
    with Image.open(written / "contact-sheet.jpg") as sheet:
        assert sheet.width > 8 * SMALL[0]
        assert sheet.height > 5 * SMALL[1]


def test_what_is_missing_or_damaged_is_drawn_again_and_nothing_else(
    written: Path, copy: Path
) -> None:
    files = sorted((copy / "images").rglob("*.png"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-40])
    data = bytearray(files[2].read_bytes())
    data[len(data) // 2] ^= 0xFF
    files[2].write_bytes(data)
    (copy / "places.parquet").unlink()
    before = files[3].stat().st_mtime_ns
    write_simulated(NAME, copy, size=SMALL, every=FEW)
    assert contents(copy) == contents(written)
    assert files[3].stat().st_mtime_ns == before


def test_killed_at_any_moment_it_goes_on_to_the_same_result(written: Path, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    code = f"from mappable_worlds.simulation import write_simulated as w; w({NAME!r}, {str(out)!r}"
    command = [sys.executable, "-c", f"{code}, size={SMALL}, every={FEW})"]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while len(list(out.glob("images/*/*.png"))) < 15 and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (out / "places.parquet").exists()
    write_simulated(NAME, out, size=SMALL, every=FEW)
    assert contents(out) == contents(written)


def test_a_folder_that_holds_another_world_is_refused_unless_it_may_be_overwritten(
    copy: Path,
) -> None:
    with pytest.raises(BadInputError) as caught:
        write_simulated(NAME, copy, size=(16, 12), every=FEW)
    assert str(caught.value).startswith(
        f"{copy}: the folder has {NAME} with a different size: choose another"
    )
    with pytest.raises(BadInputError, match=rf"{NAME}.*preset"):
        write_simulated("rooms-v1-3d", copy, size=SMALL, every=FEW)
    write_simulated(NAME, copy, size=(16, 12), every=100, overwrite=True, pixels=False)
    places = load_places(copy)
    assert len(list(copy.glob("images/*/*.png"))) == len(places)
    assert not (copy / "pixels").exists()
    (copy / "world.json").write_text("{")
    with pytest.raises(BadInputError, match=r"world.json.*damaged"):
        write_simulated(NAME, copy, size=SMALL, every=100, overwrite=True)
    assert len(list(copy.glob("images/*/*.png"))) == len(places)


@pytest.mark.parametrize("name", ["images/a.png", "places.parquet"])
def test_what_others_made_is_never_touched(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(BadInputError, match=r"world\.json"):
        write_simulated(NAME, tmp_path, every=FEW, overwrite=True)
    assert contents(tmp_path) == {name: b"mine"}


def test_mistakes_are_named() -> None:
    with pytest.raises(BadInputError, match=r"preset.*'moon'"):
        simulate("moon")
    with pytest.raises(BadInputError, match=rf"{NAME}.*part.*'wing'"):
        simulate(NAME, parts=["wing"])
    with pytest.raises(BadInputError, match=r"every.*got 0"):
        simulate(NAME, every=0)
    with pytest.raises(BadInputError, match=r"device.*'abacus'"):
        simulate(NAME, every=FEW, device="abacus")
    with pytest.raises(BadInputError, match="0x5"):
        simulate(NAME, every=FEW, size=(0, 5))
