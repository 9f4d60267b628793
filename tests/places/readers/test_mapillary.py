"""The reader of Mapillary's JSON, on files written as its API describes them."""

import json

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.readers import read_places


def image(number, **changes):
    place = {"type": "Point", "coordinates": [13.4 + 1e-4 * number, 52.5]}
    record = {
        "id": f"49876346821416{number}",
        "geometry": place,
        "compass_angle": 90.0,
        "captured_at": 1_600_000_000_000,
    }
    record |= {"computed_geometry": {"type": "Point", "coordinates": [13.4 + 1e-4 * number, 52.6]}, "sequence": "abc"}
    record |= {"computed_compass_angle": 45.0 + number, "computed_altitude": 33.5}
    return {key: value for key, value in (record | changes).items() if value is not None}


def write(root, records, sides=False):
    root.mkdir(exist_ok=True)
    for record in records:
        (root / f"{record['id']}.jpg").touch()
        if sides:
            (root / f"{record['id']}.jpg.json").write_text(json.dumps(record))
    if not sides:
        (root / "images.json").write_text(json.dumps({"data": records, "paging": {}}))
    return root


@pytest.mark.parametrize("sides", [False, True])
def test_positions_directions_and_times(tmp_path, sides):
    places = read_places("mapillary", write(tmp_path / "set", [image(number) for number in range(3)], sides))
    latitude, longitude = places.frames[places.frame[0]].to_latlon(places.positions)
    np.testing.assert_allclose(latitude, 52.6, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sort(longitude), 13.4 + 1e-4 * np.arange(3), rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sort(np.rad2deg(places.yaw)), [43, 44, 45], atol=1e-9)
    assert set(places.time) == {1_600_000_000 * 10**9}
    assert set(places.z) == {33.5}
    assert set(places.sequence) == {"abc"}
    gps = read_places("mapillary", tmp_path / "set", source="gps")
    assert gps.frames[gps.frame[0]].to_latlon(gps.positions)[0] == pytest.approx(52.5)
    assert np.rad2deg(gps.yaw) == pytest.approx(0)


def test_what_is_missing_is_noted(tmp_path):
    nowhere = image(2, geometry=None, computed_geometry={"coordinates": [0, 0]})
    records = [image(0), image(1, computed_geometry=None), nowhere]
    write(tmp_path, records)
    (tmp_path / "extra.jpg").touch()
    (tmp_path / f"{records[0]['id']}.jpg").unlink()
    places = read_places("mapillary", tmp_path)
    assert list(places.place_id) == [records[1]["id"]]
    assert {note.text: note.items for note in places.notes} == {
        "images have no JSON": ("extra.jpg",),
        "images of the JSON have no file (left out)": (records[0]["id"],),
        "images have no position (left out)": (records[2]["id"],),
        "images have only the position of the GPS": (records[1]["id"],),
    }


@pytest.mark.parametrize("coordinates", [[1], "x", [None, 2], [500, 2], [True, 1]])
def test_bad_coordinates_are_named(tmp_path, coordinates):
    write(tmp_path, [image(0), image(1, computed_geometry={"coordinates": coordinates})])
    with pytest.raises(BadInputError, match=r"images\.json, image '498763468214161': computed_geometry is"):
        read_places("mapillary", tmp_path)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[]", "3"])
def test_files_that_are_no_answer(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInputError, match=r"a\.json|no JSON file"):
        read_places("mapillary", tmp_path)
