"""`mappable follow`: images as they come, with odometry, and with a state that survives a reboot."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import Result

from mappable.locks import alone_with
from mappable.places import load_places
from refusals import refused

Run = Callable[..., Result]
COUNT = 30


@pytest.fixture
def drive(wall: Path, tmp_path: Path) -> Path:
    """A folder with images of the drive `fog`, named by seconds."""
    folder = tmp_path / "drive"
    folder.mkdir()
    for n, file in enumerate(sorted((wall / "fog").iterdir())[:COUNT]):
        shutil.copy(file, folder / f"{100 + n / 2:.1f}.png")
    return folder


@pytest.fixture
def moved(wall: Path, tmp_path: Path) -> Path:
    """Odometry of that drive: poses in a frame of its own."""
    at = load_places(wall).where(sequence="fog").positions[:COUNT]
    poses = np.column_stack([-at[:, 1] + 7, at[:, 0], np.full(COUNT, np.pi / 2)])
    rows = [f"{100 + n / 2},{x},{y},{yaw}" for n, (x, y, yaw) in enumerate(poses.tolist())]
    (tmp_path / "odometry.csv").write_text("\n".join(["time,x,y,yaw", *rows]) + "\n")
    return tmp_path / "odometry.csv"


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def errors(wall: Path, found: list[dict[str, Any]]) -> Any:
    at = load_places(wall).where(sequence="fog").positions
    return np.array(
        [np.linalg.norm(at[round(2 * (one["time"] - 100))] - one["position"]) for one in found]
    )


def test_a_folder_is_followed(
    mappable: Run, wall: Path, wall_map: Path, drive: Path, moved: Path
) -> None:
    for more in ((), ("--odometry", moved)):
        found = lines(mappable("follow", wall_map, drive, "--json", *more))
        assert [one["time"] for one in found] == [100 + n / 2 for n in range(COUNT)]
        assert found[0]["position"] is None
        trusted = [one for one in found if one["trusted"]]
        assert len(trusted) > COUNT / 2
        assert np.median(errors(wall, trusted)) < 3
    every = lines(mappable("follow", wall_map, drive, "--json", "--all"))
    assert all(one["position"] for one in every)


def test_a_reboot_goes_on(
    mappable: Run, wall_map: Path, drive: Path, moved: Path, tmp_path: Path
) -> None:
    whole = lines(mappable("follow", wall_map, drive, "--json", "--odometry", moved))
    early, state = sorted(drive.iterdir())[:15], tmp_path / "state.safetensors"
    options = ("--json", "--odometry", moved, "--state", state)
    assert lines(mappable("follow", wall_map, *early, *options)) == whole[:15]
    with alone_with(state):  # as another process would
        refused(
            mappable("follow", wall_map, drive, *options),
            "state.safetensors",
            "another process uses this file",
        )
    result = mappable("follow", wall_map, drive, *options)
    assert lines(result) == whole[15:]
    assert "skipped 15 images" in result.stderr


def test_odometry_of_another_time_is_refused(
    mappable: Run, wall_map: Path, drive: Path, moved: Path
) -> None:
    text = moved.read_text().splitlines()
    moved.write_text("\n".join(text[:8]) + "\n")  # of 7 images
    part = mappable("follow", wall_map, drive, "--odometry", moved)
    assert part.exit_code == 0
    assert "odometry.csv covers 6 of 29 steps between images" in part.stderr
    moved.write_text(
        "\n".join([text[0], *(f"{float(row[:5]) + 500}{row[5:]}" for row in text[1:])]) + "\n"
    )
    ranges = ("the poses are from 600.000 to 614.500 s", "the images from 100.000 to 114.500 s")
    refused(mappable("follow", wall_map, drive, "--odometry", moved), "odometry.csv", *ranges)


@pytest.mark.medium
def test_a_folder_that_grows(mappable: Run, wall_map: Path, drive: Path, tmp_path: Path) -> None:
    growing, files = tmp_path / "growing", sorted(drive.iterdir())[:4]
    growing.mkdir()

    def grow() -> None:
        for file in files:
            content = file.read_bytes()
            with (growing / file.name).open("wb") as stream:  # in two parts
                stream.write(content[:100])
                stream.flush()
                time.sleep(0.1)
                stream.write(content[100:])

    writer = threading.Thread(target=grow)
    writer.start()
    found = lines(mappable("follow", wall_map, growing, "--json", "--wait", 1.0))
    writer.join()
    assert [one["time"] for one in found] == [100.0, 100.5, 101.0, 101.5]


def test_a_video_is_followed(mappable: Run, wall_map: Path, drive: Path, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "drive.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 64, 48, "yuv420p", 4_000_000
        for file in sorted(drive.iterdir()):
            container.mux(stream.encode(av.VideoFrame.from_image(Image.open(file))))
        container.mux(stream.encode())
    found = lines(mappable("follow", wall_map, tmp_path / "drive.mp4", "--json"))
    assert len(found) == COUNT
    assert found[10]["time"] == pytest.approx(1.0)
    assert any(one["trusted"] for one in found)
    thinned = lines(mappable("follow", wall_map, tmp_path / "drive.mp4", "--json", "--every", 0.2))
    assert [round(estimate["time"], 3) for estimate in thinned[:5]] == [0.0, 0.2, 0.4, 0.6, 0.8]


def test_bad_sources_and_odometry_are_one_sentence(
    mappable: Run, wall: Path, wall_map: Path, drive: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for sources, words in [
        ((tmp_path / "empty",), "no images"),
        ((drive, drive), "folder"),
        ((wall,), "sequences"),
    ]:
        refused(mappable("follow", wall_map, *sources), words)
    (tmp_path / "bad.csv").write_text("time,x,y,yaw\n1,0,nan,0\n2,0,0,0\n")
    refused(
        mappable("follow", wall_map, drive, "--odometry", tmp_path / "bad.csv"),
        "row 2: column 'y' is 'nan'",
    )
    refused(mappable("follow", wall_map, drive, "--out", tmp_path / "run.bag"), "run.bag")


@pytest.mark.medium
def test_ctrl_c_saves_the_state(
    backbones_folder: Path, wall_map: Path, drive: Path, tmp_path: Path
) -> None:
    known = (
        "from mappable.features import backbones;"
        f" backbones.__path__.append({str(backbones_folder)!r}); "
    )
    run = [
        sys.executable,
        "-c",
        f"{known}from mappable.cli import main; main()",
        "follow",
        str(wall_map),
        str(drive),
    ]
    run += ["--wait", "inf", "--state", str(tmp_path / "state.safetensors")]
    with subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(COUNT):
            assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert (tmp_path / "state.safetensors").is_file()
