"""Look at a folder, and name the readers that fit what is in it. Nothing is read, and nothing is decided."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from PIL import Image

from mappable.errors import BadInputError
from mappable.places import columns
from mappable.places.images import SUFFIXES
from mappable.tables import Table, read_table

# By reader: files and folders that show its format, as patterns below the root. The first match is the evidence.
LAYOUTS: dict[str, tuple[str, ...]] = {
    "simulated": ("world.json",),
    "rosbag": ("*.bag", "*.mcap", "*.db3", "metadata.yaml", "*/metadata.yaml"),
    "colmap": ("sparse/*/images.bin", "sparse/*/images.txt", "sparse/images.*", "images.bin", "images.txt"),
    "transforms": ("transforms.json", "transforms_train.json"),
    "kapture": ("sensors/records_camera.txt",),
    "euroc": ("mav0", "*/mav0"),
    "boreas": ("boreas-*/camera", "applanix/camera_poses.csv"),
    "nclt": ("groundtruth_????-??-??.csv", "*/lb3/Cam?"),
    "four_seasons": ("GNSSPoses.txt", "*/GNSSPoses.txt"),
    "kitti_360": ("data_poses/*/cam0_to_world.txt",),
    "kitti": ("sequences/*/image_?", "dataset/sequences", "oxts/data", "*/oxts/data", "*/*/oxts/data"),
    "robotcar": ("stereo/centre", "*/stereo/centre", "*_stereo_centre_*"),
    "cold": ("std_cam", "*/std_cam", "*/*/std_cam", "*/*/*/std_cam"),
    "msls": ("train_val", "*/database/postprocessed.csv", "database/postprocessed.csv"),
    "pittsburgh": ("queries_real", "pitts*.mat", "datasets/pitts*.mat"),
    "tum": ("groundtruth.txt", "*/groundtruth.txt"),
    "matrices": ("*.pose.txt", "*/*.pose.txt", "*/*/*.pose.txt", "pose/*.txt", "*/pose/*.txt"),
    "mapillary": ("*.jpg.json", "*/*.jpg.json"),
    "utm_names": ("@*@*@*", "*/@*@*@*", "*/*/@*@*@*", "*/*/*/@*@*@*"),
}
VIDEOS = (".mp4", ".mov", ".m4v", ".mkv", ".avi", ".mts", ".m2ts")
LOOKED_AT = 20  # images whose EXIF data is read
GPS_IFD = 0x8825


@dataclass(frozen=True)
class Proposal:
    """A reader that fits, the file or folder that shows it, and a remark about what to check."""

    reader: str
    evidence: str
    remark: str = ""


def propose(root: Path) -> list[Proposal]:
    """All readers that fit the folder or file `root`, the likeliest first."""
    if not root.exists():
        raise BadInputError(f"{root}: no such file or folder")
    found = list(_proposals(root.parent if root.is_file() else root, root))
    if not found:
        raise BadInputError(f"{root}: {_missing(root)}")
    return found


def _missing(root: Path) -> str:
    """Why no reader fits, and what to do."""
    table = "list your images in a table with the columns path, x and y (reader 'manifest')"
    if root.is_file():
        return f"no reader fits this file; give a video, a table or the folder of your images, or {table}"
    other = next((file.name for file in _files(root) if file.suffix.lower() in (".csv", ".parquet")), None)
    if other is not None:
        return f"no reader fits: the table {other} has other columns; {table}"
    image = next(_images(root), None)
    if image is None:
        return f"no reader fits: no images and no video are in it or its subfolders; give another folder, or {table}"
    where = image.relative_to(root)
    return f"no reader fits: there is no table of positions, and {where} has no GPS in its EXIF data; {table}"


def _proposals(folder: Path, root: Path) -> Iterator[Proposal]:
    for reader, patterns in LAYOUTS.items():
        matches = (next(iter(folder.glob(pattern)), None) for pattern in patterns)
        match = next((one for one in matches if one is not None and (root == folder or one == root)), None)
        if match is not None:
            yield Proposal(reader, match.relative_to(folder).as_posix(), REMARKS.get(reader, ""))
    if (folder / "poses.txt").is_file():
        yield from _beside_poses(folder)
    for file in [root] if root.is_file() else sorted(folder.iterdir()):
        if file.suffix.lower() in (".csv", ".parquet") and (names := _names_columns(file)):
            yield Proposal("manifest", f"{file.name} ({names})", "give the file itself if there are several tables")
            break
    video = next((file for file in _files(folder) if file.suffix.lower() in VIDEOS), None)
    if video is not None:
        yield Proposal("video", video.name, REMARKS["video"])
    located = next((file for file in islice(_images(folder), LOOKED_AT) if _has_gps(file)), None)
    if located is not None:
        yield Proposal("photos", f"{located.relative_to(folder).as_posix()} (GPS in its EXIF data)")


REMARKS = {
    "rosbag": "first look at the topics with --list",
    "colmap": "in units of the model; add --scale or --known for metres",
    "transforms": "in units of the scene; add --scale or --known for metres",
    "kapture": "in units; add --scale or --known for metres",
    "matrices": "in metres; add --scale if not",
    "video": "needs a track next to the video, or positions inside it",
}


def _beside_poses(folder: Path) -> Iterator[Proposal]:
    """poses.txt is KITTI's with 12 numbers per row, and of the reader `matrices` with 16 or 17."""
    with (folder / "poses.txt").open(errors="replace") as stream:
        words = len(stream.readline(10_000).split())
    if words in (12, 16, 17):
        yield Proposal("kitti" if words == 12 else "matrices", f"poses.txt ({words} values per row)")


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.iterdir()) if file.is_file())


def _images(folder: Path) -> Iterator[Path]:
    for level in ("*", "*/*"):
        yield from (file for file in folder.glob(level) if file.suffix.lower() in SUFFIXES)


def _names_columns(file: Path) -> str:
    """The columns of a table that the reader `manifest` would take, or "" if it would refuse the table."""
    try:
        if file.suffix.lower() == ".csv":
            with file.open(encoding="utf-8-sig", errors="replace") as stream:
                head = stream.readline(100_000)
            names = head.strip().split(max(",;\t", key=head.count))
            table = Table(file, {name.strip(): [] for name in names}, [])
        else:
            table = read_table(file)
        taken = columns.with_usual_names(table)[0].columns
    except (BadInputError, OSError):
        return ""
    pairs = (("path", "x", "y"), ("path", "latitude", "longitude"))
    return next((", ".join(pair) for pair in pairs if set(pair) <= taken.keys()), "")


def _has_gps(file: Path) -> bool:
    try:
        with Image.open(file) as image:
            return bool(image.getexif().get_ifd(GPS_IFD).get(2))
    except Exception:  # Pillow can raise almost any exception on damaged files
        return False
