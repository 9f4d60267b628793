"""The reader of Boreas, on a row of poses that is real."""

from pathlib import Path

import numpy as np
import pytest

from mappable.readers.registry import read_places
from reader_folders import put

# A row of boreas-2021-09-02-11-42 (Burnett et al., Boreas, CC BY 4.0), where the car drives to the
# east.
HEADER = "GPSTime,easting,northing,altitude,vel_east,vel_north,vel_up,roll,pitch,heading,angvel_z,angvel_y,angvel_x"
REAL = (
    "1630597336927721,623423.9960784467,4848820.661481018,153.52352833113878,0.8430962679446712,0.08408283095708821,"
    "0.018296636935513134,1.8034241877766366,-1.3647277512080687,-0.2534326113670768,0.02211332130954749,"
    "0.10378154316247004,-0.009303862219951695"
)


def test_a_real_row_looks_where_the_car_drives(tmp_path: Path) -> None:
    drive = tmp_path / "boreas-2021-09-02-11-42"
    put(drive / "applanix/camera_poses.csv", f"{HEADER}\n{REAL}\n")
    put(drive / "camera/1630597336927721.png")
    place = read_places("boreas", tmp_path)
    east, north = (float(word) for word in REAL.split(",")[4:6])
    # The car turns, the camera is ahead of it.
    assert place.yaw[0] == pytest.approx(np.arctan2(north, east), abs=0.15)
