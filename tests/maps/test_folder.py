"""Maps on disk: nothing is lost, nothing half written, and what is damaged, foreign or missing is named."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.maps import folder as folder_module
from mappable.maps.approximate import Approximate
from mappable.maps.calibration import Calibration
from mappable.maps.encoders import encoder_of as encoder_of_map
from mappable.maps.errors import DamagedMapError
from mappable.maps.exact import Exact
from mappable.maps.folder import check_folder
from mappable.maps.landmarks import Landmarks
from mappable.places.decoding import RawDecoding
from mappable.places.table import Places

Describe = Callable[..., tuple[Places, NDArray[np.float32]]]
ABOUT = About(
    weights="random",
    size=(64, 48),
    fit="crop",
    mean=(0, 0, 0),
    std=(1, 1, 1),
    settings={"gamma": 5.0},
)


CALIBRATION = Calibration(
    calibrated_on="a drive",
    images=20,
    landmarks=5,
    coverage=0.9,
    radius=5.0,
    sure={"single": 0.9, "live": 0.9, "drive": 0.95},
    width={"single": 1.0, "live": 1.0, "drive": 1.5},
    headings=(0.1, 0.2),
)


@pytest.fixture
def small(described: Describe) -> Landmarks:
    return Landmarks.build(*described(5), "0123456789abcdef", about=ABOUT)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}


def file_of(folder: Path, part: str) -> Path:
    (found,) = folder.glob(f"{part}-*")
    return found


def assert_same(found: Landmarks, wanted: Landmarks) -> None:
    rows = np.arange(len(wanted))
    assert len(found) == len(found.store) == len(wanted)
    assert found.places == wanted.places
    np.testing.assert_array_equal(found.store.take(rows), wanted.store.take(rows))
    np.testing.assert_array_equal(found.covariance, wanted.covariance)
    for name in ("encoder", "about", "calibration", "storage", "frame"):
        assert getattr(found, name) == getattr(wanted, name), name


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_nothing_is_lost_on_the_way_to_disk_and_back(
    described: Describe, tmp_path: Path, storage: Any
) -> None:
    places, vectors = described(700, z=np.arange(700.0), dimensions=3)
    covariance = np.full((700, 3, 3), np.nan)
    covariance[5] = np.diag([1.0, 2.0, 3.0])
    built = Landmarks.build(
        places,
        vectors,
        "e",
        about=ABOUT,
        storage=storage,
        calibration=CALIBRATION,
        covariance=covariance,
    )
    saved = built.save(tmp_path / "deep/map")
    for found in (
        saved,
        Landmarks.open(tmp_path / "deep/map"),
        Landmarks.verify(str(tmp_path / "deep/map")),
    ):
        assert_same(found, built)
    facts = json.loads((tmp_path / "deep/map/map.json").read_text())
    assert (facts["unit"], facts["dimensions"], facts["landmarks"], facts["estimated"]) == (
        "m",
        3,
        700,
        1,
    )
    assert np.load(file_of(tmp_path / "deep/map", "descriptors")).dtype == storage


def test_a_moved_folder_is_still_a_map(described: Describe, tmp_path: Path) -> None:
    places, vectors = described(3, root=tmp_path / "map/images")
    built = Landmarks.build(places, vectors, "e")
    built.save(tmp_path / "map")
    (tmp_path / "map").rename(tmp_path / "moved")
    assert_same(Landmarks.verify(tmp_path / "moved"), built)
    assert Landmarks.open(tmp_path / "moved").places.root == tmp_path / "moved/images"


def test_what_did_not_change_is_not_written_again(
    small: Landmarks, described: Describe, tmp_path: Path
) -> None:
    opened = small.save(tmp_path)
    before = {file: file.stat().st_ino for file in tmp_path.glob("*-*")}
    again = opened.with_calibration(CALIBRATION).save(tmp_path)
    assert {file: file.stat().st_ino for file in tmp_path.glob("*-*")} == before
    assert_same(again, small.with_calibration(CALIBRATION))
    larger = again.add(*described(2, first=9), small.encoder).save(tmp_path)
    assert not before.keys() & set(tmp_path.glob("*-*"))
    assert larger.calibration == CALIBRATION
    assert_same(Landmarks.verify(tmp_path), larger)
    assert len(contents(tmp_path)) == 3
    # Still readable.
    np.testing.assert_array_equal(again.store.take(np.arange(5)), small.store.take(np.arange(5)))


def test_the_folder_keeps_the_encoder_and_checks_it(
    described: Describe, tmp_path: Path, encoder_of: Any
) -> None:
    encoder, other = encoder_of(0), encoder_of(1)
    encoder.save(tmp_path / "encoder.safetensors")
    built = Landmarks.build(*described(3), encoder.fingerprint, about=encoder.about)
    saved = built.save(tmp_path / "map", encoder)
    (tmp_path / "encoder.safetensors").unlink()
    assert saved.encoder_file is not None
    assert type(encoder).load(saved.encoder_file).fingerprint == encoder.fingerprint
    node = saved.encoder_file.stat().st_ino
    larger = saved.add(*described(1, first=9), encoder.fingerprint).save(tmp_path / "map")
    assert larger.encoder_file == saved.encoder_file
    assert larger.encoder_file.stat().st_ino == node
    elsewhere = larger.save(tmp_path / "elsewhere")
    assert elsewhere.encoder_file is not None
    assert elsewhere.encoder_file.read_bytes() == saved.encoder_file.read_bytes()
    before = contents(tmp_path / "map")
    with pytest.raises(BadInputError, match=f"{other.fingerprint}.*{larger.encoder}"):
        larger.save(tmp_path / "map", other)
    assert contents(tmp_path / "map") == before


@pytest.fixture
def encoder_of(small_backbone: str) -> Callable[[int], Any]:
    from mappable.features.encoder import Encoder

    return lambda seed: Encoder.create(
        weights="random", size=(64, 48), clusters=4, backbone=small_backbone, seed=seed
    )


def test_an_approximate_index_is_kept_beside_the_descriptors(
    described: Describe, tmp_path: Path
) -> None:
    built = Landmarks.build(*described(1000), "e").with_index()
    saved = built.save(tmp_path)
    opened = Landmarks.verify(tmp_path)
    assert isinstance(opened.store, Approximate)
    assert isinstance(built.store, Approximate)
    assert opened.store.recall == built.store.recall
    queries = described(5, first=2000)[1]
    np.testing.assert_array_equal(
        opened.store.nearest(queries, 3)[0], built.store.nearest(queries, 3)[0]
    )
    file = file_of(tmp_path, "index")
    assert saved.with_index().with_calibration(None).save(tmp_path).files["index"].path == file
    smaller = saved.remove(["0.jpg"]).save(tmp_path)
    assert isinstance(smaller.store, Exact)
    assert not file.exists()


KILLED = """
import json, os, shutil, signal, sys
from dataclasses import replace
import numpy as np
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

def killing(moment, call):
    def wrapped(*arguments, **options):
        moment[0] -= 1
        if moment[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return wrapped

folder = sys.argv[1]
old = Landmarks.open(folder)
places = Places(path=["new.jpg"], x=[9.0], y=[9.0], frames=old.frame)
new = replace(old.add(places, np.eye(8, dtype=np.float32)[:1], old.encoder), origin=None)  # it replaces any map
lengths, status = [], 1
while status:
    child = os.fork()
    if not child:
        moment = [len(lengths)]
        os.fsync, os.replace, os.unlink = (killing(moment, call) for call in (os.fsync, os.replace, os.unlink))
        new.save(folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    lengths.append(len(Landmarks.verify(folder)))
print(json.dumps(lengths))
"""


@pytest.mark.medium
def test_a_save_killed_at_any_moment_leaves_the_old_map_or_the_new_one(
    small: Landmarks, tmp_path: Path
) -> None:
    """At each moment at which a file is about to be synchronized, renamed or removed, the process
    ends.
    """
    small.save(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    lengths = json.loads(result.stdout)
    assert lengths == sorted(lengths)
    assert lengths.count(5) >= 6
    assert lengths.count(6) >= 2
    assert len(contents(tmp_path)) == 3  # what the killed ones left is gone


@pytest.mark.parametrize("failing", range(1, 4))
def test_a_save_that_fails_leaves_the_old_map_and_nothing_else(
    small: Landmarks,
    described: Describe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
) -> None:
    small.save(tmp_path)
    before, count = contents(tmp_path), 0

    def fail(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == failing:
            raise OSError(28, "No space left on device")

    larger = small.add(*described(1, first=9), small.encoder)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(BadInputError, match="No space left on device"):
            larger.save(tmp_path)
    assert contents(tmp_path) == before
    assert_same(Landmarks.verify(tmp_path), small)
    larger.save(tmp_path)
    assert_same(Landmarks.verify(tmp_path), larger)


def test_a_folder_of_something_else_is_left_alone(small: Landmarks, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").touch()
    (tmp_path / "game").mkdir()
    (tmp_path / "game/map.json").write_text('{"format": "tiles"}')
    for name, problem in (
        ("file", "is a file, expected a folder for the map"),
        ("photos", "contains files, but no map"),
        ("game", "not the description of a map; use another folder"),
    ):
        before = contents(tmp_path / name) if name != "file" else None
        for attempt in (check_folder, small.save):
            with pytest.raises(BadInputError, match=f"{name}.*: {problem}"):
                attempt(tmp_path / name)
        assert before is None or contents(tmp_path / name) == before
    check_folder(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_folder(tmp_path / "empty")
    small.save(tmp_path / "empty")
    (tmp_path / "empty/README").write_text("ours")
    small.save(tmp_path / "empty")
    assert (tmp_path / "empty/README").exists()


def flipped(content: bytes) -> bytes:
    """One bit changed, near the end."""
    return content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]


@pytest.fixture
def complete(described: Describe, tmp_path: Path, encoder_of: Any) -> Path:
    """The folder of a map with every part."""
    encoder = encoder_of(0)
    (tmp_path / "lens.bin").write_bytes(np.zeros(8).tobytes())
    places, vectors = described(1000, decoding=RawDecoding("GBRG", str(tmp_path / "lens.bin")))
    covariance = np.full((1000, 2, 2), np.nan)
    covariance[5] = np.eye(2)
    built = Landmarks.build(
        places, vectors, encoder.fingerprint, about=encoder.about, covariance=covariance
    )
    built.with_index().save(tmp_path / "map", encoder)
    return tmp_path / "map"


QUERY = np.eye(1, 8, dtype=np.float32)
USES: dict[str, Callable[[Landmarks], Any]] = {
    "landmarks": lambda opened: None,
    "covariance": lambda opened: None,
    "undistortion": lambda opened: None,
    "encoder": lambda opened: encoder_of_map(opened, device="cpu"),
    "index": lambda opened: opened.store.nearest(QUERY, 1),
    "descriptors": lambda opened: opened.store.take(np.array([4])),
}


def test_every_file_is_checked_before_its_use(complete: Path) -> None:
    assert set(Landmarks.open(complete).files) == set(USES)
    for part, use in USES.items():
        file = file_of(complete, part)
        whole = file.read_bytes()
        use(Landmarks.open(complete))
        for damage in (lambda content: content[:-1], lambda content: b"", flipped):
            file.write_bytes(damage(whole))
            with pytest.raises(BadInputError, match=file.name):
                use(Landmarks.open(complete))
            with pytest.raises(BadInputError, match=file.name):
                Landmarks.verify(complete)
        file.unlink()
        with pytest.raises(BadInputError, match=file.name):
            Landmarks.open(complete)
        file.write_bytes(whole)
    Landmarks.verify(complete)


def test_no_use_of_damaged_descriptors_gives_an_answer(small: Landmarks, tmp_path: Path) -> None:
    small.save(tmp_path)
    file = file_of(tmp_path, "descriptors")
    file.write_bytes(flipped(file.read_bytes()))
    for use in (
        lambda opened: opened.store.nearest(QUERY, 1),
        lambda opened: opened.store.in_memory(),
        lambda opened: opened.remove(["0.jpg"]),
        lambda opened: opened.save(tmp_path.with_name(f"{tmp_path.name}-copy")),
    ):
        opened = Landmarks.open(tmp_path)
        for _ in range(2):  # a second attempt gives no answer either
            with pytest.raises(DamagedMapError, match=file.name):
                use(opened)


def changed_facts(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change `map.json` as somebody would who knows about its checksum, and about those of the
    files.
    """
    facts = json.loads((folder / "map.json").read_text())
    for file in facts["files"].values():
        content = (folder / file["name"]).read_bytes()
        file |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change(facts)
    del facts["sha256"]
    (folder / "map.json").write_text(json.dumps(facts | {"sha256": folder_module._checksum(facts)}))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda facts: facts.update(about={}), r"map\.json"),
        (lambda facts: facts.update(files={}), r"map\.json"),
        (
            lambda facts: facts["files"]["landmarks"].update(name="../other.parquet"),
            r"other\.parquet",
        ),
        (
            lambda facts: facts["descriptor"].update(dimensions=7),
            r"descriptors-.*\(5, 8\).*\(5, 7\)",
        ),
        (lambda facts: facts.update(landmarks=4), r"landmarks-.*5 rows.* 4"),
        (lambda facts: facts.update(version=3), r"map\.json.*earlier version"),
        (lambda facts: facts.update(version=5), r"map\.json.*later version"),
    ],
)
def test_a_description_that_does_not_fit_the_files_is_refused(
    small: Landmarks, tmp_path: Path, change: Callable[[dict[str, Any]], Any], names: str
) -> None:
    small.save(tmp_path)
    changed_facts(tmp_path, change)
    with pytest.raises(BadInputError, match=names):
        Landmarks.open(tmp_path)


def test_maps_of_earlier_versions_open(small: Landmarks, tmp_path: Path) -> None:
    """They had checksums of blocks of descriptors, and another calibration."""
    small.save(tmp_path)
    np.save(tmp_path / "checksums-01234567.npy", np.zeros(1, dtype=np.uint64))
    checksums = {"name": "checksums-01234567.npy", "bytes": 136, "sha256": "0" * 64}
    facts = json.loads((tmp_path / "map.json").read_text())
    facts["files"]["checksums"], facts["calibration"] = checksums, {"offset": 0.1}
    (tmp_path / "map.json").write_text(json.dumps(facts))
    changed_facts(tmp_path, lambda facts: None)
    assert_same(Landmarks.verify(tmp_path), small)
    Landmarks.open(tmp_path).with_calibration(CALIBRATION).save(tmp_path)
    assert not list(tmp_path.glob("checksums-*"))


def test_a_change_is_not_saved_over_another_one(
    small: Landmarks, described: Describe, tmp_path: Path
) -> None:
    small.save(tmp_path)
    first, second = Landmarks.open(tmp_path), Landmarks.open(tmp_path)
    larger = first.add(*described(2, first=9), small.encoder).save(tmp_path)
    sentence = f"{tmp_path}: another process changed the map.*run the command again"
    other = Landmarks.build(*described(2, first=20), small.encoder)
    for change in (
        second,
        second.remove(["0.jpg"]),
        second.with_calibration(None),
        second.merge(other),
    ):
        with pytest.raises(BadInputError, match=sentence):
            change.save(tmp_path)
    assert_same(Landmarks.verify(tmp_path), larger)
    second.save(tmp_path / "other")
    assert len(larger.remove(["0.jpg"]).save(tmp_path)) == 6
    assert len(small.save(tmp_path)) == 5  # a new map replaces any other


REMOVING = """
import sys, time
import numpy as np
from mappable.maps.landmarks import Landmarks
from mappable.cli import main
folder, first = sys.argv[1], sys.argv[2]
save = Landmarks.save
def late(self, *values):
    time.sleep(1)  # as long as describing images takes, so that both have opened the map
    return save(self, *values)
Landmarks.save = late
sys.argv = ["mappable", "map", "remove", folder, first]
main()
"""


@pytest.mark.medium
def test_two_commands_at_once_lose_no_change(small: Landmarks, tmp_path: Path) -> None:
    small.save(tmp_path)
    commands = [
        [sys.executable, "-c", REMOVING, str(tmp_path), name] for name in ("0.jpg", "1.jpg")
    ]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for command in commands]
    told = [process.communicate(timeout=60)[1] for process in both]
    codes = [process.returncode for process in both]
    left = set(Landmarks.verify(tmp_path).places.place_id)
    for name, code, text in zip(("0.jpg", "1.jpg"), codes, told, strict=True):
        assert (name in left) == (code != 0)
        if code:
            assert code == 1
            assert text.count("\n") == 1
            assert str(tmp_path) in text
            assert "again" in text
    assert 0 in codes
