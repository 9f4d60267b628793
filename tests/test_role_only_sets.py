"""Sets that mark references and queries but no splits, from their reader to what trains, is a landmark and is asked."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from mappable.evaluation.setup import setup_of
from mappable.features.descriptors import Described
from mappable.learning.data import select
from mappable.localization.build import build_map_of
from mappable.places.pixels import ImageRows
from mappable.places.roles import rows_to_locate
from mappable.places.table import Places
from mappable.readers.registry import read_places

EAST, NORTH = 584_321 + 10.0 * np.arange(6), 4_476_543.0  # four references, then two queries


def utm_names(root: Path) -> Places:
    for number, east in enumerate(EAST):
        folder = root / ("database" if number < 4 else "queries")
        folder.mkdir(exist_ok=True)
        (folder / f"@{east}@{NORTH}@17@T@40.43@-80.00@{number}@.jpg").touch()
    return read_places("utm_names", root)


def pittsburgh(root: Path) -> Places:
    names = np.empty((6, 1), dtype=object)
    names[:, 0] = [f"000/{number:06d}_pitch1_yaw1.jpg" for number in range(6)]
    utm = np.stack([EAST, np.full(6, NORTH)])
    fields = {
        "dbImageFns": names[:4],
        "utmDb": utm[:, :4],
        "qImageFns": names[4:],
        "utmQ": utm[:, 4:],
    }
    scipy.io.savemat(root / "pittsburgh.mat", {"dbStruct": fields})
    return read_places("pittsburgh", root)


def manifest(root: Path) -> Places:
    rows = [
        f"{row}.jpg,{east},{NORTH},{'reference' if row < 4 else 'query'}"
        for row, east in enumerate(EAST)
    ]
    (root / "places.csv").write_text("\n".join(["path,x,y,role", *rows]))
    return read_places("manifest", root)


@pytest.mark.parametrize(
    "read", [utm_names, pytest.param(pittsburgh, marks=pytest.mark.medium), manifest]
)
def test_queries_do_not_train_and_are_no_landmarks(
    read: Callable[[Path], Places], tmp_path: Path
) -> None:
    places = read(tmp_path)
    known, questions = (
        np.flatnonzero(places.role == role).tolist() for role in ("reference", "query")
    )
    assert (set(places.split), len(known), len(questions)) == ({""}, 4, 2)
    data = select(
        places,
        ImageRows(np.arange(6 * 12, dtype=np.uint8).reshape(6, 2, 2, 3), np.arange(6)),
        queries=4,
    )
    assert (data.images.rows.tolist(), len(data.queries)) == (known, 0)
    built = build_map_of(Described(places, np.eye(6, dtype=np.float32)), "encoder", every=True)
    assert built.landmarks.places.path.tolist() == places.path[known].tolist()
    setup = setup_of("set", places, positive_radius=10.0, negative_radius=25.0)
    assert (setup.references.tolist(), setup.queries.tolist()) == (known, questions)
    assert rows_to_locate(places).tolist() == questions
