"""Golden folders: a small collection in the native form of each reader. The contract test reads and damages them.

A function `write(root)` fills the empty folder `root`. Image files are empty where a reader only
lists them.
"""

import json
import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from PIL import Image
from pyproj import Geod, Transformer
from scipy.spatial.transform import Rotation

from mappable.places.table import COLUMNS, Places
from mappable.readers.registry import read_places

DATA = Path(__file__).parent / "readers/data"
# Axes of a camera (y down, z forward), z of the world up.
LOOKING_EAST = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])
UP_SEEN = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])  # the same for a camera that looks to +y
GEOD = Geod(ellps="WGS84")


@dataclass(frozen=True)
class Case:
    """A golden folder; `inside` is the ROOT below it. An option with the word ROOT is a path."""

    reader: str
    write: Callable[[Path], object]
    options: dict[str, Any] = field(default_factory=dict)
    inside: str = "."

    def read(self, folder: Path) -> Places:
        options = {name: self._path(folder, value) for name, value in self.options.items()}
        return read_places(self.reader, folder / self.inside, **options)

    @staticmethod
    def _path(folder: Path, value: Any) -> Any:
        return (
            Path(value.replace("ROOT", str(folder)))
            if isinstance(value, str) and "ROOT" in value
            else value
        )


def put(file: Path, text: str | bytes = b"") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def lines(rows: Iterable[object]) -> str:
    return "\n".join(map(str, rows)) + "\n"


def words(*values: Any, gap: str = " ") -> str:
    return gap.join(
        repr(float(value)) for value in np.concatenate([np.ravel(value) for value in values])
    )


# Drives


def boreas(root: Path) -> None:
    for day, name in enumerate(("2020-12-01-13-26", "2021-10-15-12-35", "2021-09-14-20-00")):
        home, rows = (
            root / f"boreas-{name}",
            ["GPSTime,easting,northing,altitude,ve,vn,vu,roll,pitch,heading,wz,wy,wx"],
        )
        for number in range(8):
            time = 1611678158447226 + number * 100_001 + day * 10**12
            pose = Rotation.from_euler("z", 0.3 * number).as_matrix() @ LOOKING_EAST
            roll, middle = np.arctan2(pose[1, 2], pose[2, 2]), np.arcsin(-pose[0, 2])
            turn = np.arctan2(pose[0, 1], pose[0, 0])
            place = words([2.5 * number, 90.0 * number, 1 + number / 7], gap=",")
            rows.append(f"{time},{place},1,2,3,{words([roll, middle, turn], gap=',')},0,0,0")
            put(home / f"camera/{time}.png")
        put(home / "applanix/camera_poses.csv", lines(rows))
    put(home / "camera/1611678999999999.png")
    put(home / "camera/readme.txt")
    (root / "boreas-2021-02-09-12-55/camera").mkdir(parents=True)


def kitti(root: Path) -> None:
    for name, climb in (("00", 2.0), ("05", 0.0)):
        home, rows = root / "sequences" / name, []
        for number, angle in enumerate(np.linspace(0, 1, 5)):
            right, forward = (np.cos(angle), 0, np.sin(angle)), (-np.sin(angle), 0, np.cos(angle))
            at = (-10 * (1 - np.cos(angle)), -climb * angle, 10 * np.sin(angle))
            rows.append(words(np.array([right, (0, 1, 0), forward, at]).T))
            put(home / f"image_2/{number:06d}.png")
        put(root / f"poses/{name}.txt", lines(rows))
        put(home / "times.txt", lines(f"{0.1036224 * number:e}" for number in range(5)))
    put(root / "sequences/11/image_2/000000.png")
    put(home / "image_2/000009.png")
    (home / "image_2/000001.png").unlink()
    (home / "times.txt").unlink()


def kitti_beside(root: Path) -> None:
    kitti(root / "set")
    for number in range(5):
        put(root / f"walk/images/{number:06d}.png")
    shutil.move(root / "set/poses/00.txt", root / "walk/poses.txt")
    shutil.rmtree(root / "set")


def kitti_raw(root: Path) -> None:
    for drive, north in ((1, 0.0), (2, 0.01)):
        home = root / f"2011_09_26/2011_09_26_drive_{drive:04d}_sync"
        for number in range(4):
            put(home / f"image_02/data/{number:010d}.png")
            place = [
                49.0 + north + 1e-5 * number,
                8.4,
                110.5 + number,
                0.03,
                0.01,
                1.5 - 0.1 * number,
            ]
            put(home / f"oxts/data/{number:010d}.txt", words(place, np.arange(24)) + "\n")
        stamps = (f"2011-09-26 13:02:{25 + number}.964389445" for number in range(4))
        put(home / "image_02/timestamps.txt", lines(stamps))
    (home / "oxts/data/0000000003.txt").unlink()


def kitti_360(root: Path) -> None:
    drive, rows = "2013_05_28_drive_0000_sync", []
    for number in range(6):
        put(root / f"data_2d_raw/{drive}/image_00/data_rect/{number:010d}.png")
        if number != 2:  # a standing car has no pose
            pose = np.eye(4)
            pose[:3, :3] = Rotation.from_euler("z", 0.2 * number).as_matrix() @ LOOKING_EAST
            pose[:3, 3] = number, 3 * number, 115
            rows.append(f"{number} {words(pose)} ")
    put(root / f"data_poses/{drive}/cam0_to_world.txt", lines(rows))
    stamps = (f"2013-05-28 08:46:0{number}.904000000" for number in range(6))
    put(root / f"data_2d_raw/{drive}/image_00/timestamps.txt", lines(stamps))


def nclt(root: Path) -> None:
    start = 1326030975726043
    rows = [f"{start + n * 100_000},{2 * n},{n},{-0.5 * n},0,0,{0.1 * n}" for n in range(6)]
    rows.insert(3, f"{start + 250_000},nan,nan,nan,nan,nan,nan")
    put(root / "groundtruth_2012-01-08.csv", lines(rows))
    for step in range(-1, 6):
        put(root / f"2012-01-08/lb3/Cam5/{start + step * 100_000 + 50_000}.tiff")
    put(root / "2012-03-17/lb3/Cam5/1.tiff")


def four_seasons(root: Path) -> None:
    """Made backwards: from places on the Earth to the numbers of the files."""
    longitude, latitude = np.deg2rad([11.64, 48.25])
    east, up = (
        np.array([-np.sin(longitude), np.cos(longitude), 0]),
        np.array([np.cos(longitude), np.sin(longitude), 0]),
    )
    up = np.cos(latitude) * up + (0, 0, np.sin(latitude))
    earth = Rotation.from_matrix(np.column_stack([east, np.cross(up, east), up]))
    origin = Transformer.from_crs("EPSG:4979", "EPSG:4978", always_xy=True).transform(
        11.64, 48.25, 500.0
    )
    slam, gnss = (
        Rotation.from_euler("xyz", (0.3, -0.2, 0.9)),
        Rotation.from_euler("xyz", (-0.1, 0.4, 1.3)),
    )
    still = words((0, 0, 0, 0, 0, 0, 1), gap=",")
    at = [
        words((1, 2, 3), slam.as_quat(), gap=","),
        still,
        words((10, -20, 5), gnss.as_quat(), gap=","),
    ]
    at += [still, words(origin, earth.as_quat(), gap=",")]
    for name, scale, start in (
        ("2020-03-24_17-36-22", 1.25, 0),
        ("2021-01-07_12-04-03", 0.8, 10**15),
    ):
        home, rows = (
            root / f"recording_{name}",
            ["# frame_id, translation, rotation, scale, fusion_quality, v3"],
        )
        put(
            home / "Transformations.txt",
            "\n\n".join(f"# transform\n{row}" for row in [*at, str(scale)]),
        )
        for number in range(5):
            world = np.add(gnss.apply((3.0 * number, 7.0 * number, 0)), (10, -20, 5)) / scale
            turn = slam.inv() * gnss * Rotation.from_matrix(UP_SEEN)
            place = words(slam.inv().apply(world - (1, 2, 3)), turn.as_quat(), gap=",")
            rows.append(f"{1_585_067_782_000_000_000 + start + number},{place},{scale},2,0")
        put(home / "GNSSPoses.txt", lines(rows))
        for number in range(7):  # two without a pose
            put(home / f"undistorted_images/cam0/{1_585_067_782_000_000_000 + start + number}.png")


ROBOTCAR = 1417534208000000
INS = [
    "timestamp",
    "ins_status",
    "latitude",
    "longitude",
    "altitude",
    "northing",
    "easting",
    "down",
    "utm_zone",
    "roll",
    "pitch",
    "yaw",
]


def ins_row(
    time: float, x: float, y: float, yaw: float = 1.5, status: str = "INS_SOLUTION_GOOD"
) -> str:
    place = f"{5735000.0 + y},{619500.0 + x},-112.25,30U,0,0,{yaw}"
    return f"{ROBOTCAR + round(time * 1000)},{status},51.76,-1.26,113.5,{place}"


def robotcar(root: Path) -> None:
    for traversal, y in (
        ("2014-12-02-15-30-08", 0),
        ("2014-11-18-13-20-12", 3),
        ("2015-02-13-09-16-26", 60),
    ):
        for step in range(0, 131, 6):
            put(root / f"{traversal}/stereo/centre/{ROBOTCAR + 250_000 + 500_000 * step}.png")
        rows = [ins_row(500 * step, 10.0 * step, y, 1.5 + 0.001 * step) for step in range(131)]
        rows[40] = ins_row(500 * 40, 400, y, status="INS_ALIGNING")
        rows[50], rows[51] = rows[51], rows[50]
        rows[60] = rows[60].replace("619500", "nan", 1).replace(f",{619500.0 + 600.0},", ",nan,")
        put(root / f"{traversal}/gps/ins.csv", lines([",".join(INS), *rows]))
    put(root / "2014-05-14-13-46-12/stereo/centre/1.png")
    put(root / "2014-12-02-15-30-08/stereo.timestamps", f"{ROBOTCAR} 1\n{ROBOTCAR + 250_000} 1\n")


def robotcar_chunks(root: Path) -> None:
    for chunk, time in ((2, 10), (2, 30), (4, 30), (4, 50)):
        put(root / f"2014-12-02-15-30-08_stereo_centre_{chunk:02d}/{ROBOTCAR + time * 1000}.png")
    rows = [ins_row(time, time / 100, 5) for time in (0, 20, 40)]
    put(root / "2014-12-02-15-30-08_gps/gps/ins.csv", lines([",".join(INS), *rows]))


# Indoors


def cold(root: Path) -> None:
    folders = [
        "freiburg/seq1_cloudy1",
        "cold-freiburg/part_a/sq2_night3",
        "freiburg/part_b/seq3_cloudy1",
    ]
    folders += [
        "saarbruecken/seq4_cloudy1",
        "sa_seq4_night2",
        "freiburg/seq2_sunny2",
        "freiburg/seq2_sunny3",
    ]
    for number, folder in enumerate(folders):
        for step in range(3):
            pose = f"x{0.205133 + step}_y-{1.000557 + number}_a{0.002507 * step}"
            put(root / folder / f"std_cam/t{1152886490.040076 + step}_{pose}.jpeg")
    put(root / "freiburg/seq1_cloudy1/std_cam/t1_x2_y3.jpeg")
    put(root / "freiburg/seq1_cloudy1/std_cam/t1e30_x0_y0_a0.jpeg")
    put(root / "freiburg/backup/t1_x2_y3_a0.jpeg")
    (root / "freiburg/seq1_cloudy2/std_cam").mkdir(parents=True)


def euroc(root: Path) -> None:
    start, mounted = 1403636579763555584, np.eye(4)
    mounted[:3, :3], mounted[:3, 3] = LOOKING_EAST, (0.2, 0.1, 0.5)
    for name, sensor in (("MH_01", True), ("MH_02", False)):
        home, poses, images = (
            root / name / "mav0",
            ["#timestamp, p_RS_R_x [m], …"],
            ["#timestamp [ns],filename"],
        )
        for number in range(9):
            x, y, z, w = Rotation.from_euler("z", 0.2 * number).as_quat()
            turn = words([w, x, y, z], gap=",")
            poses.append(f"{start + number * 50_000_000},{number},{-number},1.5,{turn},0,0,0")
        for number in range(9):
            time = start + number * 50_000_000 + 25_000_000
            images.append(f"{time},{time}.png")
            put(home / f"cam0/data/{time}.png")
        put(home / "state_groundtruth_estimate0/data.csv", lines(poses))
        put(home / "cam0/data.csv", "\r\n".join(images) + "\r\n")
        if sensor:
            data = words(mounted, gap=", ")
            put(
                home / "cam0/sensor.yaml",
                f"sensor_type: camera\nT_BS:\n  cols: 4\n  rows: 4\n  data: [{data}]\n",
            )
    (root / "MH_03/mav0").mkdir(parents=True)


def tum(root: Path) -> None:
    east = Rotation.from_matrix(LOOKING_EAST)
    for name in ("desk", "room"):
        rows = ["# ground truth trajectory", "# timestamp tx ty tz qx qy qz qw"]
        for number, time in enumerate((10.0, 10.1, 10.3, 10.2, 10.2, 11.0, 11.1)):
            turn = Rotation.from_euler("z", 20 * number, degrees=True) * east
            turn = Rotation.from_euler("y", 90, degrees=True) * east if number == 6 else turn
            rows.append(f"{time} {words([number, 2 * number, 3.0], turn.as_quat())}")
        times = ("9.9", "10.05", "10.15", "10.5", "11.1")
        put(root / name / "groundtruth.txt", lines(rows))
        for time in times:
            put(root / name / f"rgb/{time}.png")
    put(
        root / "desk/rgb.txt",
        lines(["# color images", *(f"{time} rgb/{time}.png" for time in times)]),
    )
    put(root / "room/rgb/cover.png")
    put(root / "lost/rgb/1.png")


def camera_poses(opengl: bool = False, world: Rotation | None = None) -> list[Any]:
    """Seven 4x4 poses of a level camera."""
    turned, poses = world or Rotation.identity(), []
    for number, yaw in enumerate(np.linspace(-1.0, 1.4, 7)):
        pose = np.eye(4)
        camera = Rotation.from_euler("z", yaw).as_matrix() @ LOOKING_EAST
        pose[:3, :3] = turned.as_matrix() @ camera @ (np.diag([1, -1, -1]) if opengl else np.eye(3))
        pose[:3, 3] = turned.apply((number, 0.2 * number**2, 1.5))
        poses.append(pose)
    return poses


def seven_scenes(root: Path) -> None:
    for sequence in ("chess/seq-01", "chess/seq-03", "fire/seq-01"):
        for number, pose in enumerate(
            camera_poses(world=Rotation.from_euler("xyz", (30, 40, 50), degrees=True))
        ):
            put(root / sequence / f"frame-{number:06d}.color.png")
            put(root / sequence / f"frame-{number:06d}.depth.png")
            put(
                root / sequence / f"frame-{number:06d}.pose.txt",
                lines(words(row, gap="\t ") for row in pose),
            )
    (root / "fire/seq-01/frame-000002.pose.txt").unlink()
    put(root / "chess/TrainSplit.txt", "sequence1\n")
    put(root / "chess/TestSplit.txt", "sequence3\n")


def scannet(root: Path) -> None:
    for number, pose in enumerate(camera_poses()):
        put(root / f"scene0000_00/color/{number}.jpg")
        put(
            root / f"scene0000_00/pose/{number}.txt",
            lines(words(row) for row in (pose if number != 6 else np.full((4, 4), -np.inf))),
        )


def phone_scan(root: Path) -> None:
    for number, pose in enumerate(
        camera_poses(opengl=True, world=Rotation.from_euler("x", -90, degrees=True))
    ):
        put(root / f"frame_{number:05d}.jpg")
        put(
            root / f"frame_{number:05d}.json",
            json.dumps({"cameraPoseARFrame": pose.T.ravel().tolist()}),
        )


def pose_list(root: Path) -> None:
    for number in range(8):
        put(root / f"walk/images/{number:06d}.png")
    rows = [f"{number} {words(pose)}" for number, pose in enumerate(camera_poses())]
    put(root / "walk/poses.txt", lines(reversed(rows)))


# Models


def colmap(root: Path) -> None:
    slanted = Rotation.from_euler("xyz", [40, -25, 110], degrees=True).as_matrix()
    rows = [
        "# Image list with two lines of data per image:",
        "# Number of images: 12, mean observations: 0",
    ]
    for number, angle in enumerate(np.linspace(0, np.pi, 12)):
        at = np.array([10 * np.cos(angle), 10 * np.sin(angle), 1.5 + 0.1 * np.sin(5 * angle)])
        turn = Rotation.from_euler("z", angle) * Rotation.from_euler("x", 10, degrees=True)
        axes = slanted @ turn.as_matrix() @ UP_SEEN
        x, y, z, w = Rotation.from_matrix(axes.T).as_quat()
        shift = -axes.T @ (slanted @ at / 4 + (3, -2, 7))
        rows += [f"{number + 1} {words([w, x, y, z], shift)} 1 walk/{number:03d}.jpg", ""]
        put(root / f"images/walk/{number:03d}.jpg")
    put(root / "sparse/0/images.txt", lines(rows))
    put(root / "sparse/0/cameras.txt", "1 SIMPLE_RADIAL 64 48 40 32 24 -0.3\n")
    random = np.random.default_rng(0)
    points = np.column_stack(
        [random.uniform(-15, 15, (300, 2)), np.repeat([0.0, 3.0, 9.0], [200, 50, 50])]
    )
    points = points @ slanted.T / 4 + (3, -2, 7)
    ground = (f"{number} {words(point)} 1 2 3 0.5 1 2" for number, point in enumerate(points))
    put(root / "sparse/0/points3D.txt", lines(["# 3D point list", *ground]))
    put(
        root / "known.csv",
        "path,x,y,z\nwalk/000.jpg,510,-80,1.5\nwalk/005.jpg,500,-70,1.5\nwalk/011.jpg,490,-80,1.5\n",
    )


def pycolmap_text(root: Path) -> None:
    shutil.copytree(DATA / "colmap/text", root / "sparse/0")
    (root / "images").mkdir()


def pycolmap_binary(root: Path) -> None:
    shutil.copytree(DATA / "colmap/binary", root / "sparse/0")
    (root / "images").mkdir()


def kapture(root: Path) -> None:
    shutil.copytree(DATA / "kapture/sensors", root / "sensors")


def transforms(root: Path) -> None:
    for name in ("transforms_train", "transforms_test"):
        frames = []
        for number, pose in enumerate(camera_poses(opengl=True)):
            path = f"./{name}/frame_{number:05d}" + (".png" if name.endswith("train") else "")
            frames.append({"file_path": path, "transform_matrix": pose.tolist()})
        lens = {"w": 640, "h": 480, "fl_x": 500, "cx": 320, "cy": 240, "k1": 0.1}
        put(
            root / f"{name}.json",
            json.dumps({"camera_model": "OPENCV", "frames": frames, **lens}, indent=1),
        )


# Streets


def msls(root: Path) -> None:
    def side(folder: Path, at: tuple[float, float], epsg: int, count: int, night: bool) -> None:
        tables: dict[str, list[str]] = {
            "postprocessed": [
                ",key,easting,northing,unique_cluster,control_panel,night,view_direction"
            ],
            "raw": [",key,lon,lat,ca,captured_at,pano"],
            "seq_info": [",key,sequence_key,frame_number"],
            "subtask_index": [",key,all,s2w,w2s,o2n,n2o,d2n,n2d"],
        }
        for row in range(count):
            longitude, latitude, _ = GEOD.fwd(at[0], at[1], 60, 12.0 * row)
            east, north = Transformer.from_crs(4326, epsg, always_xy=True).transform(
                longitude, latitude
            )
            east += 9000 * (row == 4)
            stamp = "2018-05-04" if row % 2 else "1525428673000"
            tables["postprocessed"].append(
                f"{row},k{row},{east!r},{north!r},0,False,{night},Forward"
            )
            tables["raw"].append(
                f"{row},k{row},{longitude!r},{latitude!r},{30.0 * row},{stamp},{row == 5}"
            )
            tables["seq_info"].append(f"{row},k{row},s{row % 2},{count - row}")
            tables["subtask_index"].append(f"{row},k{row},True,False,False,False,False,False,False")
            put(folder / f"images/k{row}.jpg")
        for name, rows in tables.items():
            put(folder / f"{name}.csv", lines(rows))

    for city, at, epsg in (("cph", (12.57, 55.68), 32633), ("london", (-0.0003, 51.5), 32630)):
        side(root / f"train_val/{city}/database", at, epsg, 7, False)
        side(root / f"train_val/{city}/query", at, epsg, 3, True)
    side(root / "test/miami/database", (-80.2, 25.8), 32617, 2, False)
    (root / "test/miami/database/postprocessed.csv").unlink()
    put(root / "train_val/cph/database/images/extra.jpg")


def pittsburgh(root: Path) -> None:
    names = {"train": ["000/000007_pitch1_yaw1.jpg", "001/001007_pitch2_yaw12.jpg", "other.jpg"]}
    names |= {"test": ["000/000009_pitch1_yaw3.jpg"]}
    for number, (word, listed) in enumerate(names.items()):
        cells, one = np.empty((len(listed), 1), dtype=object), np.empty((1, 1), dtype=object)
        cells[:, 0], one[0, 0] = listed, f"000/{number:06d}_pitch1_yaw5.jpg"
        steps = np.arange(len(listed), dtype=np.float64)
        utm = np.stack([584_321.125 + steps, 4_476_543.75 + 2 * steps])
        fields = {
            "whichSet": word,
            "dbImageFns": cells,
            "utmDb": utm,
            "qImageFns": one,
            "utmQ": utm[:, :1] + 100,
        }
        (root / "datasets").mkdir(exist_ok=True)
        scipy.io.savemat(
            root / f"datasets/pitts30k_{word}.mat", {"dbStruct": fields}, do_compression=not number
        )
        for path in listed:
            put(root / path)


def pittsburgh_unposed(root: Path) -> None:
    for path in (
        "001/001002_pitch1_yaw1.jpg",
        "001/001002_pitch2_yaw12.jpg",
        "000/000003_pitch1_yaw1.jpg",
    ):
        put(root / path)
    put(root / "queries_real/000/000005_pitch1_yaw1.jpg")
    put(root / "000/panorama.jpg")


def mapillary_records() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number in range(4):
        at = {"type": "Point", "coordinates": [13.4 + 1e-4 * number, 52.5]}
        record = {
            "id": f"49876346821416{number}",
            "geometry": at,
            "compass_angle": 90.0,
            "sequence": "abc",
        }
        record |= {
            "captured_at": 1_600_000_000_000 + number,
            "computed_compass_angle": 45.0 + number,
        }
        fine = {"type": "Point", "coordinates": [13.4 + 1e-4 * number, 52.6]}
        records.append(
            record | ({"computed_geometry": fine, "computed_altitude": 33.5} if number else {})
        )
    return records


def mapillary(root: Path) -> None:
    put(root / "images.json", json.dumps({"data": mapillary_records(), "paging": {}}))
    for record in mapillary_records()[:3]:
        put(root / f"{record['id']}.jpg")
    put(root / "extra.jpg")


def mapillary_sides(root: Path) -> None:
    for record in mapillary_records():
        put(root / f"{record['id']}.jpg")
        put(root / f"{record['id']}.jpg.json", json.dumps(record))


def mapillary_old(root: Path) -> None:
    """Side files as the API before 2021 gave them."""
    for number in range(3):
        record = {
            "key": f"aB{number}",
            "lat": 47.1 + 1e-4 * number,
            "lon": 8.5,
            "ca": 90.0 + number,
        }
        put(root / f"drive/{number}.jpg")
        put(
            root / f"drive/{number}.jpg.json",
            json.dumps(record | {"captured_at": 1_500_000_000_000 + number}),
        )


def utm_names(root: Path) -> None:
    def named(longitude: float, latitude: float, epsg: int, zone: str, rest: str) -> str:
        east, north = Transformer.from_crs(4326, epsg, always_xy=True).transform(
            longitude, latitude
        )
        return f"@{east:.4f}@{north:.4f}@{zone}@{latitude:.7f}@{longitude:.7f}@{rest}@.jpg"

    for number in range(4):
        longitude, code, zone = (
            -0.0003 + 2e-4 * number,
            32630 + (number > 1),
            f"{30 + (number > 1)}@U",
        )
        stamp = ("20160612_081530", "201606", "noon", "1169720130")[number]
        rest = f"pano{number}@03@{90 * number}@@@12.5@{stamp}@night_x"
        put(root / "images/train/database" / named(longitude, 51.48, code, zone, rest))
        put(root / "images/test/queries_night" / named(longitude, 51.4802, code, zone, rest))
    put(root / "images/test/database/@699000@5706900@.jpg")
    put(root / "images/test/database/plain.jpg")
    put(root / "images/val/database/sub/@700000@5707000@30@U@.jpg")
    put(
        root / "images/val/database_images_paths.txt",
        "sub/@700000@5707000@30@U@.jpg\r\n./sub/@700009@5707000@30@U@.jpg\n",
    )


# Tables, photos, recordings


def simulated(root: Path) -> None:
    from mappable.places.files import save_places
    from mappable.places.frames import Frame
    from mappable.places.table import Places
    from mappable.places.world_record import write_record

    names = [f"images/train-sun/{n:05d}.png" for n in range(4)] + [
        f"images/wing-night/{n:05d}.png" for n in range(3)
    ]
    runs = [name.split("/")[1] for name in names]
    places = Places(
        path=names, x=np.arange(7), y=np.zeros(7), sequence=runs, frames=Frame("drawn"), root=root
    )
    save_places(places, root / "places.parquet")
    write_record(
        root,
        {"image_hash": "0", "places": 7, "parts": {"main": ["train-sun"], "wing": ["wing-night"]}},
    )


def manifest(root: Path) -> None:
    rows = ["path;x;y;z;heading;time;sequence;condition;split;role;weather"]
    rows += [
        f"a/{n}.jpg;{1.5 * n};{-2.25};{n or ''};{30 * n};{1418132416 + 3 - n};one;rain;train;;"
        for n in range(4)
    ]
    put(root / "places.csv", lines([*rows, "b/9.jpg;1e3;0;;;1418132416.25;two;;test;query;"]))


def manifest_degrees(root: Path) -> None:
    rows = (
        f"{n}.jpg,{48.1 + 0.001 * n if n != 2 else 0},{11.5 if n != 2 else 0},{500 + n}"
        for n in range(4)
    )
    put(root / "list.csv", lines(["File Name,Latitude,lng,alt", *rows]))


def photo(file: Path, north: float | None, camera: dict[int, str], **gps: Any) -> None:
    exif = Image.Exif()
    if north is not None:
        minutes = (51.752 + north / 111_250) % 1 * 60
        at = (51.0, float(int(minutes)), round(minutes % 1 * 60, 6))
        exif.get_ifd(0x8825).update({1: "N", 2: at, 3: "W", 4: (1.0, 15.0, 27.72)})
        exif.get_ifd(0x8825).update({int(tag[1:]): value for tag, value in gps.items()})
    exif.get_ifd(0x8769).update(camera)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (8, 8)).save(file, exif=exif)


def photos(root: Path) -> None:
    for number in range(4):
        camera = {0x9003: f"2026:05:01 12:00:{9 - 3 * number:02d}", 0x9291: "25", 0x9011: "+02:00"}
        photo(
            root / f"walk/{number}.jpg", 4.0 * number, camera, t16="T", t17=90.0 * number, t6=100.5
        )
    photo(root / "old/a.png", 50.0, {0x9003: "2026:05:01 12:00:00"}, t16="M", t17=10.0, t18="TOKYO")
    photo(root / "old/b.jpg", 60.0, {}, t9="V")
    photo(root / "c.jpg", None, {0x9003: "2026:05:01 12:00:00"})
    photo(root / "d.jpg", 3e6, {}, t29="2026:05:01", t7=(12.0, 0.0, 3.5))
    photo(root / "e.jpg", 70.0, {}, t29="2026:05:01", t7=(12.0, 0.0, 3.5), t17=400.0)
    put(root / "f.HEIC")
    put(root / "g.jpg", "not an image")


def encode(file: Path, created: str | None = "2024-05-01T12:00:00Z", count: int = 40) -> Path:
    """A video with frames 0.1 s apart, each of one gray."""
    import av

    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w", options={"fflags": "bitexact"}) as container:
        if created:
            container.metadata["creation_time"] = created
        stream = container.add_stream("libx264", rate=10, options={"crf": "1"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 10)
        for number in range(count):
            gray = np.full((48, 64, 3), 4 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(gray, format="rgb24")))
        container.mux(stream.encode())
    return file


NOON = 1_714_564_800  # 2024-05-01T12:00:00Z


def north(metres: float) -> float:
    return float(GEOD.fwd(8.5, 47.0, 0.0, metres)[1])


def video(root: Path) -> None:
    encode(root / "drive.mp4")
    rows = (
        f"{NOON + second / 2},{2.5 * second / 2},{0.1 * second},{10 * second}"
        for second in range(1, 8)
    )
    put(root / "drive.csv", lines(["time,x,y,heading", *rows]))
    encode(root / "lost.mkv", count=3)


def video_gpx(root: Path) -> None:
    encode(root / "ride.mp4", None)
    points = [(0, 0.0), (1, 2.5), (3, 7.5), (2, 5.0), (2, 5.5), (4, 10.0)]
    body = (
        f'<trkpt lat="{north(m)}"'
        f' lon="8.5"><ele>7.5</ele><time>2024-05-01T12:00:{s:02d}Z</time></trkpt>'
        for s, m in points
    )
    start = (
        '<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg><trkpt lat="0"'
        ' lon="0"><time>2024-05-01T11:00:00Z'
    )
    put(root / "ride.gpx", start + "</time></trkpt>" + "".join(body) + "</trkseg></trk></gpx>")


def video_srt(root: Path) -> None:
    encode(root / "DJI_0001.mp4")
    blocks = (
        f"{n + 1}\n00:00:{n // 10:02d},{n % 10}00 --> 00:00:{n // 10:02d},{n % 10}99\n"
        f"[latitude: {north(0.25 * n):.9f}] [longitude: 8.5] [rel_alt: 1.0 abs_alt: {400 + n}]\n"
        for n in range(41)
    )
    put(root / "DJI_0001.SRT", "\n".join(blocks))


def video_nmea(root: Path) -> None:
    def sentence(body: str) -> str:
        total = 0
        for character in body:
            total ^= ord(character)
        return f"${body}*{total:02X}"

    encode(root / "drive.mp4")
    rows = ["garbage", "$GPRMC,120000.100,A,4700.0,N,00830.0,E,4.9,0.0,010524,,,A*00"]
    for n in range(41):
        clock = f"1200{n // 10:02d}.{n % 10}00"
        place = f"47{60 * (north(0.25 * n) - 47):010.7f},N,00830.0000000,E"
        rows.append(sentence(f"GPGGA,{clock},{place},1,08,0.9,{400 + n},M,47.0,M,,"))
        rows.append(sentence(f"GNRMC,{clock},A,{place},4.9,0.0,010524,,,A"))
    put(root / "drive.nmea", "\r\n".join(rows))


def video_telemetry(kind: str) -> Callable[[Path], object]:
    def write(root: Path) -> None:
        from telemetry_tracks import add_track, camm, gps5, gps9

        file = encode(root / "GX010001.mp4")
        steps = [[(north(2.5 * s + 0.25 * n), 8.5, 400.0 + n) for n in range(10)] for s in range(4)]
        days = int((np.datetime64("2024-05-01") - np.datetime64("2000-01-01")).astype(int))
        moment = NOON - 315_964_800 + 18  # GPS time counts from 1980, without leap seconds
        samples: dict[str, Sequence[tuple[int, bytes]]] = {
            "gps5": [(1000, gps5(step, b"2405011200%02d.000" % s)) for s, step in enumerate(steps)],
            "gps9": [
                (1000, gps9(step, days, 43_200_000 + 1000 * s)) for s, step in enumerate(steps)
            ],
            "camm": [
                (100, camm(*p, gps_seconds=moment + n / 10))
                for n, p in enumerate(point for step in steps for point in step)
            ],
        }
        add_track(file, b"camm" if kind == "camm" else b"gpmd", samples[kind])

    return write


def rosbag(kind: str, fixes: bool = False) -> Callable[[Path], object]:
    def write(root: Path) -> None:
        from bag_writer import START, BagWriter, noise

        writer = BagWriter(kind)  # type: ignore[arg-type]
        optical = Rotation.from_matrix(LOOKING_EAST).as_quat()
        writer.add_transform(START, "base_link", "camera_optical", (0.3, 0, 1), optical)
        for number in range(20):
            time, turn = START + number * 10**8, Rotation.from_euler("z", 0.1 * number).as_quat()
            if fixes:
                writer.add_fix("/fix", time, 51.75 + 1e-6 * number, -1.25)
            else:
                writer.add_odometry("/odom", time, (0.1 * number, 2 - 0.05 * number, 0.5), turn)
        for number in range(10):
            time = START + number * 2 * 10**8 + 25_000_000
            if kind == "ros1":
                writer.add_image("/image", time, noise(number).tobytes(), "rgb8", (32, 24))
            else:
                writer.add_compressed("/cam/image/compressed", time, noise(number))
        writer.add_camera_info("/camera_info", START, (32, 24), 30.0, (-0.2, 0, 0, 0, 0))
        writer.write(root, "monday")

    return write


CASES: dict[str, Case] = {
    "boreas": Case("boreas", boreas),
    "boreas-seasons": Case("boreas", boreas, {"protocol": "seasons"}),
    "cold": Case("cold", cold),
    "cold-paper": Case("cold", cold, {"protocol": "paper"}),
    "cold-generalization": Case("cold", cold, {"protocol": "generalization-freiburg-a"}),
    "colmap": Case("colmap", colmap),
    "colmap-known": Case("colmap", colmap, {"known": "ROOT/known.csv"}),
    "colmap-text": Case("colmap", pycolmap_text, {"up": "z"}),
    "colmap-binary": Case("colmap", pycolmap_binary, {"up": "z"}),
    "euroc": Case("euroc", euroc),
    "four_seasons": Case("four_seasons", four_seasons),
    "kapture": Case("kapture", kapture, {"up": "z", "scale": 1.0}),
    "kitti": Case("kitti", kitti),
    "kitti-beside": Case("kitti", kitti_beside, inside="walk"),
    "kitti-raw": Case("kitti", kitti_raw),
    "kitti_360": Case("kitti_360", kitti_360),
    "manifest": Case("manifest", manifest),
    "manifest-crs": Case("manifest", manifest, {"crs": "EPSG:32630"}),
    "manifest-degrees": Case("manifest", manifest_degrees),
    "mapillary": Case("mapillary", mapillary),
    "mapillary-old": Case("mapillary", mapillary_old),
    "mapillary-gps": Case("mapillary", mapillary_sides, {"source": "gps"}),
    "matrices": Case("matrices", seven_scenes),
    "matrices-scannet": Case("matrices", scannet, {"up": "z", "scale": 0.001}),
    "matrices-phone": Case("matrices", phone_scan),
    "matrices-list": Case("matrices", pose_list, {"inverse": True}, inside="walk"),
    "msls": Case("msls", msls),
    "msls-panoramas": Case(
        "msls", msls, {"panoramas": "keep", "subtask": "all", "cities": "london"}
    ),
    "nclt": Case("nclt", nclt),
    "photos": Case("photos", photos),
    "pittsburgh": Case("pittsburgh", pittsburgh),
    "pittsburgh-unposed": Case("pittsburgh", pittsburgh_unposed, {"views": "street"}),
    "robotcar": Case("robotcar", robotcar),
    "robotcar-paper": Case("robotcar", robotcar, {"protocol": "paper"}),
    "robotcar-reference": Case("robotcar", robotcar, {"protocol": "paper", "crop": "reference"}),
    "robotcar-chunks": Case("robotcar", robotcar_chunks),
    "rosbag-ros1": Case("rosbag", rosbag("ros1")),
    "rosbag-mcap": Case("rosbag", rosbag("mcap"), {"spacing": 0.5, "frame": "hall"}),
    "rosbag-fixes": Case(
        "rosbag", rosbag("sqlite3", fixes=True), {"spacing": 0.0, "heading": "course"}
    ),
    "simulated": Case("simulated", simulated, {"parts": "wing"}),
    "transforms": Case("transforms", transforms),
    "tum": Case("tum", tum),
    "tum-slam": Case("tum", tum, {"plane": "xz", "looking": "x"}),
    "utm_names": Case("utm_names", utm_names),
    "video": Case("video", video),
    "video-gpx": Case("video", video_gpx, {"heading": "course"}),
    "video-srt": Case("video", video_srt),
    "video-nmea": Case("video", video_nmea),
    **{f"video-{kind}": Case("video", video_telemetry(kind)) for kind in ("gps5", "gps9", "camm")},
}


def described(places: Places) -> dict[str, Any]:
    """A table as JSON: its columns, frames, decoding and notes."""
    columns = {name: getattr(places, name).tolist() for name in COLUMNS}
    description = {
        "columns": {
            name: [None if value != value else value for value in column]
            for name, column in columns.items()
        },
        "frames": {name: frame.to_json() for name, frame in sorted(places.frames.items())},
        "bayer": places.decoding.bayer if places.decoding else None,
        "notes": {note.text: len(note.items) for note in places.notes},
    }
    return json.loads(json.dumps(description))  # type: ignore[no-any-return]


# Ten damages of a golden folder


def damages(folder: Path) -> list[tuple[str, Path]]:
    """The ten ways in which `damage` harms files of a folder, each with its file: those that hold
    data, in turn.
    """
    kept = (file for file in folder.rglob("*") if not file.parent.name.endswith("-frames"))
    files = sorted(file for file in kept if file.is_file() and file.stat().st_size)
    return [(way, files[number % len(files)]) for number, way in enumerate(WAYS)] if files else []


WAYS = ("empty", "half", "gone", "noise", "word", "nan", "huge", "column", "row", "folder")


def damage(file: Path, way: str) -> None:
    """Harm a file: no content, half of it, no file, noise, a bad value in the middle, a column
    less, a row twice.
    """
    data = file.read_bytes()
    rows = data.split(b"\n")
    middle = len(rows) // 2 if len(rows) > 2 else 0
    gap = next((one for one in (b",", b";", b"\t", b" ") if one in rows[middle]), b" ")
    values = rows[middle].split(gap)
    number = next((n for n, value in enumerate(values) if n and _is_number(value)), len(values) - 1)
    if way == "empty":
        file.write_bytes(b"")
    elif way == "half":
        file.write_bytes(data[: len(data) // 2])
    elif way in ("gone", "folder"):
        file.unlink()
        if way == "folder":
            file.mkdir()
    elif way == "noise":
        file.write_bytes(np.random.default_rng(0).bytes(max(64, len(data) // 2)))
    else:
        bad = {"word": b"abc", "nan": b"nan", "huge": b"1e400"}
        if way in bad:
            values[number] = bad[way]
        rows[middle] = gap.join(values[:-1] if way == "column" else values)
        file.write_bytes(
            b"\n".join(
                [
                    *rows[: middle + 1],
                    *([rows[middle]] if way == "row" else []),
                    *rows[middle + 1 :],
                ]
            )
        )


def _is_number(value: bytes) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
