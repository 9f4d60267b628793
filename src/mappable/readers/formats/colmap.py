"""COLMAP models: images with poses from a sparse reconstruction, text or binary.

    ROOT/                  or ROOT may be the folder of a model, next to a folder of images
      sparse/
        0/                 a model; several models are 0, 1, …
          images.bin       or images.txt
          cameras.bin      or cameras.txt; optional: its lenses undistort the images
          points3D.bin     or points3D.txt; optional: its points show the ground
      images/              the images, under the names in the model; option `images`
        left/0001.jpg

Binary models need pycolmap: `pip install 'mappable[colmap]'`. Without it, write the model as text:
`colmap model_converter --output_type TXT`.

A model has no scale and no up. The reader estimates up from the cameras, because people and robots
hold cameras level. Then x and y are horizontal. `--up` replaces the estimate. If the points of the
model show the ground, z is the height above it; else, z is the height relative to the median
camera. Notes state up and ground.

The unit of the positions is `units` of the model, never metres, until the scale is known:

- `--scale 0.37` states the metres per unit of the model. Use `--scale 1` if the model is already in
  metres, for example after `colmap model_aligner`.
- `--known FILE` names a table with positions of at least two images: `path` and `x`, `y` in metres,
  or `latitude` and `longitude`. Scale, direction and origin come from them. A `.txt` file has
  `image x y z` per line, as COLMAP's lists.

A note states how well known positions fit. `mappable convert` writes undistorted copies of images
with lens distortion, unless `--no-undistort` is given. It has no lens for FOV, EUCM, division and
thin prism models: a note lists them. The images of one folder are one sequence, in order of their
names. Times are unknown.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated

from mappable.errors import BadInputError, listed
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.colmap import Model, has_model, read_model
from mappable.readers.models import KnownOption, ScaleOption, UpOption

LAYOUT = (
    "sparse/*/images.bin",
    "sparse/*/images.txt",
    "sparse/images.*",
    "images.bin",
    "images.txt",
)
REMARK = "in units of the model; add --scale or --known for metres"


def read(
    root: Path,
    found: Findings,
    *,
    model: Annotated[
        str | None, "folder of the model, such as sparse/1 (default: the model with most images)"
    ] = None,
    images: Annotated[str, "folder of the images, relative to ROOT"] = "images",
    up: UpOption = "estimate",
    scale: ScaleOption = None,
    known: KnownOption = None,
) -> Places:
    folder, content = _find_model(root, model, found)
    homes = [root, *list(folder.resolve().parents)[:2]]
    base = next((home / images for home in homes if (home / images).is_dir()), None)
    if base is None:
        raise BadInputError(
            f"{root}: no folder {images}; name the folder of the images with the option images"
        )
    cameras, name = content.cameras, root.resolve().name
    if content.bent:
        kinds = ", ".join(content.bent)
        found.say(
            f"cameras of the kind {kinds} cannot be undistorted; their images stay as they are"
        )
    parents = [PurePosixPath(image).parent.as_posix() for image in cameras.names]
    sequence = [name if parent == "." else parent for parent in parents]
    return cameras.place(
        name, found, up, scale, known, content.points, root=base, sequence=sequence
    )


def lenses(root: Path, model: str | None, **_: object) -> dict[str, Lens]:
    """The lenses of distorted images, by their paths."""
    return _find_model(root, model, Findings())[1].lenses


def _find_model(root: Path, wanted: str | None, found: Findings) -> tuple[Path, Model]:
    if wanted is not None:
        return root / wanted, read_model(root / wanted)
    places = [root, root / "sparse", *sorted(root.glob("sparse/*")), *sorted(root.glob("*"))]
    models = {folder: read_model(folder) for folder in places if has_model(folder)}
    if not models:
        raise BadInputError(
            f"{root}: no images.bin or images.txt of a COLMAP model here, in sparse or in sparse/0"
        )
    best = max(models, key=lambda folder: len(models[folder].cameras.names))
    others = [folder.relative_to(root).as_posix() for folder in models if folder != best]
    if others:
        text = (
            f"{best.relative_to(root)} has most images ({len(models[best].cameras.names):,}) and"
            " was read"
        )
        found.say(f"{text}; not read: {listed(others)}; choose with the option model")
    return best, models[best]
