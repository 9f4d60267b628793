"""The command line as a user types it, in a separate process where that could matter."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from mappable.cli.places import split
from mappable.places import find_pack, load_places, save_places

Draw = Callable[..., Path]
Typed = Callable[..., "subprocess.CompletedProcess[str]"]


def mappable(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from mappable.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def collection(tmp_path: Path, draw: Draw) -> Path:
    root = tmp_path / "set"
    rows = []
    for number in range(12):
        draw(root / f"day/{number}.jpg")
        rows.append(f"day/{number}.jpg,{number * 1.5},0,{1_700_000_000 + number},day,train")
    (root / "places.csv").write_text("\n".join(["path,x,y,time,condition,split", *rows]))
    return root


def assert_one_sentence(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr


@pytest.mark.medium
def test_convert_then_show(collection: Path, tmp_path: Path, typed: Typed) -> None:
    out = tmp_path / "out"
    result = mappable("convert", "manifest", collection, out, "--size", "32x24", "--fit", "pad")
    assert result.returncode == 0, result.stderr
    assert "12 places" in result.stdout
    assert "16.5 m" in result.stdout
    places = load_places(out)
    assert find_pack(out).load(places).shape == (12, 24, 32, 3)
    record = json.loads((out / "convert.json").read_text())
    assert (record["reader"], record["fit"], record["size"]) == ("manifest", "pad", [32, 24])
    picture = tmp_path / "map.png"
    shown = json.loads(typed("places", "show", out, "--json", "--picture", picture).stdout)
    assert shown["places"] == 12
    assert shown["frames"][0]["unit"] == "m"
    assert shown["sequences"][0]["length"] == 16.5
    with Image.open(picture) as drawn:
        assert drawn.width > 400


@pytest.fixture
def walks(tmp_path: Path, draw: Draw, typed: Typed) -> Path:
    """The folder of a converted set: four sequences with two images each; one name contains a comma."""
    rows = []
    for number, name in enumerate(["mon", "tue", "wed", "thu, noon"] * 2):
        draw(tmp_path / f"walks/{number}.jpg")
        rows.append(f'{number}.jpg,{number},0,"{name}",test')
    (tmp_path / "walks/places.csv").write_text("\n".join(["path,x,y,sequence,split", *rows]))
    assert typed("convert", "manifest", tmp_path / "walks", tmp_path / "out", "--size", "32x24").returncode == 0
    return tmp_path / "out"


def test_sequences_are_kept_from_training(walks: Path, typed: Typed) -> None:
    before = load_places(walks)
    pixels = find_pack(walks).load(before)
    result = typed("places", "split", walks, "--calibration", "tue, wed", "--test", "thu, noon")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "train: 1 sequence, 2 places\ncalibration: 2 sequences, 4 places\ntest: 1 sequence, 2 places\n"
    )
    places = load_places(walks)
    splits = {"mon": "train", "tue": "calibration", "wed": "calibration", "thu, noon": "test"}
    assert places.split.tolist() == [splits[name] for name in places.sequence]
    assert places.replace(split="") == before.replace(split="")
    assert (places.root, places.notes) == (before.root, before.notes)
    assert (find_pack(walks).load(places) == pixels).all()
    assert typed("places", "split", walks / "places.parquet", "--calibration", "mon").returncode == 0
    again = load_places(walks)
    assert set(again.where(split="train").sequence) == {"tue", "wed", "thu, noon"}
    save_places(again, walks / "table.csv")
    assert typed("places", "split", walks / "table.csv", "--test", "wed").returncode == 0
    assert set(load_places(walks / "table.csv").where(split="test").sequence) == {"wed"}


def test_only_the_named_sequences_train(walks: Path) -> None:
    split(walks, train="mon", test="tue")
    places = load_places(walks)
    splits = {"mon": "train", "tue": "test", "wed": "", "thu, noon": ""}
    assert places.split.tolist() == [splits[name] for name in places.sequence]


@pytest.mark.medium
def test_a_table_is_checked_and_drawn_by_overlap(walks: Path, typed: Typed, tmp_path: Path) -> None:
    said = typed("places", "check", walks)
    assert said.returncode == 0
    assert "nothing to mend" in said.stdout or "warning: " in said.stdout
    picture = tmp_path / "overlap.png"
    assert typed("places", "show", walks, "--picture", picture, "--color", "overlap").returncode == 0
    with Image.open(picture) as drawn:
        assert drawn.width > 400


def test_queries_do_not_train_after_a_split(walks: Path) -> None:
    places = load_places(walks)
    roles = ["query" if name == "wed" else "reference" for name in places.sequence]
    save_places(places.replace(split="", role=roles), walks / "places.parquet")
    split(walks, calibration="mon")
    after = load_places(walks)
    assert {name: set(after.split[rows]) for name, rows in after.sequences().items()} == {
        "mon": {"calibration"}, "tue": {"train"}, "wed": {"test"}, "thu, noon": {"train"}
    }  # fmt: skip
    assert set(after.role[after.training()]) == {"reference"}


def test_a_split_that_cannot_be_leaves_the_table_as_it_was(walks: Path, typed: Typed) -> None:
    def refused(part: str, *options: str, table: Path = walks) -> None:
        assert_one_sentence(typed("places", "split", table, *options), part)
        assert set(load_places(table).split) == {"test"}

    refused("no sequence 'fri'; its sequences are 'mon', 'tue', 'wed', 'thu, noon'", "--calibration", "fri")
    refused("has no sequence 'thu'", "--test", "mon,tue,wed,thu")
    refused("sequence 'tue' is given twice", "--calibration", "tue,tue")
    refused("sequence 'tue' is given twice", "--calibration", "tue", "--test", "mon,tue")
    refused("give --calibration, --test or --train")
    refused("give --calibration, --test or --train", "--calibration", "")
    two, none = walks / "two.parquet", walks / "none.parquet"
    save_places(load_places(walks).where(sequence=("mon", "tue")), two)
    refused("no sequence is left for training; its sequences are 'mon', 'tue'", "--calibration", "mon,tue", table=two)
    save_places(load_places(walks).replace(sequence=""), none)
    refused("give --calibration, --test or --train", table=none)
    refused("has no sequence 'mon'; its only sequence is ''", "--test", "mon", table=none)


@pytest.mark.medium
def test_a_reader_that_does_not_exist_lists_those_that_do(tmp_path: Path) -> None:
    result = mappable("convert", "nope", tmp_path, tmp_path / "out")
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    for part in ("'nope'", "manifest", "robotcar", "tum"):
        assert part in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.medium
def test_help_explains_each_reader_with_its_tree_and_options(typed: Typed) -> None:
    listed = typed("convert", "--help").stdout
    for name in ("cold", "kitti", "manifest", "msls", "photos", "pittsburgh", "robotcar", "tum", "utm_names", "video"):
        assert name in listed
    text = typed("convert", "manifest", "--help").stdout
    assert "places.csv" in text
    assert "--time-unit" in text


def test_bad_rows_are_named_and_nothing_is_written(collection: Path, tmp_path: Path, typed: Typed) -> None:
    table = collection / "places.csv"
    table.write_text(table.read_text().replace("day/7.jpg,10.5", "day/7.jpg,nan"))
    assert_one_sentence(typed("convert", "manifest", collection, tmp_path / "out"), "places.csv, row 9", "'nan'")
    assert not (tmp_path / "out").exists()


def test_a_bad_image_stops_or_is_dropped_as_the_user_chooses(collection: Path, tmp_path: Path, typed: Typed) -> None:
    (collection / "day/3.jpg").write_bytes(b"")
    out = tmp_path / "out"
    assert_one_sentence(typed("convert", "manifest", collection, out, "--size", "32x24"), "day/3.jpg", "empty")
    result = typed("convert", "manifest", collection, out, "--size", "32x24", "--on-bad-image", "drop")
    assert result.returncode == 0
    assert "1 images were dropped" in result.stdout
    assert "day/3.jpg: empty file" in result.stdout.replace("\n", "")
    places = load_places(out)
    assert "day/3.jpg" not in places.path
    assert len(places) == 11


def test_a_folder_that_holds_another_set_is_not_overwritten_unasked(
    collection: Path, tmp_path: Path, draw: Draw, typed: Typed
) -> None:
    out = tmp_path / "out"
    assert typed("convert", "manifest", collection, out, "--no-pixels").returncode == 0
    other = tmp_path / "other"
    draw(other / "a.jpg")
    (other / "places.csv").write_text("path,x,y\na.jpg,0,0\n")
    assert_one_sentence(typed("convert", "manifest", other, out), str(collection), "--overwrite")
    assert len(load_places(out)) == 12
    assert typed("convert", "manifest", other, out, "--overwrite", "--no-pixels").returncode == 0
    assert len(load_places(out)) == 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("places", "show", "/nowhere"), "no such table of places"),
        (("convert", "manifest", "/nowhere", "out"), "no such file or folder"),
        (("convert", "manifest", ".", "out", "--size", "big"), "'big', expected WIDTHxHEIGHT"),
    ],
)
def test_mistakes_are_answered_with_one_sentence(arguments: tuple[str, ...], part: str, typed: Typed) -> None:
    assert_one_sentence(typed(*arguments), part)


@pytest.mark.medium
def test_ctrl_c_says_that_nothing_is_lost_and_the_next_run_goes_on(tmp_path: Path, draw: Draw, typed: Typed) -> None:
    root, out = tmp_path / "set", tmp_path / "out"
    paths = [f"{number:03d}.jpg" for number in range(400)]
    image = draw(root / paths[0], size=(960, 720)).read_bytes()
    for path in paths[1:]:
        (root / path).write_bytes(image + path.encode())  # bytes after the end of a JPEG make another file
    (root / "places.csv").write_text("\n".join(["path,x,y", *(f"{path},0,0" for path in paths)]))
    command = [sys.executable, "-c", "from mappable.cli import main; main()", "convert", "manifest", root, out]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    index = out / "pixels/240x180-crop/index.parquet"
    deadline = time.monotonic() + 60
    while not index.is_file() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("error: stopped; ")
    assert errors.endswith("the same command continues from there\n")
    assert 0 < len(find_pack(out)) < 400
    assert typed("convert", "manifest", root, out).returncode == 0
    assert len(find_pack(out)) == 400


@pytest.mark.medium
def test_odd_names_and_narrow_terminals_lose_nothing(
    collection: Path, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = collection / "places.csv"
    table.write_text(table.read_text().replace(",day,train", r",$\bad{$,train"))
    options = ("--frame", "a[/b] [old]", "--no-pixels")
    assert typed("convert", "manifest", collection, tmp_path / "out", *options).returncode == 0
    monkeypatch.setenv("COLUMNS", "30")
    shown = typed("places", "show", tmp_path / "out", "--picture", tmp_path / "out/map.png")
    assert shown.returncode == 0, shown.stderr
    for text in ("frame a[/b] [old]: 16.5 x 0.0 m", "16.5 m", "1.50 m", r"$\bad{$ 12"):
        assert text in shown.stdout
    assert (tmp_path / "out/map.png").stat().st_size > 1000


def test_a_picture_that_cannot_be_written_is_one_sentence_after_the_summary(
    collection: Path, tmp_path: Path, typed: Typed
) -> None:
    assert typed("convert", "manifest", collection, tmp_path / "out", "--no-pixels").returncode == 0
    result = typed("places", "show", tmp_path / "out", "--picture", tmp_path / "map.xyz")
    assert "12 places" in result.stdout
    assert_one_sentence(result, "map.xyz", "png")


def test_what_is_made_of_a_collection_does_not_go_into_it(collection: Path, typed: Typed) -> None:
    assert_one_sentence(typed("convert", "manifest", collection, collection), "the collection itself is in this folder")
