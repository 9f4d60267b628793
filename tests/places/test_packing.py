"""The packed cache: what it holds, what it redoes, and what survives damage and death."""

import json
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
from PIL import Image

from mappable.errors import BadImageError, BadInputError
from mappable.places import cache, packing
from mappable.places.cache import PackedImages, find_pack, find_packed, pack_folder
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.images import load_image
from mappable.places.joining import concatenate
from mappable.places.packing import pack_images
from mappable.places.table import Places

SIZE = (32, 24)
Draw = Callable[..., Path]


@pytest.fixture
def places(tmp_path: Path, draw: Draw) -> Places:
    """A hundred images in four chunks."""
    paths = [f"images/{number:03d}.jpg" for number in range(100)]
    for path in paths:
        draw(tmp_path / "set" / path)
    return Places(path=paths, x=np.arange(100.0), y=np.zeros(100), frames=Frame("local"), root=tmp_path / "set")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the images that were really decoded."""
    names: list[str] = []
    decode = packing.decode_image

    def counting(data: bytes, size: tuple[int, int], fit: str, decoding: RawDecoding | None, name: str) -> np.ndarray:
        names.append(Path(name).name)
        return decode(data, size, fit, decoding, name)

    monkeypatch.setattr(packing, "decode_image", counting)
    return names


def test_rows_are_the_images_that_load_image_gives(places: Places, tmp_path: Path) -> None:
    pack, bad = pack_images(places, tmp_path / "out", size=SIZE)
    assert bad == []
    assert len(pack) == 100
    expected = np.stack([load_image(file, SIZE) for file in places.files])
    np.testing.assert_array_equal(pack.load(places), expected)


def test_a_subset_in_another_order_finds_its_own_rows(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    some = places[[70, 3, 31]]
    np.testing.assert_array_equal(pack.load(some)[1], load_image(places.files[3], SIZE))


def test_the_images_are_a_plain_npy_file_for_other_programs(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    plain = np.load(pack.folder / "images.npy", mmap_mode="r")
    assert plain.shape == (100, 24, 32, 3)
    np.testing.assert_array_equal(plain, pack.images)


def test_pixels_cannot_be_changed_by_accident(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    with pytest.raises(ValueError, match="read-only"):
        pack.images[0] = 0


def test_a_second_run_decodes_nothing(places: Places, tmp_path: Path, decoded: list[str]) -> None:
    pack_images(places, tmp_path / "out", size=SIZE)
    assert len(decoded) == 100
    pack_images(places, tmp_path / "out", size=SIZE)
    assert len(decoded) == 100


def test_a_touched_or_renamed_file_is_known_by_its_content(places: Places, tmp_path: Path, decoded: list[str]) -> None:
    pack_images(places, tmp_path / "out", size=SIZE)
    decoded.clear()
    os.utime(places.files[5], ns=(1, 1))
    places.files[6].rename(places.root / "images" / "moved.jpg")
    paths = places.path.copy()
    paths[6] = "images/moved.jpg"
    moved = places.replace(path=paths, place_id=paths)
    pack, _ = pack_images(moved, tmp_path / "out", size=SIZE)
    assert decoded == []
    np.testing.assert_array_equal(pack.load(moved), np.stack([load_image(file, SIZE) for file in moved.files]))


def test_only_a_changed_file_is_decoded_again(places: Places, tmp_path: Path, draw: Draw, decoded: list[str]) -> None:
    pack_images(places, tmp_path / "out", size=SIZE)
    decoded.clear()
    draw(places.root / "other.jpg").replace(places.files[50])
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    assert decoded == ["050.jpg"]
    np.testing.assert_array_equal(pack.load(places[[50]])[0], load_image(places.files[50], SIZE))


def test_size_and_fit_have_packs_of_their_own(places: Places, tmp_path: Path) -> None:
    pack_images(places[:3], tmp_path / "out", size=SIZE)
    pack_images(places[:3], tmp_path / "out", size=SIZE, fit="pad")
    pack_images(places[:3], tmp_path / "out", size=(16, 12))
    assert find_pack(tmp_path / "out", size=(16, 12)).size == (16, 12)
    assert find_pack(tmp_path / "out", size=SIZE, fit="pad").fit == "pad"
    assert (find_pack(tmp_path / "out").size, find_pack(tmp_path / "out").fit) == (SIZE, "crop")  # the largest
    with pytest.raises(BadInputError, match="out: contains no pack of 16x12-pad; its packs are 16x12-crop, 32x24"):
        find_pack(tmp_path / "out", size=(16, 12), fit="pad")
    with pytest.raises(BadInputError, match="empty: contains no packed images; run `mappable convert`"):
        find_pack(tmp_path / "empty")


def test_raw_decodings_are_told_apart_by_the_content_of_their_table(tmp_path: Path) -> None:
    folders = {pack_folder(tmp_path, SIZE, "crop"), pack_folder(tmp_path, SIZE, "crop", RawDecoding("GBRG"))}
    for content in (b"one", b"two"):
        (tmp_path / "table.bin").write_bytes(content)
        folders.add(pack_folder(tmp_path, SIZE, "crop", RawDecoding("GBRG", str(tmp_path / "table.bin"))))
    assert len(folders) == 4


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
def test_a_bad_image_stops_the_run_or_is_listed_and_nothing_done_is_lost(
    places: Places, tmp_path: Path, decoded: list[str], spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(places.files[60])
    with pytest.raises(BadImageError, match=reason) as caught:
        pack_images(places, tmp_path / "out", size=SIZE)
    assert caught.value.path == str(places.files[60])
    before = set(decoded) - {"060.jpg"}
    assert len(before) >= 60  # the chunks up to and with the bad image
    decoded.clear()
    pack, bad = pack_images(places, tmp_path / "out", size=SIZE, on_bad="drop")
    assert [error.path for error in bad] == [str(places.files[60])]
    assert not set(decoded) & {f"{number:03d}.jpg" for number in range(60)}
    assert len(pack) == 99
    with pytest.raises(BadInputError, match=r"images/060\.jpg.*packed"):
        pack.rows(places)


def test_strict_verification_finds_zeroed_bytes_that_decoding_paints_over(
    places: Places, tmp_path: Path, draw: Draw
) -> None:
    file = draw(places.files[10], size=(1280, 960))
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 512] = bytes(512)
    file.write_bytes(data)
    _, unnoticed = pack_images(places, tmp_path / "out", size=SIZE, on_bad="drop")
    _, noticed = pack_images(places, tmp_path / "out", size=SIZE, on_bad="drop", verify=True)
    assert unnoticed == []
    assert [error.path for error in noticed] == [str(file)]


def flip_a_bit(file: Path, position: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(position)
        byte = stream.read(1)[0]
        stream.seek(position)
        stream.write(bytes([byte ^ 1]))


def test_a_flipped_bit_in_the_pixels_is_found_when_they_are_read_and_mended_by_the_next_run(
    places: Places, tmp_path: Path, decoded: list[str]
) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    expected = pack.images.copy()
    flip_a_bit(pack.folder / "images.npy", 128 + 42 * 24 * 32 * 3 + 100)
    opened = PackedImages(pack.folder)
    view = opened.view(places)
    np.testing.assert_array_equal(view.read(np.arange(42)), expected[:42])
    for read in (lambda: opened.load(places), lambda: view.take(np.arange(40, 50)).read(np.array([2]))):
        with pytest.raises(BadInputError, match=r"images\.npy, row 42: .*042\.jpg.*run the conversion again"):
            read()
    assert opened.damaged() == [str(places.files[42])]
    decoded.clear()
    mended, bad = pack_images(places, tmp_path / "out", size=SIZE)
    assert (bad, len(decoded)) == ([], 1)
    assert mended.damaged() == []
    np.testing.assert_array_equal(mended.load(places), expected)


@pytest.mark.parametrize("room", [100, 20 * 24 * 32 * 3])
def test_a_full_disk_names_the_file_and_the_next_run_goes_on(
    places: Places, full_disk: Callable[[int], AbstractContextManager[None]], room: int, tmp_path: Path
) -> None:
    cache.start_pack(pack_folder(tmp_path / "out", SIZE, "crop"), SIZE, "crop", places)
    with full_disk(room), pytest.raises(BadInputError, match=r"images\.npy: cannot be written"):
        pack_images(places, tmp_path / "out", size=SIZE)
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    np.testing.assert_array_equal(pack.load(places[:3])[2], load_image(places.files[2], SIZE))
    assert pack.damaged() == []


def test_a_flipped_bit_in_the_index_is_found(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    whole = (pack.folder / "index.parquet").read_bytes()
    for position in np.linspace(0, len(whole) - 1, 20).astype(int):
        flip_a_bit(pack.folder / "index.parquet", int(position))
        with pytest.raises(BadInputError, match=r"index\.parquet: "):
            PackedImages(pack.folder)
        (pack.folder / "index.parquet").write_bytes(whole)


def test_a_flipped_bit_in_the_journal_is_found(places: Places, tmp_path: Path) -> None:
    places.files[99].unlink()
    with pytest.raises(BadImageError):
        pack_images(places, tmp_path / "out", size=SIZE)
    journal = pack_folder(tmp_path / "out", SIZE, "crop") / "journal.jsonl"
    whole = journal.read_bytes()
    flip_a_bit(journal, whole.index(b"jpg"))
    with pytest.raises(BadInputError, match=r"journal\.jsonl, row 1: damaged"):
        PackedImages(journal.parent)
    journal.write_bytes(b"".join(line.partition(b" ")[2] for line in whole.splitlines(keepends=True)))
    assert len(PackedImages(journal.parent)) == 99  # of an earlier version, without checksums


def test_a_pack_that_was_cut_off_is_refused_by_readers_and_completed_by_the_next_run(
    places: Places, tmp_path: Path
) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    expected = pack.images.copy()
    os.truncate(pack.folder / "images.npy", 128 + 50 * 24 * 32 * 3 + 7)
    with pytest.raises(BadInputError, match="truncated"):
        PackedImages(pack.folder)
    again, _ = pack_images(places, tmp_path / "out", size=SIZE)
    np.testing.assert_array_equal(again.load(places), expected)


def test_a_torn_last_line_of_the_journal_is_passed_over(places: Places, tmp_path: Path, decoded: list[str]) -> None:
    places.files[99].unlink()
    with pytest.raises(BadImageError):
        pack_images(places, tmp_path / "out", size=SIZE)
    journal = pack_folder(tmp_path / "out", SIZE, "crop") / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-20])
    lines = whole[:-20].count(b"\n")
    assert len(PackedImages(journal.parent)) == sum(
        len(json.loads(line.partition(b" ")[2])) for line in whole.splitlines()[:lines]
    )
    decoded.clear()
    pack, _ = pack_images(places[:99], tmp_path / "out", size=SIZE)
    assert 0 < len(decoded) <= packing.IMAGES_PER_JOURNAL_LINE
    np.testing.assert_array_equal(pack.load(places[:99])[98], load_image(places.files[98], SIZE))


KILLED = """
import sys, time
from mappable.places import packing
from mappable.readers.registry import read_places
decode = packing.decode_image
def slow(*arguments, **options):
    time.sleep(0.01)
    return decode(*arguments, **options)
packing.decode_image = slow
packing.pack_images(read_places("manifest", sys.argv[1]), sys.argv[2], size=(32, 24), workers=2)
"""


@pytest.mark.medium
def test_a_build_killed_at_any_moment_goes_on_where_it_stopped(
    places: Places, tmp_path: Path, decoded: list[str]
) -> None:
    rows = [f"{path},{number},0" for number, path in enumerate(places.path)]
    (places.root / "places.csv").write_text("\n".join(["path,x,y", *rows]))
    journal = pack_folder(tmp_path / "out", SIZE, "crop") / "journal.jsonl"
    process = subprocess.Popen([sys.executable, "-c", KILLED, places.root, tmp_path / "out"])
    deadline = time.monotonic() + 60
    while not (journal.is_file() and journal.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    safe = len(PackedImages(journal.parent))
    assert 0 < safe < 100
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    assert len(decoded) == 100 - safe
    np.testing.assert_array_equal(pack.load(places), np.stack([load_image(file, SIZE) for file in places.files]))


def test_two_processes_cannot_fill_one_pack_at_once(places: Places, tmp_path: Path) -> None:
    folder = pack_folder(tmp_path / "out", SIZE, "crop")
    folder.mkdir(parents=True)
    with FileLock(folder / "lock"), pytest.raises(BadInputError, match="packing"):
        pack_images(places, tmp_path / "out", size=SIZE)


def test_a_folder_that_is_no_pack_is_refused_in_one_sentence(
    places: Places, tmp_path: Path, rewrite: Callable[..., None]
) -> None:
    with pytest.raises(BadInputError, match=r"no pack.*pack\.json"):
        PackedImages(tmp_path)
    (tmp_path / "pack.json").write_text("{")
    with pytest.raises(BadInputError, match=r"pack\.json.*damaged"):
        PackedImages(tmp_path)
    pack_images(places, tmp_path, size=SIZE)
    about = next(tmp_path.rglob("pixels/**/pack.json"))
    sound = json.loads(about.read_text())
    for wrong in ({"fit": "round"}, {"width": -1}, {"height": "high"}):
        rewrite(about, sound | wrong)
        with pytest.raises(BadInputError, match=r"pack\.json.*damaged"):
            PackedImages(about.parent)


def test_a_row_is_never_given_to_another_image(places: Places, tmp_path: Path, draw: Draw) -> None:
    """Damage the last row, run with a new image first and a bad one that stops the run, then with the old images."""
    few = places[:3]
    pack, _ = pack_images(few, tmp_path / "out", size=SIZE)
    expected = pack.load(few)
    with (pack.folder / "images.npy").open("r+b") as stream:
        stream.seek(-5, os.SEEK_END)
        stream.write(b"abcde")
    draw(places.root / "new.jpg")
    (places.root / "bad.jpg").write_bytes(b"")
    paths = ["new.jpg", "bad.jpg", *few.path]
    more = Places(path=paths, x=np.zeros(5), y=np.zeros(5), frames=Frame("local"), root=places.root)
    with pytest.raises(BadImageError):
        pack_images(more, tmp_path / "out", size=SIZE, verify=True)
    pack_images(few, tmp_path / "out", size=SIZE)
    np.testing.assert_array_equal(find_pack(tmp_path / "out").load(few), expected)


def test_files_of_another_set_are_not_taken_for_those_of_this_one(places: Places, tmp_path: Path) -> None:
    """Two sets with a file of one name, size and time but not of one content."""
    sets = []
    for name, value in (("one", 50), ("two", 200)):
        file = tmp_path / name / "0.ppm"
        file.parent.mkdir()
        file.write_bytes(b"P6 32 24 255\n" + bytes([value]) * (32 * 24 * 3))
        os.utime(file, ns=(10**18, 10**18))
        sets.append(Places(path=["0.ppm"], x=[0.0], y=[0.0], frames=Frame("local"), root=file.parent))
    for number, value in ((0, 50), (1, 200), (0, 50)):
        pack, _ = pack_images(sets[number], tmp_path / "out", size=SIZE)
        assert (pack.load(sets[number]) == value).all()


def test_places_of_a_concatenated_table_find_their_rows(places: Places, tmp_path: Path, draw: Draw) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    draw(tmp_path / "other" / "a.jpg")
    other = Places(
        path=["a.jpg"], x=[0.0], y=[0.0], frames=Frame("elsewhere"), sequence="other", root=tmp_path / "other"
    )
    both = concatenate([other, places])
    np.testing.assert_array_equal(pack.load(both[1:]), pack.load(places))


def test_a_size_or_fit_that_cannot_be_leaves_no_folder_behind(places: Places, tmp_path: Path) -> None:
    for settings in ({"size": (0, 24)}, {"size": SIZE, "fit": "squash"}):
        with pytest.raises(BadInputError, match="expected"):
            pack_images(places, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_a_set_is_never_shown_with_the_pixels_of_another_while_that_is_being_packed(
    places: Places, tmp_path: Path, draw: Draw
) -> None:
    """The same names in two roots; packing the second one stops in the middle."""
    pack_images(places, tmp_path / "out", size=SIZE)
    for number, path in enumerate(places.path):
        if number != 70:
            draw(tmp_path / "second" / path.replace("images/", "images/other "))
            (tmp_path / "second" / path.replace("images/", "images/other ")).rename(tmp_path / "second" / path)
    second = places.replace(root=tmp_path / "second")
    with pytest.raises(BadImageError):
        pack_images(second, tmp_path / "out", size=SIZE)
    pack = find_pack(tmp_path / "out")
    np.testing.assert_array_equal(
        pack.load(places)[:3], np.stack([load_image(file, SIZE) for file in places.files[:3]])
    )
    np.testing.assert_array_equal(pack.load(second[:3]), np.stack([load_image(f, SIZE) for f in second.files[:3]]))


def test_a_moved_collection_keeps_its_pixels_and_a_stranger_gets_none(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    elsewhere = places.replace(root=tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="packed"):
        pack.rows(elsewhere)
    places.root.rename(tmp_path / "elsewhere")
    np.testing.assert_array_equal(pack.rows(elsewhere), np.arange(100))


def test_a_pack_travels_between_processes_as_its_folder(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    luggage = pickle.dumps(pack)
    assert len(luggage) < 1000
    np.testing.assert_array_equal(pickle.loads(luggage).images, pack.images)


def test_a_damaged_header_of_the_images_is_mended_by_the_next_run(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    with (pack.folder / "images.npy").open("r+b") as stream:
        stream.write(bytes(20))
    pack_images(places, tmp_path / "out", size=SIZE)
    np.testing.assert_array_equal(np.load(pack.folder / "images.npy"), pack.images)


def test_whoever_waits_finds_all_packed_by_the_process_before_it(
    places: Places, tmp_path: Path, decoded: list[str]
) -> None:
    folder = pack_folder(tmp_path / "out", SIZE, "crop")
    folder.mkdir(parents=True)
    packs: list[PackedImages] = []
    waiting = threading.Thread(
        target=lambda: packs.append(pack_images(places, tmp_path / "out", size=SIZE, wait=True)[0])
    )
    with FileLock(folder / "lock"):
        waiting.start()
        time.sleep(0.2)
        assert waiting.is_alive()
        assert decoded == []
    waiting.join(60)
    assert [len(pack) for pack in packs] == [100]
    assert len(decoded) == 100


def test_a_view_reads_only_what_it_is_asked_for_and_in_its_own_order(places: Places, tmp_path: Path) -> None:
    pack, _ = pack_images(places, tmp_path / "out", size=SIZE)
    some = places[[70, 3, 31, 8]]
    view = pack.view(some)
    assert (len(view), view.shape) == (4, (4, 24, 32, 3))
    assert view.images is pack.images  # nothing was copied yet
    for rows in ([0, 1, 2, 3], [2, 0], [3, 3, 1], []):
        chosen = np.array(rows, dtype=np.int64)
        found = view.read(chosen)
        np.testing.assert_array_equal(found, pack.load(some)[chosen])
        found[:] = 0  # a copy: the pack stays as it is


def test_packed_images_are_found_where_all_are_there_at_that_size_and_fit(places: Places, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert find_packed(out, places, SIZE, "crop") is None
    pack, _ = pack_images(places[:80], out, size=SIZE)
    assert find_packed(out, places, SIZE, "crop") is None
    assert not pack.holds(places)
    some = places[[70, 3]]
    assert pack.holds(some)
    found = find_packed(out, some, SIZE, "crop")
    assert found is not None
    np.testing.assert_array_equal(found.read(np.arange(2)), np.stack([load_image(file, SIZE) for file in some.files]))
    assert find_packed(out, some, SIZE, "pad") is None
    assert find_packed(out, some, (16, 12), "crop") is None
    elsewhere = some.replace(root=tmp_path / "elsewhere")
    assert find_packed(out, elsewhere, SIZE, "crop") is None
    places.root.rename(tmp_path / "elsewhere")
    assert find_packed(out, elsewhere, SIZE, "crop") is not None


def test_a_pack_without_decoding_serves_raw_places_if_all_its_images_are_in_color(
    places: Places, tmp_path: Path
) -> None:
    out, raw = tmp_path / "out", places[:20].decoded_as(RawDecoding("GBRG"))
    Image.open(raw.files[7]).convert("L").save(raw.files[7])
    pack_images(places[:20], out, size=SIZE)
    assert find_packed(out, raw[:7], SIZE, "crop") is not None
    assert find_packed(out, raw, SIZE, "crop") is None
    pack_images(raw.where(place_id=str(raw.place_id[7])), out, size=SIZE)
    found = find_packed(out, raw[7], SIZE, "crop")
    assert found is not None
    file = raw.files[7]
    np.testing.assert_array_equal(found.read(np.arange(1))[0], load_image(file, SIZE, decoding=RawDecoding("GBRG")))


def test_a_file_that_vanishes_while_packing_is_named_and_what_is_done_stays(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = packing.decode_image

    def vanishing(*arguments: object, **named: object) -> np.ndarray:
        places.files[90].unlink(missing_ok=True)
        return decode(*arguments, **named)

    monkeypatch.setattr(packing, "decode_image", vanishing)
    with pytest.raises(BadImageError, match=r"090\.jpg.*file"):
        pack_images(places, tmp_path / "out", size=SIZE)
    assert len(find_pack(tmp_path / "out")) >= 64
