"""The paper's own start: its inputs, its errors, and its sentence in the report."""

from dataclasses import replace
from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.evaluation import as_printed
from mappable.evaluation.as_printed import printed_settings, start_of
from mappable.evaluation.protocol import View
from mappable.evaluation.report import headline_of
from mappable.evaluation.reproduce import plan
from mappable.evaluation.result import Result
from mappable.evaluation.rows import TABLE_1, rows_named
from mappable.evaluation.sets import find_set
from mappable.evaluation.setup import Setup
from mappable.learning.settings import locations_per_image
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
        assert one.iterations == 0 if never_trained else one.epochs == {"oxford": 2, "cold": 1}[name]
        assert one.cache_every == {"oxford": 1000, "cold": 400}[name]
        assert one.landmarks == {"oxford": 200, "cold": 100}[name]


def test_30_000_images() -> None:
    assert as_printed.CLUSTER_IMAGES == 30_000
    assert locations_per_image(as_printed.CLUSTER_IMAGES) == 4


@pytest.mark.usefixtures("few_images")
def test_a_missing_input_is_one_sentence_with_a_remedy(tmp_path: Path) -> None:
    convert = r"; convert Pittsburgh 250k with: mappable convert pittsburgh FOLDER PLACES"
    with pytest.raises(BadInputError, match=rf"nowhere.*no such table of places{convert}"):
        printed_settings("oxford", tmp_path / "nowhere")
    with pytest.raises(BadInputError, match=rf"has 4 images, expected at least 16{convert}"):
        printed_settings("oxford", converted(tmp_path / "few", 4))
    with pytest.raises(BadInputError, match=rf"frame is 'street', expected Pittsburgh 250k{convert}"):
        printed_settings("oxford", converted(tmp_path / "other", 16, "street"))
    for change in ("weights=vgg16-v1", "init_images=3,4", " init_source =train"):
        with pytest.raises(BadInputError, match=rf"--as-printed sets .*leave out {change}"):
            printed_settings("cold", converted(tmp_path / "enough", 16), ["margin=0.3", change])


@pytest.mark.medium
def test_the_report_says_which_start_was_run(results: list[Result], setup: Setup) -> None:
    settings = plan(find_set("oxford"), rows_named(["triplet"]), [0])[0].settings.model_dump(mode="json")
    oxford = replace(setup, name="oxford")
    told = [replace(result, settings=settings) for result in results]
    assert "Not as printed (--as-printed): weights vgg16-v1, 300 training images" in headline_of(View(told, oxford)).run
    printed = headline_of(View(told, oxford, as_printed=True)).run
    assert " As printed: Caffe weights (vgg16-caffe), 30,000 Pittsburgh images for the clusters." in printed
    assert "not the printed sum" in printed
    assert headline_of(View(told, setup)).run.endswith(" landmarks."), "a set that the paper has no numbers of"
    by_hand = settings | {"weights": "vgg16-caffe", "init_source": "/data/places", "init_images": 30_000}
    assert "vgg16-caffe, at most 30,000 images of /data/places" in start_of(by_hand, oxford, as_printed=False)
