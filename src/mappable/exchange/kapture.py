"""A folder of kapture with positions of images. All of its rotations are the same."""

from pathlib import Path

from mappable.exchange.poses import Poses
from mappable.files import written_together

HEAD = "# kapture format: 1.1\n"
FILES = {  # name and columns
    "sensors.txt": "# sensor_id, name, sensor_type, [sensor_params]+\n",
    "records_camera.txt": "# timestamp, device_id, image_path\n",
    "trajectories.txt": "# timestamp, device_id, qw, qx, qy, qz, tx, ty, tz\n",
}


def files_of_kapture(folder: Path) -> list[Path]:
    """The files that `write_kapture` writes."""
    return [folder / "sensors" / name for name in FILES]


def check_commas(poses: Poses) -> str | None:
    """Why kapture's tables cannot hold the paths of the images; None if they can."""
    if poses.places is None:
        return "needs image files: give a folder or files"
    wrong = next((path for path in poses.places.path if "," in path), None)
    return wrong and f"cannot contain the path {wrong!r} with a comma; rename the file or folder"


def write_kapture(folder: Path, poses: Poses) -> int:
    """Write cameras, images and the trusted positions."""
    devices = [pose.sequence.replace(",", "_") or "camera" for pose in poses.poses]
    stamps = poses.stamps if poses.timed else list(range(len(poses)))
    # Cameras that took images at the same time.
    if len(set(zip(stamps, devices, strict=True))) < len(stamps):
        stamps = list(range(len(poses)))
    sensors = [f"{name}, , camera, UNKNOWN_CAMERA, 0, 0\n" for name in sorted(set(devices))]
    records = [
        f"{stamps[row]}, {devices[row]}, {pose.path}\n" for row, pose in enumerate(poses.poses)
    ]
    trajectory = []
    for row, pose in poses.trusted:
        x, y, z = (f"{-value + 0.0:.6f}" for value in pose.xyz)  # from world to camera
        trajectory.append(f"{stamps[row]}, {devices[row]}, 1, 0, 0, 0, {x}, {y}, {z}\n")
    with written_together(*files_of_kapture(folder)) as names:
        for name, columns, lines in zip(
            names, FILES.values(), (sensors, records, trajectory), strict=True
        ):
            name.write_text("".join([HEAD, columns, *lines]), encoding="utf-8")
    return len(trajectory)
