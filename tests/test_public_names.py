"""The public interface: a name that vanishes breaks somebody's program."""

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mappable

PUBLIC = {
    "About",
    "Anchors",
    "BadImageError",
    "BadInputError",
    "Calibration",
    "Densified",
    "Encoder",
    "FastEncoder",
    "Frame",
    "LOSS_NAMES",
    "Location",
    "Locator",
    "Loss",
    "Map",
    "MappableError",
    "NO_TIME",
    "Neighbours",
    "Note",
    "Odometry",
    "PackedImages",
    "Places",
    "Ranges",
    "Recovered",
    "Result",
    "Settings",
    "Simulated",
    "TrainingStopped",
    "Turns",
    "build_map",
    "calibrate",
    "concatenate",
    "convert",
    "crop_by_length",
    "densify",
    "distance_along",
    "draw_map",
    "evaluate_map",
    "draw_reliability",
    "find_pack",
    "greedy_landmarks",
    "in_frames",
    "load_image",
    "load_places",
    "load_settings",
    "locate_sequence",
    "neighbours",
    "pack_images",
    "ranges_between",
    "read_places",
    "reader_names",
    "recover",
    "recover_anchored",
    "save_places",
    "sequential_landmarks",
    "simulate",
    "summarize",
    "train",
    "write_simulated",
}


def test_no_public_name_has_vanished_and_each_is_documented() -> None:
    assert set(mappable.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(mappable, name).__doc__, f"{name} says nothing about itself"


def test_type_checkers_see_the_same_names_as_programs_do() -> None:
    tree = ast.parse(Path(mappable.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == PUBLIC


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import sys, mappable; print([name for name in ('numpy', 'torch', 'pyarrow') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


USING_A_CONVERTED_SET = """
import sys
for name in ("pyproj", "simplejpeg", "xxhash", "filelock", "av"):
    sys.modules[name] = None
import mappable, mappable.cli.app
places = mappable.load_places(sys.argv[1])
print(mappable.find_pack(sys.argv[1]).load(places).shape, mappable.neighbours(places, 1.5).counts.tolist())
"""


def test_a_converted_set_is_used_without_the_libraries_that_converted_it(
    tmp_path: Path, draw: Callable[..., Path]
) -> None:
    for number in range(3):
        draw(tmp_path / f"set/{number}.jpg")
    (tmp_path / "set/places.csv").write_text("path,x,y\n0.jpg,0,0\n1.jpg,1,0\n2.jpg,2,0\n")
    mappable.convert("manifest", tmp_path / "set", tmp_path / "out", size=(32, 24))
    command = [sys.executable, "-c", USING_A_CONVERTED_SET, str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout.strip() == "(3, 24, 32, 3) [1, 2, 1]", result.stderr
