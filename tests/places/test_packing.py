"""The packed cache: what it holds, what it decodes again, and what survives damage and kills."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from mappable.arrays import Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.places import packing
from mappable.places.cache import PackedImages, find_packed, pack_folder
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.images import load_image
from mappable.places.packing import pack_images
from mappable.places.table import Places

SIZE = (32, 24)
ROW = 32 * 24 * 3  # bytes of an image
COUNT = 40
Draw = Callable[..., Path]


@pytest.fixture
def places(tmp_path: Path, draw: Draw) -> Places:
    paths = [f"images/{number:03d}.jpg" for number in range(COUNT)]
    for path in paths:
        draw(tmp_path / "set" / path)
    return Places(
        path=paths,
        x=np.arange(COUNT),
        y=np.zeros(COUNT),
        frames=Frame("local"),
        root=tmp_path / "set",
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the images that were really decoded."""
    names: list[str] = []
    decode = packing.decode_image

    def counting(*arguments: object, name: str) -> Pixels:
        names.append(Path(name).name)
        return decode(*arguments, name=name)

    monkeypatch.setattr(packing, "decode_image", counting)
    return names


def from_files(places: Places) -> Pixels:
    return np.stack([load_image(file, SIZE) for file in places.files])


def flip_a_bit(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


def test_a_pack_has_the_pixels_of_load_image_in_a_plain_npy_file(places: Places, out: Path) -> None:
    pack, bad = pack_images(places, out, size=SIZE)
    assert (len(pack), bad) == (COUNT, [])
    np.testing.assert_array_equal(pack.load(places), from_files(places))
    np.testing.assert_array_equal(np.load(pack.folder / "images.npy", mmap_mode="r"), pack.images)
    with pytest.raises(ValueError, match="read-only"):
        pack.images[0] = 0
    luggage = pickle.dumps(pack)
    assert len(luggage) < 1000
    np.testing.assert_array_equal(pickle.loads(luggage).images, pack.images)


def test_only_new_content_is_decoded(
    places: Places, out: Path, draw: Draw, decoded: list[str]
) -> None:
    pack_images(places, out, size=SIZE)
    assert len(decoded) == COUNT
    decoded.clear()
    os.utime(places.files[5], ns=(1, 1))
    places.files[6].rename(places.root / "images/moved.jpg")
    paths = places.path.copy()
    paths[6] = "images/moved.jpg"
    changed = places.replace(path=paths, place_id=paths)
    pack_images(changed, out, size=SIZE)
    assert decoded == []
    draw(places.root / "other.jpg").replace(places.files[30])
    pack, _ = pack_images(changed, out, size=SIZE)
    assert decoded == ["030.jpg"]
    np.testing.assert_array_equal(pack.load(changed), from_files(changed))


def test_packed_images_are_found_if_all_are_there(
    places: Places, out: Path, tmp_path: Path
) -> None:
    assert find_packed(out, places, SIZE, "crop") is None
    pack_images(places[:30], out, size=SIZE)
    some = places[[20, 3]]
    images = find_packed(out, some, SIZE, "crop")
    assert images is not None
    np.testing.assert_array_equal(images.read(np.arange(2)), from_files(some))
    assert find_packed(out, places, SIZE, "crop") is None
    assert find_packed(out, some, SIZE, "pad") is None
    assert find_packed(out, some, (16, 12), "crop") is None
    assert find_packed(out, some.decoded_as(RawDecoding("GBRG")), SIZE, "crop") is None


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda file: file.write_bytes(b""), "empty file"),
        (lambda file: file.write_bytes(file.read_bytes()[:300]), "unreadable"),
        (lambda file: file.write_text("not an image"), "image"),
        (lambda file: file.unlink(), "file"),
    ],
    ids=["zero-byte", "truncated", "text", "missing"],
)
def test_a_bad_image_stops_the_run_or_is_listed_and_no_work_is_lost(
    places: Places, out: Path, decoded: list[str], spoil: Callable[[Path], None], reason: str
) -> None:
    bad_file = places.files[30]
    spoil(bad_file)
    with pytest.raises(BadImageError, match=reason) as caught:
        pack_images(places, out, size=SIZE)
    assert caught.value.path == str(bad_file)
    decoded.clear()
    pack, bad = pack_images(places, out, size=SIZE, on_bad="drop")
    assert [error.path for error in bad] == [str(bad_file)]
    assert not set(decoded) & {file.name for file in places.files[:30]}
    assert len(pack) == COUNT - 1
    with pytest.raises(BadInputError, match=r"images/030\.jpg.*packed"):
        pack.rows(places)


def test_strict_verification_finds_zeroed_bytes_that_decoders_hide(
    places: Places, out: Path, draw: Draw
) -> None:
    file = draw(places.files[10], size=(1280, 960))
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 512] = bytes(512)
    file.write_bytes(data)
    for verify, expected in ((False, []), (True, [str(file)])):
        _, bad = pack_images(places, out, size=SIZE, on_bad="drop", verify=verify)
        assert [error.path for error in bad] == expected


def test_a_flipped_bit_in_the_pixels_is_found_when_they_are_read(
    places: Places, out: Path, decoded: list[str]
) -> None:
    pack, _ = pack_images(places, out, size=SIZE)
    expected = pack.images.copy()
    row = int(pack.rows(places[[22]])[0])
    flip_a_bit(pack.folder / "images.npy", 128 + row * ROW + 100)
    opened = PackedImages(pack.folder)
    np.testing.assert_array_equal(opened.load(places[:22]), from_files(places[:22]))
    with pytest.raises(BadInputError, match=rf"images\.npy, row {row}: .*022\.jpg"):
        opened.load(places[20:25])
    assert opened.damaged() == [str(places.files[22])]
    decoded.clear()
    again, _ = pack_images(places, out, size=SIZE)
    assert decoded == ["022.jpg"]
    np.testing.assert_array_equal(again.load(places), from_files(places))
    assert len(expected) < len(again.images)  # a row is never reused: open packs still map it


def test_a_damaged_index_is_refused(places: Places, out: Path) -> None:
    pack, _ = pack_images(places, out, size=SIZE)
    index = pack.folder / "index.parquet"
    whole = index.read_bytes()
    for position in np.linspace(0, len(whole) - 1, 20).astype(int):
        flip_a_bit(index, int(position))
        with pytest.raises(BadInputError, match=r"index\.parquet: "):
            PackedImages(pack.folder)
        index.write_bytes(whole)


@pytest.mark.parametrize("room", [300, 20 * ROW])
def test_a_full_disk_names_the_file_and_the_next_run_continues(
    places: Places, out: Path, full_disk: Callable[[int], AbstractContextManager[None]], room: int
) -> None:
    with full_disk(room), pytest.raises(BadInputError, match=r"images\.npy: cannot be written"):
        pack_images(places, out, size=SIZE)
    pack, _ = pack_images(places, out, size=SIZE)
    np.testing.assert_array_equal(pack.load(places), from_files(places))
    assert pack.damaged() == []


KILLED = """
import sys, time
from mappable.places import packing
from mappable.readers.registry import read_places
decode = packing.decode_image
def slow(*arguments, **options):
    time.sleep(0.03)
    return decode(*arguments, **options)
packing.decode_image = slow
packing.pack_images(read_places("manifest", sys.argv[1]), sys.argv[2], size=(32, 24), workers=2)
"""


@pytest.mark.medium
def test_a_build_killed_at_any_moment_continues_where_it_stopped(
    places: Places, out: Path, decoded: list[str]
) -> None:
    rows = [f"{path},{number},0" for number, path in enumerate(places.path)]
    (places.root / "places.csv").write_text("\n".join(["path,x,y", *rows]))
    folder = pack_folder(out, SIZE, "crop")
    process = subprocess.Popen([sys.executable, "-c", KILLED, places.root, out])
    deadline = time.monotonic() + 60
    while not (folder / "index.parquet").is_file() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    safe = len(PackedImages(folder))
    assert 0 < safe < COUNT
    pack, _ = pack_images(places, out, size=SIZE)
    assert len(decoded) == COUNT - safe
    np.testing.assert_array_equal(pack.load(places), from_files(places))


def test_a_second_process_is_refused_or_waits(
    places: Places, out: Path, decoded: list[str]
) -> None:
    folder = pack_folder(out, SIZE, "crop")
    folder.mkdir(parents=True)
    packs: list[PackedImages] = []
    waiting = threading.Thread(
        target=lambda: packs.append(pack_images(places, out, size=SIZE, wait=True)[0])
    )
    with FileLock(folder / "lock"):
        with pytest.raises(BadInputError, match="another process"):
            pack_images(places, out, size=SIZE)
        waiting.start()
        time.sleep(0.2)
        assert (waiting.is_alive(), decoded) == (True, [])
    waiting.join(60)
    assert [len(pack) for pack in packs] == [COUNT]
