"""The study of Nordland: its protocol, and that it runs, where the images are there."""

import os
from pathlib import Path

import numpy as np
import pytest

from mappable.evaluation.bootstrap import route_blocks
from mappable.evaluation.reproduce import load_study, plan
from mappable.evaluation.rows import rows_named
from mappable.learning.settings import load_settings
from nordland import NORDLAND as SET

ROOT = Path(__file__).parents[1]
NORDLAND = Path(os.environ.get("MAPPABLE_NORDLAND") or ROOT.parent / "shared/data/nordland")
SMALL = {"weights": "random", "clusters": 2, "size": "64x36", "iterations": 2, "anchors": 2, "init_images": 4}
with_the_images = pytest.mark.skipif(
    not (NORDLAND / "places.csv").is_file(),
    reason=f"the Nordland images are not at {NORDLAND}; set MAPPABLE_NORDLAND to their folder to run this",
)


@with_the_images
def test_nordland_has_372_queries_and_references_in_19_blocks() -> None:
    assert SET.read is not None
    setup = SET.setup(SET.read(NORDLAND), load_settings(None, SET.settings))
    queries, references = setup.places.x[setup.queries], setup.places.x[setup.references]
    assert queries.tolist() == references.tolist() == list(range(1250, 1622))
    assert len(np.unique(route_blocks(queries, setup.block))) == 19


@pytest.mark.medium
@with_the_images
def test_a_small_study_of_nordland_runs(tmp_path: Path, small_backbone: str) -> None:
    folder = tmp_path / "part"
    folder.mkdir()
    stretches = {"train": range(1150, 1200), "test": range(1250, 1290)}
    lines = [
        f"{season}/{frame:05d}.jpg,{season},{season},{frame},0,{split}"
        for split, frames in stretches.items()
        for season in ("summer", "winter")
        for frame in frames
    ]
    (folder / "places.csv").write_text("\n".join(["path,sequence,condition,x,y,split", *lines]) + "\n")
    for season in ("summer", "winter"):
        (folder / season).symlink_to(NORDLAND.resolve() / season)
    overrides = [f"{name}={value}" for name, value in {"backbone": small_backbone, **SMALL}.items()]
    models = plan(SET, rows_named(["off-the-shelf", "triplet+huber-ours"]), [0], overrides)
    study = load_study(SET, folder, tmp_path / "results", models, protocols=["table1"], device="cpu")
    shelf, ours = study.run(models)
    assert len(shelf.ids) == len(ours.ids) == 40
    assert ours.unit == "frames"
    assert ours.settings["positives_from"] == "other-runs"
