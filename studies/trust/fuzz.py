"""Feed every reader mutated files: no exception but MappableError, at most 2 s, at most 500 MB of memory more.

The mutations are seeded: input number N of a target is always the same. `guided.py` adds inputs by
code coverage.
"""

import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from trust.counters import Counters
from trust.processes import ask
from trust.tiny import use_small_backbone

SECONDS, MEGABYTES = 2.0, 500
HARD_SECONDS = 20  # then the process is killed, and the input counts as too slow
NUMBERS = [
    b"0",
    b"-1",
    b"1e308",
    b"nan",
    b"inf",
    b"99999999",
    b"9223372036854775808",
    b"1e-320",
    b"",
    b"0x10",
    b"'",
]
WORDS = [
    b"null",
    b"{}",
    b"[]",
    b'""',
    b"\x00",
    b"\xff\xfe",
    b"\r\n",
    b",,",
    b"../",
    b"[" * 3000,
    b"9" * 400,
    b"\xe2\x80\xae",
]


@dataclass(frozen=True)
class Target:
    """A reader. `seed` writes a valid input below a folder and returns its file; `read` reads that
    folder.
    """

    name: str
    seed: Callable[[Path, Path], Path]
    read: Callable[[Path, Path], Any]
    as_name: bool = False  # the input is the name of a file, not its content


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The data with one to six mutations."""
    for _ in range(draw.choice([1, 1, 1, 2, 3, 6])):
        data = _mutate(data, draw)
    return data


def _mutate(data: bytes, draw: random.Random) -> bytes:
    if not data:
        return draw.choice(WORDS)
    at = draw.randrange(len(data))
    match draw.randrange(10):
        case 0:
            return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        case 1:
            return (
                data[:at]
                + bytes([draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])])
                + data[at + 1 :]
            )
        case 2:
            return data[:at]
        case 3:
            return data[:at] + data[min(len(data), at + draw.choice([1, 2, 8, 64, 1000])) :]
        case 4:
            piece = data[at : at + draw.choice([1, 8, 64, 1000])]
            return data[:at] + piece * draw.choice([2, 3, 50]) + data[at + len(piece) :]
        case 5:
            return data[:at] + draw.choice(WORDS) + data[at:]
        case 6:
            found = list(re.finditer(rb"-?[0-9]+(\.[0-9]+)?", data[:100_000]))
            if found:
                one = draw.choice(found)
                return data[: one.start()] + draw.choice(NUMBERS) + data[one.end() :]
            return data[at:]
        case 7:
            lines = data.split(b"\n")
            line = draw.randrange(len(lines))
            other = draw.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
            return b"\n".join(
                lines[: draw.randrange(1, len(lines) + 1)] if draw.random() < 0.3 else lines
            )
        case 8:
            value = draw.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, len(data), 1 << 24])
            return data[:at] + struct.pack("<I", value) + data[at + 4 :]
        case _:
            fields = data.split(b",")
            if len(fields) > 2:
                fields[draw.randrange(len(fields))] = draw.choice([*NUMBERS, *WORDS])
                return b",".join(fields)
            return data[at:] + data[:at]


def _npy_body(base: Path, folder: Path) -> Path:
    with (folder / "npy").open("wb") as stream:
        np.save(stream, np.array([[0.6, 0.8]], dtype=np.float32))
    return folder / "npy"


def _text(name: str, text: str) -> Callable[[Path, Path], Path]:
    def seed(base: Path, folder: Path) -> Path:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return seed


def _copied(source: str, name: str) -> Callable[[Path, Path], Path]:
    """A copy of a file or folder of the base; `name` is the file in it that is mutated."""

    def seed(base: Path, folder: Path) -> Path:
        if (base / source).is_dir():
            shutil.copytree(base / source, folder, dirs_exist_ok=True)
            return sorted(folder.glob(name))[0]
        return Path(shutil.copy(base / source, folder / name))

    return seed


def _reader(name: str, **options: Any) -> Callable[[Path, Path], Any]:
    def read(base: Path, folder: Path) -> Any:
        from mappable.readers.registry import read_places

        return read_places(name, folder, **options)

    return read


def _kitti(base: Path, folder: Path, mutate: str = "poses/00.txt") -> Path:
    (folder / "sequences/00/image_2").mkdir(parents=True)
    (folder / "poses").mkdir()
    for number in range(4):
        (folder / f"sequences/00/image_2/{number:06d}.png").touch()
    (folder / "sequences/00/times.txt").write_text(
        "".join(f"{number / 10:e}\n" for number in range(4))
    )
    poses = "".join(f"1 0 0 {number} 0 1 0 0 0 0 1 {2 * number}\n" for number in range(4))
    (folder / "poses/00.txt").write_text(poses)
    return folder / mutate


def _tum(base: Path, folder: Path, mutate: str = "groundtruth.txt") -> Path:
    (folder / "rgb").mkdir()
    for number in range(4):
        (folder / f"rgb/{number}.500000.png").touch()
    (folder / "rgb.txt").write_text(
        "# a\n# b\n# c\n" + "".join(f"{n}.500000 rgb/{n}.500000.png\n" for n in range(4))
    )
    poses = "".join(f"{n / 10:.2f} {n} 2 3 0.5 -0.5 0.5 -0.5\n" for n in range(50))
    (folder / "groundtruth.txt").write_text("# timestamp tx ty tz qx qy qz qw\n" + poses)
    return folder / mutate


def _robotcar(base: Path, folder: Path) -> Path:
    name, start = "2014-12-02-15-30-08", 1417534208000000
    (folder / f"{name}_stereo_centre_01").mkdir()
    lines = ["timestamp,ins_status,latitude,longitude,altitude,northing,easting,down,utm_zone,yaw"]
    for step in range(6):
        (folder / f"{name}_stereo_centre_01" / f"{start + step * 500_000}.png").touch()
        place = f"51.76,-1.26,113.5,{5735000 + step},{619500 + 5 * step},-112.2,30U,1.57"
        lines.append(f"{start + step * 500_000},INS_SOLUTION_GOOD,{place}")
    (folder / name / "gps").mkdir(parents=True)
    (folder / name / "gps/ins.csv").write_text("\n".join(lines) + "\n")
    return folder / name / "gps/ins.csv"


def _euroc(base: Path, folder: Path, mutate: str = "state_groundtruth_estimate0/data.csv") -> Path:
    home = folder / "mav0"
    (home / "cam0/data").mkdir(parents=True)
    (home / "state_groundtruth_estimate0").mkdir()
    poses = "".join(f"{n * 10**8},{n},2,1.5,0.5,-0.5,0.5,-0.5,0,0,0\n" for n in range(6))
    (home / "state_groundtruth_estimate0/data.csv").write_text("#timestamp\n" + poses)
    (home / "cam0/data.csv").write_text(
        "#timestamp\n" + "".join(f"{n * 10**8},{n}.png\n" for n in range(6))
    )
    matrix = "T_BS:\n  data: [0, 0, 1, 0.1, -1, 0, 0, 0.2, 0, -1, 0, 0.3, 0, 0, 0, 1]\n"
    (home / "cam0/sensor.yaml").write_text(matrix)
    return home / mutate


def _nclt(base: Path, folder: Path) -> Path:
    (folder / "2012-01-08/lb3/Cam5").mkdir(parents=True)
    for step in range(4):
        (folder / f"2012-01-08/lb3/Cam5/{1326030975726043 + step}.tiff").touch()
    rows = "".join(f"{1326030975726043 + n},{n},2,0.5,0,0,1.5\n" for n in range(5))
    (folder / "groundtruth_2012-01-08.csv").write_text(rows)
    return folder / "groundtruth_2012-01-08.csv"


def _four_seasons(base: Path, folder: Path, mutate: str = "GNSSPoses.txt") -> Path:
    (folder / "undistorted_images/cam0").mkdir(parents=True)
    for step in range(4):
        (folder / f"undistorted_images/cam0/{1585067782000000000 + step}.png").touch()
    rows = "".join(f"{1585067782000000000 + n},{n},2,0.5,0,0.6,0,0.8,1.25,2,0\n" for n in range(5))
    (folder / "GNSSPoses.txt").write_text("# frame_id\n" + rows)
    transforms = ["1,2,3,0,0,0,1"] * 4 + ["4177000,855000,4728000,0,0,0,1"]
    (folder / "Transformations.txt").write_text(
        "".join(f"# transform\n{line}\n" for line in transforms)
    )
    return folder / mutate


def _kitti_360(base: Path, folder: Path) -> Path:
    name = "2013_05_28_drive_0000_sync"
    (folder / "data_2d_raw" / name / "image_00/data_rect").mkdir(parents=True)
    (folder / "data_poses" / name).mkdir(parents=True)
    for number in range(4):
        (folder / "data_2d_raw" / name / f"image_00/data_rect/{number:010d}.png").touch()
    rows = "".join(f"{n} 0 0 1 {n} -1 0 0 0 0 -1 0 115 0 0 0 1\n" for n in range(4))
    (folder / "data_poses" / name / "cam0_to_world.txt").write_text(rows)
    return folder / "data_poses" / name / "cam0_to_world.txt"


def _mapillary(base: Path, folder: Path) -> Path:
    points = [{"coordinates": [13.4, 52.5 + number / 1000]} for number in range(3)]
    records = [
        {"id": f"4{n}", "geometry": point, "captured_at": 1600000000000}
        for n, point in enumerate(points)
    ]
    for record in records:
        (folder / f"{record['id']}.jpg").touch()
    (folder / "images.json").write_text(json.dumps({"data": records}))
    return folder / "images.json"


def _kapture(base: Path, folder: Path) -> Path:
    shutil.copytree(
        Path(__file__).parents[2] / "tests/places/readers/data/kapture/sensors", folder / "sensors"
    )
    return folder / "sensors/trajectories.txt"


def _matrices(base: Path, folder: Path) -> Path:
    (folder / "seq-01").mkdir()
    for number in range(4):
        (folder / f"seq-01/frame-{number:06d}.color.png").touch()
        pose = f"0 0 1 {number}\n-1 0 0 0\n0 -1 0 1.5\n0 0 0 1\n"
        (folder / f"seq-01/frame-{number:06d}.pose.txt").write_text(pose)
    return folder / "seq-01/frame-000001.pose.txt"


def _boreas(base: Path, folder: Path) -> Path:
    drive, start = folder / "boreas-2021-01-26-11-22", 1611678158447226
    (drive / "camera").mkdir(parents=True)
    (drive / "applanix").mkdir()
    lines = [
        "GPSTime,easting,northing,altitude,vel_east,vel_north,vel_up,roll,pitch,heading,wz,wy,wx"
    ]
    for step in range(6):
        (drive / f"camera/{start + step}.png").touch()
        lines.append(f"{start + step},{step}.5,2.25,0.5,1,0,0,1.8,-1.3,-0.2,0,0,0")
    (drive / "applanix/camera_poses.csv").write_text("\n".join(lines) + "\n")
    return drive / "applanix/camera_poses.csv"


def _msls(base: Path, folder: Path, mutate: str = "postprocessed.csv") -> Path:
    side = folder / "train_val/cph/database"
    (side / "images").mkdir(parents=True)
    keys = [f"key{number}" for number in range(4)]
    tables = {
        "postprocessed.csv": (
            ",key,easting,northing,unique_cluster,control_panel,night,view_direction\n"
            + "".join(
                f"{n},{key},{347000 + n}.5,6172000.25,1,False,False,Forward\n"
                for n, key in enumerate(keys)
            )
        ),
        "raw.csv": (
            ",key,lon,lat,ca,captured_at,pano\n"
            + "".join(
                f"{n},{key},12.57,55.68,90.0,2018-05-04,False\n" for n, key in enumerate(keys)
            )
        ),
        "seq_info.csv": (
            ",key,sequence_key,frame_number\n"
            + "".join(f"{n},{key},s1,{n}\n" for n, key in enumerate(keys))
        ),
    }
    for key in keys:
        (side / f"images/{key}.jpg").touch()
    for name, text in tables.items():
        (side / name).write_text(text)
    return side / mutate


def _pittsburgh(base: Path, folder: Path) -> Path:
    import scipy.io

    def cells(names: list[str]) -> Any:
        column = np.empty((len(names), 1), dtype=object)
        column[:, 0] = names
        return column

    names = [f"000/{number:06d}_pitch1_yaw1.jpg" for number in range(3)]
    where = np.stack([584_321.125 + np.arange(3.0), 4_476_543.75 + np.arange(3.0)])
    fields = {"whichSet": "train", "dbImageFns": cells(names), "utmDb": where}
    fields |= {
        "qImageFns": cells(names[:1]),
        "utmQ": where[:, :1],
        "numImages": 3.0,
        "numQueries": 1.0,
    }
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).touch()
    file = folder / "datasets/pitts30k_train.mat"
    file.parent.mkdir()
    scipy.io.savemat(file, {"dbStruct": fields}, do_compression=False)
    return file


def _picture(suffix: str, **options: Any) -> Callable[[Path, Path], Path]:
    def seed(base: Path, folder: Path) -> Path:
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        file = folder / f"image{suffix}"
        picture = Image.fromarray(pixels).resize((64, 48))
        if suffix == ".jpg":
            exif = Image.Exif()
            exif.get_ifd(0x8825).update(
                {1: "N", 2: (51.0, 45.0, 7.2), 3: "W", 4: (1.0, 15.0, 27.7), 16: "T", 17: 0.0}
            )
            exif.get_ifd(0x8769).update({0x9003: "2026:05:01 12:00:00", 0x9011: "+00:00"})
            options["exif"] = exif
        picture.save(file, **options)
        return file

    return seed


def _load_image(base: Path, folder: Path) -> Any:
    from mappable.places.images import load_image

    return load_image(next(folder.iterdir()), (64, 48))


def _call(module: str, function: str, name: str, *arguments: Any) -> Callable[[Path, Path], Any]:
    """A call of a function with a file of the folder, or with the folder itself."""

    def read(base: Path, folder: Path) -> Any:
        return resolve_name(f"{module}:{function}")(folder / name if name else folder, *arguments)

    return read


def _track(name: str) -> Callable[[Path, Path], Any]:
    """A call of the reader of tracks with a file of the folder."""

    def read(base: Path, folder: Path) -> Any:
        from mappable.places.notes import Findings
        from mappable.readers.track_files import read_track

        return read_track(folder / name, Findings())

    return read


def _own(name: str, source: str, file: str, function: str, *arguments: Any) -> "Target":
    """A file of ours, and a function such as `maps.landmarks:Landmarks.open` that reads it.

    `source` is a file of the base, or a folder that contains `file`; then the function reads the
    folder.
    """
    module, _, member = f"mappable.{function}".partition(":")
    return Target(
        name,
        _copied(source, file),
        _call(module, member, file if "." in source else "", *arguments),
    )


def _csv_json(base: Path, folder: Path) -> Path:
    shutil.copytree(base / "csv", folder, dirs_exist_ok=True)
    return folder / "places.csv.json"


def _pack(base: Path, folder: Path) -> Any:
    from mappable.places.cache import PackedImages

    pack = PackedImages(folder)
    return pack.damaged()


def _hloc(base: Path, folder: Path) -> Any:
    from mappable.features.descriptors import read_descriptors
    from mappable.places.files import load_places

    return read_descriptors(folder / "a.h5", load_places(base / "landmarks.parquet"))


def _npy_rows(base: Path, folder: Path) -> Any:
    from mappable.features.descriptors import read_descriptors
    from mappable.places.files import load_places

    return read_descriptors(folder / "a.npy", load_places(base / "descriptors"))


def _pth(base: Path, folder: Path) -> Path:
    import torch

    torch.save(
        {"features.0.weight": torch.zeros(2, 3, 3, 3), "features.0.bias": torch.zeros(2)},
        folder / "a.pth",
    )
    return folder / "a.pth"


def _known_field(base: Path, folder: Path) -> Any:
    from mappable.service.bodies import known_positions

    return known_positions((folder / "known").read_text("utf-8", "replace"))


def _descriptors_body(base: Path, folder: Path) -> Any:
    from mappable.containers import npy_from_bytes, parse_json
    from mappable.errors import BadInputError
    from mappable.service.bodies import unit_vectors

    (file,) = folder.iterdir()
    data = file.read_bytes()
    try:
        sent = (
            npy_from_bytes(data)
            if file.name == "npy"
            else parse_json(data, len(data))["descriptors"]
        )
    except (ValueError, TypeError, KeyError) as error:  # the server answers these by one sentence
        raise BadInputError(str(error)) from None
    return unit_vectors(sent, 2)


def write_video(base: Path, folder: Path, telemetry: bool = False) -> Path:
    import av

    with av.open(str(folder / "drive.mp4"), "w") as container:
        container.metadata["creation_time"] = "2024-05-01T12:00:00Z"
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(12):
            picture = np.full((48, 64, 3), 20 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    if telemetry:
        from telemetry_tracks import add_track, gps5

        walk = [(47.0 + 1e-5 * number, 8.5, 400.0) for number in range(10)]
        return add_track(folder / "drive.mp4", b"gpmd", [(1000, gps5(walk)), (1000, gps5(walk))])
    lines = [f"2024-05-01T12:00:{second:02d}Z,{3 * second},0" for second in range(4)]
    (folder / "drive.csv").write_text("\n".join(["time,x,y", *lines]) + "\n")
    return folder / "drive.mp4"


def _bag(kind: Any) -> Callable[[Path, Path], Path]:
    def seed(base: Path, folder: Path) -> Path:
        from bag_writer import START, BagWriter, noise

        writer = BagWriter(kind)
        writer.add_transform(START, "base_link", "camera_optical", (0.1, 0, 0), (0, 0, 0, 1))
        writer.add_camera_info("/cam/camera_info", START, (32, 24), 30.0, (-0.1, 0, 0, 0, 0))
        for number in range(4):
            writer.add_odometry("/odom", START + number * 10**8, (number, 0, 0))
            writer.add_image(
                "/cam/image", START + number * 10**8, noise(0, (8, 6)).tobytes(), "rgb8", (8, 6)
            )
        bag = writer.write(folder, "run")
        return (
            bag
            if bag.is_file()
            else next(one for one in bag.iterdir() if one.suffix in (".db3", ".mcap"))
        )

    return seed


def _read_bag(base: Path, folder: Path) -> Any:
    shutil.rmtree(folder / "run-frames", ignore_errors=True)  # of the input before
    return _reader("rosbag", spacing=0)(base, folder)


def _colmap(kind: str) -> Callable[[Path, Path], Path]:
    def seed(base: Path, folder: Path) -> Path:
        shutil.copytree(
            Path(__file__).parents[2] / f"tests/places/readers/data/colmap/{kind}",
            folder / "sparse/0",
        )
        (folder / "images").mkdir()
        return next((folder / "sparse/0").glob("images.*"))

    return seed


SCENE = json.dumps(
    {
        "frames": [
            {
                "file_path": f"images/{n}.png",
                "transform_matrix": [[1, 0, 0, n], [0, 0, -1, 0], [0, 1, 0, 2], [0, 0, 0, 1]],
            }
            for n in range(4)
        ]
    }
)
SRT = "".join(
    f"{n}\n00:00:0{n},000 --> 00:00:0{n},500\n[latitude: 47.{n}] [longitude: 8.5] [rel_alt: 1.0"
    " abs_alt: 400.5]\n\n"
    for n in range(5)
)
NMEA = (
    "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\n"
    "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\n"
)
GPX = (
    '<?xml version="1.0" encoding="UTF-8"?><gpx version="1.1"'
    ' xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
    + "".join(
        f'<trkpt lat="51.5{n}"'
        f' lon="-1.25"><ele>6{n}.5</ele><time>2024-05-01T12:00:0{n}Z</time></trkpt>'
        for n in range(5)
    )
    + "</trkseg></trk></gpx>"
)
FORM = (
    "--wall\r\nContent-Disposition: form-data;"
    ' name="known"\r\n\r\n[]\r\n--wall\r\nContent-Disposition: form-data; name="images";'
    ' filename="a.png"\r\nContent-Type: image/png\r\n\r\npixels\r\n--wall--\r\n'
)
TARGETS = {
    target.name: target
    for target in (
        Target("manifest.csv", _copied("images/places.csv", "places.csv"), _reader("manifest")),
        Target(
            "manifest in degrees",
            _text(
                "places.csv",
                "path,latitude,longitude,time,heading\na.jpg,51.75,-1.25,2024-05-01T12:00:00Z,10\n"
                * 1,
            ),
            _reader("manifest"),
        ),
        Target("kitti poses", _kitti, _reader("kitti")),
        Target(
            "kitti times",
            lambda base, folder: _kitti(base, folder, "sequences/00/times.txt"),
            _reader("kitti"),
        ),
        Target("tum trajectory", _tum, _reader("tum")),
        Target("tum list", lambda base, folder: _tum(base, folder, "rgb.txt"), _reader("tum")),
        Target("robotcar ins.csv", _robotcar, _reader("robotcar")),
        Target("euroc poses", _euroc, _reader("euroc")),
        Target(
            "euroc sensor.yaml",
            lambda base, folder: _euroc(base, folder, "cam0/sensor.yaml"),
            _reader("euroc"),
        ),
        Target("nclt ground truth", _nclt, _reader("nclt")),
        Target("4seasons poses", _four_seasons, _reader("four_seasons")),
        Target(
            "4seasons transforms",
            lambda base, folder: _four_seasons(base, folder, "Transformations.txt"),
            _reader("four_seasons"),
        ),
        Target("kitti-360 poses", _kitti_360, _reader("kitti_360")),
        Target("mapillary .json", _mapillary, _reader("mapillary")),
        Target("kapture trajectories", _kapture, _reader("kapture")),
        Target("matrices .pose.txt", _matrices, _reader("matrices")),
        Target("boreas poses", _boreas, _reader("boreas")),
        Target("msls postprocessed.csv", _msls, _reader("msls")),
        Target(
            "msls raw.csv", lambda base, folder: _msls(base, folder, "raw.csv"), _reader("msls")
        ),
        Target(
            "msls seq_info.csv",
            lambda base, folder: _msls(base, folder, "seq_info.csv"),
            _reader("msls"),
        ),
        Target("pittsburgh .mat", _pittsburgh, _reader("pittsburgh")),
        Target(
            "cold names",
            _text(
                "freiburg/seq2_sunny3/std_cam/t1152886490.040076_x0.205133_y-1.000557_a0.002507.jpeg",
                "",
            ),
            _reader("cold"),
            as_name=True,
        ),
        Target(
            "utm names",
            _text(
                "@0544388.51@4172758.25@10@S@037.70098@-122.49646@kP@03@210@@@12.5@20160612_081530@n@.jpg",
                "",
            ),
            _reader("utm_names"),
            as_name=True,
        ),
        Target("photos", _picture(".jpg"), _reader("photos")),
        Target("video", write_video, _reader("video")),
        Target(
            "video with GPMF",
            lambda base, folder: write_video(base, folder, telemetry=True),
            _reader("video"),
        ),
        Target("track .srt", _text("a.srt", SRT), _track("a.srt")),
        Target("track .nmea", _text("a.nmea", NMEA), _track("a.nmea")),
        *(
            Target(f"colmap {kind}", _colmap(kind), _reader("colmap"))
            for kind in ("text", "binary")
        ),
        Target("transforms.json", _text("transforms.json", SCENE), _reader("transforms")),
        *(Target(f"rosbag {kind}", _bag(kind), _read_bag) for kind in ("ros1", "sqlite3", "mcap")),
        Target("world.json", _copied("world", "world.json"), _reader("simulated")),
        Target("track .gpx", _text("a.gpx", GPX), _track("a.gpx")),
        Target(
            "track .csv",
            _text("a.csv", "time,x,y\n2024-05-01T12:00:00Z,1,2\n2024-05-01T12:00:01Z,3,4\n"),
            _track("a.csv"),
        ),
        Target("image .png", _picture(".png"), _load_image),
        Target("image .jpg", _picture(".jpg"), _load_image),
        Target("image .webp", _picture(".webp"), _load_image),
        Target("image .tiff", _picture(".tiff"), _load_image),
        Target("image .gif", _picture(".gif"), _load_image),
        Target("image .bmp", _picture(".bmp"), _load_image),
        _own("ranges.csv", "ranges/ranges.csv", "a.csv", "recovery.files:read_ranges"),
        _own("anchors.csv", "ranges/known.csv", "a.csv", "recovery.files:read_anchors"),
        Target(
            "odometry.csv",
            _text("a.csv", "i,j,x,y,sigma\n0,1,3,0.5,0.2\n1,2,3,0.25,0.2\n"),
            _call("mappable.recovery.files", "read_odometry", "a.csv"),
        ),
        _own("truth.csv", "ranges/truth.csv", "a.csv", "recovery.files:read_truth", 60),
        _own("truth.tum", "located.tum", "a.txt", "recovery.files:read_truth", 40),
        _own("matrix.npy", "ranges/squared.npy", "a.npy", "recovery.files:read_matrix"),
        _own("settings.yaml", "model/settings.yaml", "a.yaml", "learning.setting_layers:read_file"),
        _own("metrics.jsonl", "model", "metrics.jsonl", "learning.metrics:read_metrics"),
        _own("places.parquet", "set/places.parquet", "places.parquet", "places.files:load_places"),
        Target(
            "places.csv",
            _copied("csv", "places.csv"),
            _call("mappable.places.files", "load_places", "places.csv"),
        ),
        Target(
            "places.csv.json",
            _csv_json,
            _call("mappable.places.files", "load_places", "places.csv"),
        ),
        Target("pack.json", _copied("set/pixels/64x48-crop", "pack.json"), _pack),
        Target("index.parquet", _copied("set/pixels/64x48-crop", "index.parquet"), _pack),
        Target("images.npy", _copied("set/pixels/64x48-crop", "images.npy"), _pack),
        _own(
            "encoder.safetensors",
            "model/encoder.safetensors",
            "a.safetensors",
            "features.encoder:Encoder.load",
        ),
        _own("encoder.onnx", "encoder.onnx", "a.onnx", "features.opening:open_file", "cpu"),
        _own(
            "checkpoint.safetensors",
            "stopped/checkpoint.safetensors",
            "a.safetensors",
            "learning.checkpoint:Checkpoint.load",
        ),
        Target(
            "weights .pth",
            _pth,
            _call("mappable.features.weight_files", "read_tensors", "a.pth", "vgg16"),
        ),
        _own(
            "descriptors.json",
            "descriptors",
            "descriptors.json",
            "features.descriptors:read_descriptors",
        ),
        _own(
            "descriptors.npy",
            "descriptors",
            "descriptors.npy",
            "features.descriptors:read_descriptors",
        ),
        Target(
            "foreign descriptors .npy", _copied("descriptors/descriptors.npy", "a.npy"), _npy_rows
        ),
        Target("hloc .h5", _copied("landmarks.h5", "a.h5"), _hloc),
        _own("map.json", "dense-map", "map.json", "maps.landmarks:Landmarks.open"),
        _own("map landmarks", "dense-map", "landmarks-*", "maps.landmarks:Landmarks.open"),
        _own("map covariance", "dense-map", "covariance-*", "maps.landmarks:Landmarks.open"),
        _own("map descriptors", "dense-map", "descriptors-*", "maps.landmarks:Landmarks.open"),
        _own("map index", "indexed-map", "index-*", "maps.landmarks:Landmarks.open"),
        _own("result.json", "result", "result.json", "evaluation.result:Result.load"),
        Target(
            "descriptors body",
            _text("json", '{"descriptors": [[0.6, 0.8]], "images": ["a"]}'),
            _descriptors_body,
        ),
        Target("descriptors body .npy", _npy_body, _descriptors_body),
        Target(
            "description .yaml",
            _text(
                "a.yaml",
                "hub: a/b@c:d\narguments: {n: 5}\nsize: [224, 224]\nmean: [0.5, 0.5,"
                " 0.5]\noutput: 0\n",
            ),
            _call("mappable.features.foreign.description", "read_description", "a.yaml"),
        ),
        Target(
            "field known",
            _text("known", '[{"point": 0, "coordinates": [12.0, 3.5], "sigma": 0.5}]'),
            _known_field,
        ),
    )
}


@contextmanager
def prepared(target: Target, base: Path) -> Iterator[tuple[Path, Path]]:
    """A folder in memory with the target's seed, and the file that is mutated."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="trust-", dir=memory if memory.is_dir() else None
    ) as made:
        folder = Path(made) / "in"
        folder.mkdir()
        yield folder, target.seed(base, folder)


def try_input(target: Target, base: Path, folder: Path, file: Path, data: bytes) -> str:
    """Give the reader this input: "" if it behaves, else what happened."""
    from mappable.errors import MappableError

    try:
        from mappable.service.limits import RefusedError
    except ImportError:
        RefusedError = MappableError  # type: ignore[misc] # noqa: N806 - the server is not installed
    named = None
    if target.as_name:
        name = (
            data.decode("utf-8", "replace")
            .replace("/", "_")
            .replace("\0", "_")
            .encode()[:200]
            .decode("utf-8", "ignore")
        )
        named = file.with_name(name if name.strip(".") else "x.jpg")
        named.touch()
    else:
        file.write_bytes(data)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, computed = time.perf_counter(), time.process_time()
    wrong = ""
    try:
        target.read(base, folder)
    except (MappableError, RefusedError) as error:
        if "\n" in str(error):
            wrong = f"several lines: {str(error)[:200]!r}"
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    if min(time.perf_counter() - wall, time.process_time() - computed) > SECONDS:
        wrong = wrong or f"took {time.process_time() - computed:.1f} s"
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    if more > MEGABYTES:
        wrong = wrong or f"took {more:.0f} MB"
    if named is not None:
        named.unlink(missing_ok=True)
    return wrong


def run_fuzz(
    base: Path,
    counters: Counters,
    inputs: int,
    slice_seconds: float = 3.0,
    until: float = float("inf"),
    names: Iterable[str] = TARGETS,
) -> None:
    """Mutate the seeds of all targets in turn, at least once, until all counters together have
    `inputs` inputs.
    """
    names = list(names)
    while True:
        for name in names:
            first = counters.get(name, "tried")
            tried, failures = _slice(TARGETS[name], base, first, slice_seconds)
            counters.add(name, "tried", tried)
            for failure in failures:
                counters.fail(name, failure)
            counters.save()
        if counters.total("tried") >= inputs or time.monotonic() > until:
            return


def has_seed(target: Target, base: Path) -> bool:
    """True if the base has what the seed of the target copies."""
    try:
        with prepared(target, base):
            return True
    except (OSError, IndexError):
        return False


def _slice(target: Target, base: Path, first: int, seconds: float) -> tuple[int, list[str]]:
    """Try inputs from number `first` on for some seconds, in a fork; a fork that dies is a failure."""
    at = mmap.mmap(-1, 8)  # number of the current input, in case the process dies

    def work() -> tuple[int, list[str]]:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        warnings.simplefilter("ignore")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # messages of libraries
        use_small_backbone(base)
        failures, number, end = [], first, time.monotonic() + seconds
        with prepared(target, base) as (folder, file):
            data = file.name.encode() if target.as_name else file.read_bytes()
            if target.as_name:
                file.unlink()
            while time.monotonic() < end:
                at[:8] = struct.pack("<q", number)
                signal.alarm(HARD_SECONDS)
                wrong = try_input(
                    target,
                    base,
                    folder,
                    file,
                    mutated(data, random.Random(f"{target.name} {number}")),
                )
                signal.alarm(0)
                if wrong:
                    failures.append(f"input {number}: {wrong}")
                number += 1
        return number - first, failures

    try:
        tried, failures = ask(work)
        return tried, failures
    except RuntimeError as error:
        number = struct.unpack("<q", at[:8])[0]
        return number - first + 1, [
            f"input {number}: {str(error).strip().splitlines()[-1]} (killed, crashed, or over"
            f" {HARD_SECONDS} s)"
        ]
