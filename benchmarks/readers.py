"""Time and memory of the readers for 100,000 positions each. Images are empty files, as no pixel is decoded.

    TMPDIR=/dev/shm python benchmarks/readers.py       # three minutes; files in memory, a kind at a time
    python benchmarks/readers.py colmap.bin gpx        # some kinds only
    python benchmarks/readers.py --count 1000

Each kind is read once, in a fresh process, after its imports. Memory is the peak of that process. `rosbag` needs the
extra `ros`; its bags have 10 images, because the reader copies images out of a bag.
"""

import argparse
import json
import math
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

STEP = 0.5  # metres between images
START = 1_600_000_000  # seconds
LIMIT_S, LIMIT_MB = 30, 2000
READ = r"""
import json, re, sys, time
from pathlib import Path
from mappable.places.gpx import read_track
from mappable.places.readers import read_places
reader, root, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
start = time.perf_counter()
found = len(read_track(root).time if reader == "track" else read_places(reader, root, **options))
spent = time.perf_counter() - start
peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())  # ru_maxrss counts the parent too
print(json.dumps([found, spent, int(peak[1]) / 1024]))
"""
Made = tuple[str, Path, dict[str, object]]  # reader, ROOT and options


def along(count: int) -> Iterable[tuple[int, float, float, float]]:
    """Number, x, y and yaw of each image on a winding route."""
    return ((row, STEP * row, 50 * math.sin(row / 200), math.cos(row / 200) / 4) for row in range(count))


def write(file: Path, lines: Iterable[str], head: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(head + "\n".join(lines) + "\n")


def touch(folder: Path, names: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def matrix(x: float, y: float, yaw: float, opengl: bool = False) -> list[float]:
    """The matrix (16 numbers) of a level camera in a world with z up, from camera to world."""
    c, s, turn = math.cos(yaw), math.sin(yaw), -1 if opengl else 1
    return [s, 0, turn * c, x, -c, 0, turn * s, y, 0, -turn, 0, 0, 0, 0, 0, 1]


def text(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.9g}" for number in numbers)


def degrees(x: float, y: float) -> tuple[float, float]:
    return 51.7 + y / 111_000, -1.2 + x / 69_000


def world_to_camera(x: float, y: float) -> list[float]:
    """Quaternion w x y z and translation of a camera that looks along +y of a world with z up."""
    half = math.sqrt(0.5)
    return [half, half, 0, 0, -x, 0, -y]


def boreas(root: Path, count: int) -> Made:
    drive = root / "boreas-2021-01-26-11-22"
    times = [START * 10**6 + 10**5 * row for row in range(count)]
    rows = (f"{times[row]},{x},{y},0,1,0,0,1.57,0,{yaw},0,0,0" for row, x, y, yaw in along(count))
    write(drive / "applanix/camera_poses.csv", rows, "GPSTime,e,n,a,ve,vn,vu,roll,pitch,heading,wz,wy,wx\n")
    touch(drive / "camera", (f"{time}.png" for time in times))
    return "boreas", root, {}


def colmap_bin(root: Path, count: int) -> Made:
    (root / "sparse/0").mkdir(parents=True)
    (root / "images").mkdir()
    with (root / "sparse/0/images.bin").open("wb") as stream:
        stream.write(struct.pack("<Q", count))
        for row, x, y, _ in along(count):
            stream.write(struct.pack("<I7dI", row + 1, *world_to_camera(x, y), 1))
            stream.write(f"{row:06d}.jpg\0".encode() + struct.pack("<Q", 20) + bytes(20 * 24))
    return "colmap", root, {}


def colmap_txt(root: Path, count: int) -> Made:
    (root / "images").mkdir()
    features = " ".join(["10.5 20.5 -1"] * 20)
    rows = (f"{row + 1} {text(world_to_camera(x, y))} 1 {row:06d}.jpg\n{features}" for row, x, y, _ in along(count))
    write(root / "sparse/0/images.txt", rows)
    return "colmap", root, {}


def transforms(root: Path, count: int) -> Made:
    entries = []
    for row, x, y, yaw in along(count):
        flat = matrix(x, y, yaw, opengl=True)
        entries.append(
            {"file_path": f"images/{row:06d}.png", "transform_matrix": [flat[at : at + 4] for at in range(0, 16, 4)]}
        )
    write(root / "transforms.json", [json.dumps({"frames": entries})])
    touch(root / "images", (f"{row:06d}.png" for row in range(count)))
    return "transforms", root, {}


def kapture(root: Path, count: int) -> Made:
    head = "# kapture format: 1.1\n"
    write(root / "sensors/records_camera.txt", (f"{row}, cam, {row:06d}.jpg" for row in range(count)), head)
    poses = (f"{row}, cam, {', '.join(text(world_to_camera(x, y)).split())}" for row, x, y, _ in along(count))
    write(root / "sensors/trajectories.txt", poses, head)
    return "kapture", root, {}


def euroc(root: Path, count: int) -> Made:
    times = [START * 10**9 + 5 * 10**7 * row for row in range(count)]
    poses = (f"{times[row]},{x},{y},0,0.70710678,-0.70710678,0,0" for row, x, y, _ in along(count))
    write(root / "mav0/state_groundtruth_estimate0/data.csv", poses, "#timestamp,px,py,pz,qw,qx,qy,qz\n")
    write(root / "mav0/cam0/data.csv", (f"{time},{time}.png" for time in times), "#timestamp,filename\n")
    touch(root / "mav0/cam0/data", (f"{time}.png" for time in times))
    return "euroc", root, {}


def nclt(root: Path, count: int) -> Made:
    times = [START * 10**6 + 10**5 * row for row in range(count)]
    write(root / "groundtruth_2012-01-08.csv", (f"{times[row]},{y},{x},0,0,0,{yaw}" for row, x, y, yaw in along(count)))
    touch(root / "2012-01-08/lb3/Cam5", (f"{time}.tiff" for time in times))
    return "nclt", root, {}


def kitti_360(root: Path, count: int) -> Made:
    drive = "2013_05_28_drive_0000_sync"
    rows = (f"{row} {text(matrix(x, y, yaw))}" for row, x, y, yaw in along(count))
    write(root / "data_poses" / drive / "cam0_to_world.txt", rows)
    touch(root / "data_2d_raw" / drive / "image_00/data_rect", (f"{row:010d}.png" for row in range(count)))
    return "kitti_360", root, {}


def four_seasons(root: Path, count: int) -> Made:
    none = "0,0,0,0,0,0,1"
    earth = "4177000,855000,4728000,0,0,0,1"
    write(root / "Transformations.txt", (f"# {number}\n{none if number < 4 else earth}" for number in range(5)))
    times = [START * 10**9 + 10**8 * row for row in range(count)]
    rows = (f"{times[row]},{x},{y},0,0,0.70710678,0,0.70710678,1,2,0" for row, x, y, _ in along(count))
    write(root / "GNSSPoses.txt", rows)
    touch(root / "undistorted_images/cam0", (f"{time}.png" for time in times))
    return "four_seasons", root, {}


def kitti_raw(root: Path, count: int) -> Made:
    drive = root / "2011_09_26/2011_09_26_drive_0001_sync"
    touch(drive / "image_02/data", (f"{row:010d}.png" for row in range(count)))
    (drive / "oxts/data").mkdir(parents=True)
    for row, x, y, yaw in along(count):
        (drive / "oxts/data" / f"{row:010d}.txt").write_text(text([*degrees(x, y), 100, 0, 0, yaw, *[0] * 24]) + "\n")
    return "kitti", root, {}


def mapillary(root: Path, count: int) -> Made:
    entries = []
    for row, x, y, _ in along(count):
        latitude, longitude = degrees(x, y)
        place = {"type": "Point", "coordinates": [longitude, latitude]}
        entries.append({"id": str(10**14 + row), "computed_geometry": place, "captured_at": START * 1000 + row})
    write(root / "images.json", [json.dumps({"data": entries})])
    touch(root, (f"{10**14 + row}.jpg" for row in range(count)))
    return "mapillary", root, {}


def matrices(root: Path, count: int) -> Made:
    write(root / "walk/poses.txt", (text(matrix(x, y, yaw)) for _, x, y, yaw in along(count)))
    touch(root / "walk/images", (f"{row:06d}.png" for row in range(count)))
    return "matrices", root, {}


def seven_scenes(root: Path, count: int) -> Made:
    touch(root / "seq-01", (f"frame-{row:06d}.color.png" for row in range(count)))
    for row, x, y, yaw in along(count):
        (root / "seq-01" / f"frame-{row:06d}.pose.txt").write_text(text(matrix(x, y, yaw)))
    return "matrices", root, {}


def manifest(root: Path, count: int) -> Made:
    rows = (f"{row:06d}.jpg,{degrees(x, y)[0]},{degrees(x, y)[1]}" for row, x, y, _ in along(count))
    write(root / "places.csv", rows, "image_file,Latitude,Longitude\n")
    return "manifest", root, {}


def tum(root: Path, count: int) -> Made:
    rows = (f"{START + row / 10:.6f} {text([x, y, 0, -0.5, 0.5, -0.5, 0.5])}" for row, x, y, _ in along(count))
    write(root / "groundtruth.txt", rows)
    write(root / "rgb.txt", (f"{START + row / 10:.6f} rgb/{row:06d}.png" for row in range(count)))
    touch(root / "rgb", (f"{row:06d}.png" for row in range(count)))
    return "tum", root, {}


def bag(kind: str) -> Callable[[Path, int], Made]:
    def make(root: Path, count: int) -> Made:
        bags = import_module("trust.bags")
        writer = bags.BagWriter(kind)
        for row, x, y, _ in along(count):
            writer.add_pose("/pose", bags.START + 10**8 * row, (x, y, 0))
        for number in range(10):
            time = bags.START + 10**8 * number * (count // 10)
            writer.add_compressed("/camera/image/compressed", time, bags.noise(number))
        return "rosbag", writer.write(root, "drive"), {"spacing": 0}

    return make


def stamp(row: int) -> str:
    hours, rest = divmod(row, 3600)
    return f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"


def gpx(root: Path, count: int) -> Made:
    rows = []
    for row, x, y, _ in along(count):
        latitude, longitude = degrees(x, y)
        day = 1 + row // 86_400
        time = f"2024-05-{day:02d}T{stamp(row % 86_400)}Z"
        rows.append(f'<trkpt lat="{latitude:.7f}" lon="{longitude:.7f}"><time>{time}</time></trkpt>')
    write(root / "t.gpx", ["<gpx><trk><trkseg>", *rows, "</trkseg></trk></gpx>"])
    return "track", root / "t.gpx", {}


def srt(root: Path, count: int) -> Made:
    rows = []
    for row, x, y, _ in along(count):
        latitude, longitude = degrees(x, y)
        rows.append(f"{row + 1}\n{stamp(row)},000 --> {stamp(row + 1)},000")
        rows.append(f"[latitude: {latitude:.6f}] [longitude: {longitude:.6f}] [rel_alt: 1.0 abs_alt: 9.0]\n")
    write(root / "t.srt", rows)
    return "track", root / "t.srt", {}


def nmea(root: Path, count: int) -> Made:
    rows = []
    for row, x, y, _ in along(count):
        latitude, longitude = degrees(x, y)
        north, west = f"{latitude % 1 * 60:08.5f}", f"{-longitude % 1 * 60:08.5f}"
        body = (
            f"GPRMC,{stamp(row % 86_400).replace(':', '')}.00,A,{int(latitude):02d}{north},N,"
            f"{int(-longitude):03d}{west},W,5.0,90.0,{1 + row // 86_400:02d}0524,,"
        )
        check = 0
        for letter in body.encode():
            check ^= letter
        rows.append(f"${body}*{check:02X}")
    write(root / "t.nmea", rows)
    return "track", root / "t.nmea", {}


KINDS: dict[str, Callable[[Path, int], Made]] = {
    "rosbag.ros1": bag("ros1"),
    "rosbag.sqlite3": bag("sqlite3"),
    "rosbag.mcap": bag("mcap"),
    "colmap.bin": colmap_bin,
    "colmap.txt": colmap_txt,
    "transforms": transforms,
    "gpx": gpx,
    "srt": srt,
    "nmea": nmea,
    "boreas": boreas,
    "matrices": matrices,
    "7-scenes": seven_scenes,
    "kapture": kapture,
    "euroc": euroc,
    "nclt": nclt,
    "kitti_360": kitti_360,
    "four_seasons": four_seasons,
    "kitti raw": kitti_raw,
    "mapillary": mapillary,
    "manifest": manifest,
    "tum": tum,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=100_000, help="number of positions")
    asked = parser.parse_args()
    print(f"| kind | positions | places | seconds | MB | below {LIMIT_S} s and {LIMIT_MB:,} MB |")
    print("|---|---|---|---|---|---|")
    for kind in asked.kinds or KINDS:
        with TemporaryDirectory() as folder:
            try:
                reader, root, options = KINDS[kind](Path(folder), asked.count)
            except ModuleNotFoundError as error:
                print(f"| {kind} | not measured: {error} | | | | |", flush=True)
                continue
            command = [sys.executable, "-c", READ, reader, str(root), json.dumps(options)]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{kind}: {done.stderr.strip().splitlines()[-1]}")
        found, seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
        good = "yes" if seconds < LIMIT_S and megabytes < LIMIT_MB else "no"
        print(f"| {kind} | {asked.count:,} | {found:,} | {seconds:.1f} | {megabytes:,.0f} | {good} |", flush=True)


if __name__ == "__main__":
    main()
