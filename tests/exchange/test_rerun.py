"""Recordings, as rerun reads them."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.exchange.poses import Poses
from mappable.exchange.writers import write_poses
from mappable.places.pixels import ImageRows

pytest.importorskip("rerun", reason="rerun-sdk is not here (490 MB): pip install 'mappable[rerun]'")


@pytest.fixture
def recorded(on_map: Poses, tmp_path: Path) -> dict[str, dict[int, Any]]:
    """The columns of a recording by entity and number of the image."""
    from rerun.chunk import RrdReader

    count = len(on_map)
    truth = np.array(
        [
            pose.position or np.full(len(on_map.poses[0].position or ()), np.nan)
            for pose in on_map.poses
        ]
    )
    pixels = ImageRows(np.zeros((count, 8, 8, 3), dtype=np.uint8), np.arange(count))
    file = tmp_path / "run.rrd"
    write_poses([file], replace(on_map, images=pixels, truth=truth + 1))
    columns: dict[str, dict[int, Any]] = defaultdict(dict)
    for chunk in RrdReader(file).stream().to_chunks():
        if chunk.is_static or "image" not in chunk.timeline_names:
            continue
        batch = chunk.to_record_batch().to_pydict()
        for row in range(chunk.num_rows):
            for name, values in batch.items():
                if ":" in name and values[row]:
                    columns[f"{chunk.entity_path} {name}"][batch["image"][row]] = values[row]
    return columns


def test_positions_ellipses_and_pictures_are_shown(
    recorded: dict[str, dict[int, Any]], on_map: Poses
) -> None:
    for number, pose in on_map.located:
        shown = recorded["/world/now/estimate Points3D:positions"][number]
        np.testing.assert_allclose(shown, [pose.xyz], atol=1e-4)
        (ring,) = recorded["/world/now/ellipse LineStrips3D:strips"][number]
        off = np.array(ring)[:, :2] - pose.xyz[:2]
        assert pose.covariance is not None
        squared = np.einsum("ni,ij,nj->n", off, np.linalg.inv(pose.covariance[:2, :2]), off)
        np.testing.assert_allclose(squared, -2 * np.log(1 - pose.coverage), rtol=1e-3)
    assert recorded["/query/says TextDocument:text"][10][0] == "10.jpg\n10.jpg: not an image"
    assert len(recorded["/query/image EncodedImage:blob"]) == 20
