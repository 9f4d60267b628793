"""The reader of NCLT, on trees written as its description says."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.readers import read_places

START = 1326030975726043


def write(root, run="2012-01-08", camera="Cam5"):
    (root / run / "lb3" / camera).mkdir(parents=True)
    rows = [f"{START + n * 100_000},{2 * n},{n},{-0.5 * n},0,0,{0.1 * n}" for n in range(6)]
    rows.insert(3, f"{START + 250_000},nan,nan,nan,nan,nan,nan")
    (root / f"groundtruth_{run}.csv").write_text("\n".join(rows) + "\n")
    for step in (-1, 0, 1, 2, 3, 4, 5):
        (root / run / "lb3" / camera / f"{START + step * 100_000 + 50_000}.tiff").touch()
    return root


def test_north_east_down_becomes_east_north_up(tmp_path):
    places = read_places("nclt", write(tmp_path))
    half = np.arange(5) + 0.5
    np.testing.assert_allclose(places.x, half, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.y, 2 * half, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.z, 0.5 * half, rtol=0, atol=1e-6)
    np.testing.assert_allclose(places.yaw, np.pi / 2 - 0.1 * half, atol=1e-9)
    assert places.frame[0] == "nclt"
    texts = {note.text: note.items for note in places.notes}
    assert texts["files have rows without a position"] == ("groundtruth_2012-01-08.csv: 1 of 7",)
    assert len(texts["images are outside the ground truth"]) == 2


def test_runs_share_a_frame_and_one_without_ground_truth_is_noted(tmp_path):
    write(tmp_path)
    write(tmp_path, "2012-02-04")
    (tmp_path / "2012-03-17/lb3/Cam5").mkdir(parents=True)
    places = read_places("nclt", tmp_path)
    assert set(places.sequence) == {"2012-01-08", "2012-02-04"}
    assert ("2012-03-17",) in [note.items for note in places.notes]
    assert np.isnan(read_places("nclt", write(tmp_path / "b", camera="Cam1"), camera="Cam1").yaw).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n", "row 1: 2 values"),
        (f"{START},nan,0,0,0,0,0\n", "no row"),
        (f"{START},x,0,0,0,0,0\n", "'north' is 'x'"),
    ],
)
def test_damaged_ground_truth_is_named(tmp_path, text, words):
    (write(tmp_path) / "groundtruth_2012-01-08.csv").write_text(text)
    with pytest.raises(BadInputError, match=rf"groundtruth_2012-01-08\.csv.*{words}"):
        read_places("nclt", tmp_path)


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(BadInputError, match="no run found"):
        read_places("nclt", tmp_path)
