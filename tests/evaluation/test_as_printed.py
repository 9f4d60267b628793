"""The paper's own start: its inputs, its errors, and its sentence in the report."""

from pathlib import Path

import pytest

from mappable.evaluation import as_printed
from mappable.evaluation.as_printed import printed_settings
from mappable.evaluation.reproduce import plan
from mappable.evaluation.rows import TABLE_1
from mappable.evaluation.sets import find_set
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places


@pytest.fixture
def few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 16 images suffice, with as many local features as clusters."""
    monkeypatch.setattr(as_printed, "CLUSTER_IMAGES", 16)


def converted(folder: Path, count: int, frame: str = "pittsburgh-unposed") -> Path:
    names = [f"000/{number:06d}_pitch1_yaw1.jpg" for number in range(count)]
    places = Places(path=names, x=range(count), y=[0.0] * count, frames=Frame(frame, unit="frames"))
    save_places(places, folder / "places.parquet")
    return folder


@pytest.mark.parametrize("name", ["oxford", "cold"])
@pytest.mark.usefixtures("few_images")
def test_all_rows_of_the_table_have_the_papers_settings(name: str, tmp_path: Path) -> None:
    printed = printed_settings(name, converted(tmp_path, 16))
    for model in plan(find_set(name), TABLE_1, [0], printed):
        one, never_trained = model.settings, model.row.name == "off-the-shelf"
        assert (one.weights, one.init_source, one.init_images) == ("vgg16-caffe", str(tmp_path), 16)
        assert (one.learning_rate, one.trainable) == (1e-6, "all")
        assert (one.anchors, one.positives, one.negatives, one.hard_negatives) == (2, 6, 6, 3)
        assert (one.margin, one.second_margin, one.huber_delta, one.clusters) == (0.1, 0.2, 1, 64)
        assert (one.geometric_weight, one.feature_scale_squared) == (0.5, 2)
        assert one.positives_from == "all"
        assert (one.mirrored, one.light, one.averaging, one.dimensions) == (0, 0, 0, None)
        assert (
            one.iterations == 0 if never_trained else one.epochs == {"oxford": 2, "cold": 1}[name]
        )
        assert one.cache_every == {"oxford": 1000, "cold": 400}[name]
        assert one.landmarks == {"oxford": 200, "cold": 100}[name]
