"""The public interface: a name that vanishes breaks somebody's program."""

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import mappable
from mappable.lazy_names import homes

ROOMS = (
    "places",
    "readers",
    "features",
    "learning",
    "maps",
    "localization",
    "evaluation",
    "recovery",
)


def names(package: ModuleType) -> dict[str, str]:
    """The public names of a package, other than its rooms, with the modules that define them."""
    assert package.__file__ is not None
    return {name: home for name, home in homes(package.__file__).items() if home != "mappable"}


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_each_public_name_is_there_and_documented(room: str) -> None:
    package = getattr(mappable, room) if room else mappable
    modules = {file.stem for file in Path(package.__file__).parent.iterdir()}
    for name, home in names(package).items():
        assert getattr(package, name) is getattr(import_module(home), name)
        assert getattr(package, name).__doc__, f"{name} says nothing about itself"
        assert name not in modules, (
            f"importing the module {name} would hide the name {package.__name__}.{name}"
        )


@pytest.mark.medium
def test_importing_the_package_loads_no_heavy_library() -> None:
    code = (
        "import sys, mappable.maps; print([name for name in ('numpy', 'torch', 'pyarrow') if name"
        " in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


USING_A_CONVERTED_SET = """
import sys
for name in ("pyproj", "simplejpeg", "filelock", "av"):
    sys.modules[name] = None
import mappable, mappable.cli.app
places = mappable.load_places(sys.argv[1])
near = mappable.places.find_neighbors(places, 1.5)
print(mappable.places.find_pack(sys.argv[1]).load(places).shape, near.counts.tolist())
"""


@pytest.mark.medium
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
