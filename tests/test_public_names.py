"""The public interface: a name that vanishes breaks somebody's program."""

import ast
import subprocess
import sys
from pathlib import Path

import mappable

PUBLIC = {
    "BadImageError",
    "BadInputError",
    "Frame",
    "MappableError",
    "Note",
    "PackedImages",
    "Places",
    "concatenate",
    "convert",
    "crop_by_length",
    "distance_along",
    "draw_map",
    "far_from",
    "find_pack",
    "load_image",
    "load_places",
    "neighbours",
    "pack_images",
    "read_places",
    "reader_names",
    "save_places",
    "summarize",
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
