"""`mappable convert` and `mappable places`, in a separate process where that could matter."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import Result

from mappable.locks import alone_in
from mappable.places import find_pack, load_places, save_places
from refusals import refused

Draw = Callable[..., Path]
Run = Callable[..., Result]
MAIN = [sys.executable, "-c", "from mappable.cli import main; main()"]


@pytest.fixture
def collection(tmp_path: Path, draw: Draw) -> Path:
    root = tmp_path / "set"
    rows = []
    for number in range(12):
        draw(root / f"day/{number}.jpg")
        rows.append(f"day/{number}.jpg,{number * 1.5},0,{1_700_000_000 + number},day,train")
    (root / "places.csv").write_text("\n".join(["path,x,y,time,condition,split", *rows]))
    return root


@pytest.fixture
def walks(tmp_path: Path, draw: Draw, mappable: Run) -> Path:
    """The folder of a converted set: four sequences with two images each; one name contains a
    comma.
    """
    rows = []
    for number, name in enumerate(["mon", "tue", "wed", "thu, noon"] * 2):
        draw(tmp_path / f"walks/{number}.jpg")
        rows.append(f'{number}.jpg,{number},0,"{name}",test')
    (tmp_path / "walks/places.csv").write_text("\n".join(["path,x,y,sequence,split", *rows]))
    assert (
        mappable(
            "convert", "manifest", tmp_path / "walks", tmp_path / "out", "--size", "32x24"
        ).exit_code
        == 0
    )
    return tmp_path / "out"


@pytest.mark.medium
def test_convert_then_show(
    collection: Path, tmp_path: Path, mappable: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, table = tmp_path / "out", collection / "places.csv"
    table.write_text(table.read_text().replace(",day,train", r",$\bad{$,train"))
    command = [
        *MAIN,
        "convert",
        "manifest",
        collection,
        out,
        "--size",
        "32x24",
        "--fit",
        "pad",
        "--frame",
        "a[/b] [old]",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert find_pack(out).load(load_places(out)).shape == (12, 24, 32, 3)
    record = json.loads((out / "convert.json").read_text())
    assert (record["reader"], record["fit"], record["size"]) == ("manifest", "pad", [32, 24])
    monkeypatch.setenv("COLUMNS", "30")
    shown = mappable("places", "show", out).stdout
    for text in ("16.5", "a[/b] [old]", r"conditions: $\bad{$"):
        assert text in shown
    outputs = [tmp_path / "map.png", tmp_path / "truth.tum"]
    summary = json.loads(
        mappable("places", "show", out, "--json", *(f"--out={file}" for file in outputs)).stdout
    )
    assert (summary["places"], summary["frames"][0]["unit"], summary["sequences"][0]["length"]) == (
        12,
        "m",
        16.5,
    )
    assert len(outputs[1].read_text().splitlines()) == 12
    with Image.open(outputs[0]) as drawn:
        assert drawn.width > 400


def test_sequences_are_kept_from_training(walks: Path, mappable: Run) -> None:
    before = load_places(walks)
    counts = json.loads(
        mappable(
            "places", "split", walks, "--calibration", "tue, wed", "--test", "thu, noon", "--json"
        ).stdout
    )
    assert {name: count["places"] for name, count in counts.items()} == {
        "train": 2,
        "calibration": 4,
        "test": 2,
    }
    places = load_places(walks)
    splits = {"mon": "train", "tue": "calibration", "wed": "calibration", "thu, noon": "test"}
    assert places.split.tolist() == [splits[name] for name in places.sequence]
    assert places.replace(split="") == before.replace(split="")
    save_places(places, walks / "table.csv")
    assert mappable("places", "split", walks / "table.csv", "--test", "wed").exit_code == 0
    assert set(load_places(walks / "table.csv").where(split="test").sequence) == {"wed"}


def test_one_process_at_a_time_changes_a_table(walks: Path, mappable: Run) -> None:
    with alone_in(walks, "working"):
        refused(mappable("places", "split", walks, "--test", "wed"), "another process")
        refused(
            mappable("convert", "manifest", walks.parent / "walks", walks, "--size", "32x24"),
            "another process",
        )
    assert set(load_places(walks).split) == {"test"}


def test_bad_rows_and_images(collection: Path, tmp_path: Path, mappable: Run) -> None:
    table, out = collection / "places.csv", tmp_path / "out"
    whole = table.read_text()
    table.write_text(whole.replace("day/7.jpg,10.5", "day/7.jpg,nan"))
    refused(mappable("convert", "manifest", collection, out), "places.csv, row 9", "'nan'")
    assert not out.exists()
    table.write_text(whole)
    (collection / "day/3.jpg").write_bytes(b"")
    convert = ("convert", "manifest", collection, out, "--size", "32x24")
    assert "day/3.jpg" in str(mappable(*convert).exception)
    result = mappable(*convert, "--on-bad-image", "drop")
    assert result.exit_code == 0
    assert "1 images were dropped" in result.stdout
    assert "day/3.jpg" not in load_places(out).path


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("places show /nowhere", "no such table of places"),
        ("convert manifest /nowhere out", "no such file or folder"),
        ("convert manifest . out --size big", "'big', expected WIDTHxHEIGHT"),
        ("convert manifest . .", "the collection itself is in this folder"),
    ],
)
def test_mistakes_are_answered_with_one_sentence(
    words: str, part: str, mappable: Run, collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(collection)
    refused(mappable(*words.split()), part)


@pytest.mark.medium
def test_ctrl_c_says_that_nothing_is_lost_and_the_next_run_goes_on(
    tmp_path: Path, draw: Draw, mappable: Run
) -> None:
    root, out = tmp_path / "set", tmp_path / "out"
    paths = [f"{number:03d}.jpg" for number in range(400)]
    image = draw(root / paths[0], size=(960, 720)).read_bytes()
    for path in paths[1:]:
        # Bytes after the end of a JPEG make another file.
        (root / path).write_bytes(image + path.encode())
    (root / "places.csv").write_text("\n".join(["path,x,y", *(f"{path},0,0" for path in paths)]))
    command = [*MAIN, "convert", "manifest", root, out]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    index = out / "pixels/240x180-crop/index.parquet"
    deadline = time.monotonic() + 60
    while not index.is_file() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.endswith(
        "error: stopped; finished work is kept, and the same command continues from there\n"
    )
    assert 0 < len(find_pack(out)) < 400
    assert mappable("convert", "manifest", root, out).exit_code == 0
    assert len(find_pack(out)) == 400
