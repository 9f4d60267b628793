"""What a run is made of besides what the map says: true positions, and those recovered without a map."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.maps.locate import Locator
from mappable.maps.rerun_export import export_rerun
from mappable.maps.run import LocatedRun, RecoveredShape, known_positions
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.joining import concatenate


def test_parts_are_fitted_each_by_itself() -> None:
    truth = np.random.default_rng(0).normal(size=(12, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    own = np.concatenate([3 * truth[:5] @ turn + 7, truth[5:10] * [-1, 1], truth[10:]])  # the second one is mirrored
    parts = np.repeat([0, 1, 2], [5, 5, 2])
    known = truth.copy()
    known[[0, 9]] = np.nan  # which follow from the others
    fitted = RecoveredShape(own, parts, placed=False).fitted(known)
    np.testing.assert_allclose(fitted[:10], truth[:10], atol=1e-9)
    assert np.isnan(fitted[10:]).all()  # two images do not tell which way round
    np.testing.assert_array_equal(RecoveredShape(own, parts, placed=True).fitted(known), own)


def test_true_positions_are_those_of_tables_in_the_frame_of_the_map(town: Any, tmp_path: Path) -> None:
    positions = town.drive[0][:6]
    places = [town.places(positions[rows], name, root=tmp_path) for rows, name in ((slice(3), "a"), (slice(3, 6), "b"))]
    shifted = places[1].replace(frames=Frame("town", origin=(5.0, 0.0, 0.0)))  # the same name, but other coordinates
    save_places(places[0], tmp_path / "a.parquet")
    save_places(shifted, tmp_path / "b.parquet")
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "c.jpg"]
    known = known_positions(town.map, concatenate(places), tables)
    np.testing.assert_array_equal(known[:3], positions[:3])
    assert np.isnan(known[3:]).all()
    save_places(places[1], tmp_path / "b.parquet")
    np.testing.assert_array_equal(known_positions(town.map, concatenate(places), tables), positions)


def test_a_run_in_three_dimensions_is_recorded_at_its_height(hills: Any, tmp_path: Path, draw: Any) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not here (490 MB): pip install 'mappable[rerun]'")
    from rerun.chunk import RrdReader

    positions, descriptors = hills.drive[0][:4], hills.drive[1][:4]
    places = hills.places(positions, "drive", root=tmp_path)
    for file in places.files:
        draw(file)
    found = Locator(hills.map).locate(descriptors, encoder=hills.encoder)
    bad = export_rerun(tmp_path / "run.rrd", LocatedRun(hills.map, places, found, positions))
    assert len(bad) == len(hills.map)  # whose landmarks have no images
    chunks = RrdReader(tmp_path / "run.rrd").stream().to_chunks()
    columns = {one.entity_path: one.to_record_batch().to_pydict() for one in chunks if one.num_rows == 4}
    np.testing.assert_allclose(columns["/world/now/truth"]["Points3D:positions"], positions[:, None], atol=1e-4)
    for (ring,), one in zip(columns["/world/now/ellipse"]["LineStrips3D:strips"], found, strict=True):
        np.testing.assert_allclose(np.array(ring)[:, 2], one.coordinates[2], atol=1e-4)
