"""The viewer in a real browser: it shows a study, and locates an image that is dropped on the page."""

import base64
import gzip
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import Browser
from mappable.errors import BadInputError
from mappable.evaluation.evaluate import score_all
from mappable.evaluation.protocols import protocols_named
from mappable.evaluation.protocols.distance_matrices import Matrices
from mappable.evaluation.protocols.localization.compute import Localization
from mappable.evaluation.protocols.map_recovery import MapRecovery
from mappable.evaluation.result import Accuracy, Result, empty_result
from mappable.evaluation.scoring import Descriptors, Scoring
from mappable.evaluation.setup import setup_of
from mappable.features import Encoder
from mappable.maps import Map, build_map
from mappable.places import Frame, Places
from mappable.places.files import load_places, save_places
from mappable.service import page
from mappable.service.disk import picture
from mappable.service.study import open_study
from mappable.service.tiles import tiles_of

MODEL = "wall-seed0"
OXFORD = Frame("oxford", crs="EPSG:32630", origin=(620_000.0, 5_734_000.0, 0.0))
WIDE = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def study_folder(wall: Places, map_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the wall, with the encoder of its map; the recovered drive is the true one, slightly shifted."""
    folder = tmp_path_factory.mktemp("study")
    file = Map.open(map_folder).encoder_file
    assert file is not None
    encoder = Encoder.load(file)
    setup = setup_of("wall", wall, positive_radius=4.0, negative_radius=10.0, landmarks=40)
    made = Descriptors(np.arange(len(wall)), encoder.embed(wall, progress=False), encoder.fingerprint)
    empty = empty_result(
        setup, row="wall", title="Wall", seed=0, encoder=encoder.fingerprint, settings={}, images="images"
    )
    protocols = protocols_named(["table1", "distance-matrices", "localization"])
    result = score_all(Scoring(setup, made, encoder.about), empty, protocols)
    truth = wall.positions[setup.queries]
    drawn = MapRecovery(
        sequence="test",
        images=setup.queries,
        known=setup.queries[:10],
        length=170.0,
        repetitions=1,
        methods=[],
        mask=None,
        notes=[],
        truth=truth,
        true=np.zeros((1, 1)),
        masked=None,
        completed=None,
        positions={"anchored": truth + 1.0},
    )
    save_places(wall, folder / "places" / "places.parquet")
    replace(result, scored={**result.scored, "map-recovery": drawn}).save(folder / "results" / MODEL)
    return folder


@pytest.fixture(scope="module")
def address(start: Any, map_folder: Path, study_folder: Path) -> str:
    """The address of a server with a study."""
    return f"http://127.0.0.1:{start(map_folder, study=open_study(study_folder)).port}/"


@pytest.mark.medium
def test_an_image_that_is_dropped_is_placed(browser: Browser, address: str, images: list[tuple[str, bytes]]) -> None:
    browser.open(address)
    browser.ready()
    name, data = images[30]
    browser.drop(name, data)
    x, y = map(float, browser.text("#position").removesuffix(" m").split(", "))
    true = float(name.removesuffix(".png")) / 10
    assert np.hypot(x - true, y - 20 * np.sin(true / 40)) < 3
    assert browser.text("#drop-detail .verdict").startswith(("Placed and trusted", "Placed, not trusted: "))
    assert browser.run("document.querySelectorAll('#drop-detail .candidates img').length") == 4
    browser.until("[...document.querySelectorAll('#drop-detail img')].every((one) => one.naturalWidth === 64)")
    stars = (
        "document.querySelector('#drop-plot').data.filter((one) => one.name === 'your image').map((one) => one.x[0])"
    )
    assert browser.run(stars) == [pytest.approx(x, abs=0.06)]
    browser.drop("notes.png", b"no image")
    browser.until("document.querySelector('#drop-state').classList.contains('bad')")
    assert browser.text("#drop-state") == "notes.png: not a JPEG, PNG or WebP image"


def test_all_views_show_the_study_without_errors_or_other_addresses(
    browser: Browser, address: str, map_folder: Path, study_folder: Path
) -> None:
    result = Result.load(study_folder / "results" / MODEL)
    browser.open(f"{address}#/map", width=390)
    browser.ready()
    assert browser.text("#title") == map_folder.parent.name  # the folder itself is called map
    assert "test images of the study wall" in browser.text("#about")
    assert browser.text("#map-detail .name") == result.ids[0]
    browser.key("ArrowRight")
    assert browser.text("#map-detail .name") == result.ids[1]
    accuracy = result.get(Accuracy)
    assert accuracy is not None
    error = float(accuracy.errors[1])
    assert f"{error:.1f} m" in browser.text("#map-detail dl")
    browser.until("!!document.querySelector('#map-live .candidates')")
    for name in ("drop", "live", "calibration", "trajectory", "matrices"):
        browser.run(f"document.querySelector('#tab-{name}').click()")
        browser.until(f"!!document.querySelector('#{name} .plot .main-svg')")
        assert browser.run(WIDE) <= 0
    off = "document.querySelector('#trajectory-detail dd').textContent"
    assert browser.run(off) == "1.4 m"
    matrices = result.get(Matrices)
    assert matrices is not None
    distances = matrices.distances
    shown = browser.run("document.querySelector('#distances-plot').data[0].z")
    assert np.abs(np.array(shown) - distances).max() <= distances.max() / 510 + 1e-6
    browser.run("document.querySelector('#distances-plot').emit('plotly_hover', { points: [{ x: 7, y: 3 }] })")
    assert f"{distances[3, 7]:.1f} m apart" in browser.text("#matrices-detail .name")
    marked = browser.run("document.querySelector('#feature-plot').layout.shapes.map((one) => [one.x0, one.y0])")
    assert marked == [[0, 3], [7, 0]]
    browser.until("[...document.querySelectorAll('#matrices-detail img')].every((one) => one.naturalWidth === 64)")
    dark = browser.run("(document.querySelector('#theme').click(), document.documentElement.dataset.theme)")
    assert dark in ("dark", "light")
    sentence = browser.run("document.querySelector('#calibration-lead').textContent")
    assert "within their interval (it promises 90 %)" in sentence
    assert browser.complaints() == []
    assert browser.hosts() == {address.split("/")[2]}


@pytest.mark.medium
def test_a_camera_is_followed_live(
    browser: Browser, start: Any, map_folder: Path, images: list[tuple[str, bytes]], as_file: Any
) -> None:
    """The first image is gray: the camera may be anywhere. Then the cloud collapses."""
    sent = [as_file(np.full((48, 64, 3), 128, dtype=np.uint8)), *(data for _, data in images[:7])]
    client = start(map_folder, token="secret")
    browser.open(f"http://127.0.0.1:{client.port}/#/live")
    browser.until("document.querySelector('#token')?.open")
    browser.run("document.querySelector('#token-value').value = 'secret'")
    browser.run("document.querySelector('#token form').requestSubmit()")
    browser.ready()
    assert "Choose New session" in browser.run("document.querySelector('#live-state').textContent")
    browser.run("document.querySelector('#live-new').click()")
    session = browser.until("document.querySelector('#live-id').value")
    shown = "document.querySelector('#live-plot').data?.find((one) => one.name === 'may be here')"
    headers, clouds, found = {"Authorization": "Bearer secret", "Content-Type": "image/png"}, [], []
    for n, data in enumerate(sent):
        answer = client.ask("POST", f"/sessions/{session}/update?time={n}", data, headers)
        assert answer.status == 200, answer.body
        found.append(answer.json)
        browser.until(f"document.querySelector('#live-detail dd')?.innerText.startsWith('{n + 1}, ')")
        clouds.append(browser.until(f"{shown}?.customdata"))
    assert len(clouds[0]) > 2 * len(clouds[-1])
    assert found[-1]["trusted"]
    assert browser.text("#live-detail .verdict") == "tracking"
    camera = "document.querySelector('#live-plot').data.find((one) => one.name === 'camera')"
    assert browser.until(f"{camera} && [{camera}.x[0], {camera}.y[0]]") == pytest.approx(found[-1]["position"])
    path = browser.run("document.querySelector('#live-plot').data.find((one) => one.name === 'path').x.length")
    assert path == sum(one["trusted"] for one in found)
    browser.run("document.querySelector('#live-id').value = 'none'")
    browser.run("document.querySelector('#live-form').requestSubmit()")
    browser.until("document.querySelector('#live-state').classList.contains('bad')")
    assert browser.text("#live-state").startswith("the session 'none' does not exist")


def test_the_page_asks_for_the_token(browser: Browser, start: Any, map_folder: Path) -> None:
    client = start(map_folder, token="secret")
    browser.open(f"http://127.0.0.1:{client.port}/")
    browser.until("document.querySelector('#token')?.open")
    for given in ("wrong", "secret"):
        browser.until("document.querySelector('#token').open")
        browser.run(f"document.querySelector('#token-value').value = {given!r}")
        browser.run("document.querySelector('#token form').requestSubmit()")
    browser.ready()
    assert browser.text("#about").startswith("40 landmarks in the frame oxford")
    browser.until("document.querySelector('#map-detail img')?.naturalWidth")
    browser.run("document.querySelector('#tab-calibration').click()")
    assert browser.until("document.querySelector('#calibration-plot').data?.length") == 3  # the interval and the median
    hidden = browser.run("[...document.querySelectorAll('[role=tab][hidden]')].map((one) => one.innerText)")
    assert hidden == ["Distances", "Trajectory"]  # which a map alone cannot show


@pytest.fixture(scope="module")
def route(map_folder: Path, wall: Places, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wall as a straight route in frame numbers, and its map."""
    file = Map.open(map_folder).encoder_file
    assert file is not None
    encoder, folder = Encoder.load(file), tmp_path_factory.mktemp("route") / "line"
    straight = wall.replace(y=np.zeros(len(wall)), frames=Frame("line", unit="frames"), frame="line")
    build_map(encoder, straight, landmarks=40).save(folder, file)
    return folder


@pytest.mark.medium
def test_a_route_is_a_strip(browser: Browser, start: Any, route: Path, images: list[tuple[str, bytes]]) -> None:
    browser.open(f"http://127.0.0.1:{start(route).port}/")
    browser.ready()
    assert browser.text("#title") == "line"
    rows = "document.querySelector('#map-plot').layout.yaxis.ticktext"
    assert browser.run(rows) == ["images", "landmarks"]
    assert browser.run("document.querySelector('#map-plot').offsetHeight") < 250
    browser.drop(*images[30])
    assert browser.text("#position").endswith(" frames")
    assert "," not in browser.text("#position")  # how far along the route, and nothing else
    kinds = "document.querySelector('#drop-plot').data.map((one) => [one.name, [...new Set(one.y)]])"
    shown = dict(browser.run(kinds))
    assert (shown["landmarks"], shown["your image"]) == ([-0.5], [0.5])
    assert all(0 < y < 1 for y in shown["interval"] if y is not None)
    assert browser.complaints() == []


@pytest.mark.medium
def test_tiles_lie_where_they_belong_and_come_from_this_server(
    browser: Browser, start: Any, map_folder: Path, tmp_path: Path
) -> None:
    """Each tile is blue, with a red spot at each landmark that lies in it."""
    opened, zoom = Map.open(map_folder), 18
    latitude, longitude = opened.frame.to_latlon(opened.places.positions)
    across = (longitude + 180) / 360 * 2**zoom
    down = (1 - np.log(np.tan(np.pi / 4 + np.deg2rad(latitude) / 2)) / np.pi) / 2 * 2**zoom
    first, last = (np.array([across, down]).min(1) - 1).astype(int), (np.array([across, down]).max(1) + 1).astype(int)
    for x in range(first[0], last[0] + 1):
        for y in range(first[1], last[1] + 1):
            pixels = np.full((256, 256, 3), (0, 0, 255), dtype=np.uint8)
            for u, v in zip((across - x) * 256, (down - y) * 256, strict=True):
                pixels[max(int(v) - 6, 0) : max(int(v) + 7, 0), max(int(u) - 6, 0) : max(int(u) + 7, 0)] = (255, 0, 0)
            (tmp_path / f"{zoom}/{x}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / f"{zoom}/{x}/{y}.png")
    tiles = tiles_of(str(tmp_path), opened.frame, "drawn here")
    client = start(map_folder, tiles=tiles)
    browser.open(f"http://127.0.0.1:{client.port}/")
    browser.ready()
    looks = """(at) => {
      const plot = document.querySelector("#map-plot"), canvas = document.querySelector("canvas.tiles");
      const { xaxis, yaxis } = plot._fullLayout, copy = document.createElement("canvas");
      Object.assign(copy, { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const [x, y] = [xaxis._offset + xaxis.l2p(at[0]), yaxis._offset + yaxis.l2p(at[1])];
      return [...context.getImageData(Math.round(x), Math.round(y), 1, 1).data];
    }"""
    for row in (0, 17, 39):
        position = opened.places.positions[row].tolist()
        assert browser.until(f"(({looks})({position}))[0] > 200"), row
        red, _, blue, _ = browser.run(f"({looks})({[position[0] + 6, position[1] + 6]})")
        assert blue > 200 > 50 > red
    assert browser.text(".tiles ~ p") == "drawn here"
    assert client.get("/tiles/18/0/0").status == 204
    private = start(map_folder, tiles=tiles, token="secret")
    assert private.get(f"/tiles/{zoom}/{first[0]}/{first[1]}").headers["content-type"] == "image/png"
    assert private.ask("GET", "/tiles/18/0/0", headers={"Authorization": ""}).status == 401
    assert browser.complaints() == []
    assert browser.hosts() == {f"127.0.0.1:{client.port}"}


def test_pictures_come_from_another_host_only_if_the_user_names_it(client: Any, start: Any, map_folder: Path) -> None:
    assert "example.org" not in client.get("/").headers["content-security-policy"]
    address = "https://tiles.example.org:8443/{z}/{x}/{y}.png?key=1"
    other = start(map_folder, tiles=tiles_of(address, Map.open(map_folder).frame))
    policy = other.get("/").headers["content-security-policy"]
    assert "img-src https://tiles.example.org:8443 'self'" in policy
    assert "connect-src 'self';" in policy
    assert other.get("/page").json["tiles"]["address"] == address
    assert client.get("/page").json["tiles"] is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("https://tiles.example.org/tiles", "not an address of tiles"),
        ("https://a b;c/{z}/{x}/{y}", "not an address of tiles"),
        ("ftp://tiles.example.org/{z}/{x}/{y}", "not an address of tiles"),
        ("none", "neither a folder nor an address"),
        (".", "no tiles; expected files"),
    ],
)
def test_tiles_that_cannot_be_shown_are_refused(
    given: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match=problem):
        tiles_of(given, OXFORD)
    with pytest.raises(BadInputError, match="'hall' has no CRS"):
        tiles_of(given, Frame("hall"))


@pytest.mark.medium
def test_the_page_says_what_to_do_if_it_has_nothing_to_show(
    browser: Browser, start: Any, map_folder: Path, tmp_path: Path
) -> None:
    bare = replace(Map.open(map_folder), calibration=None, files={})
    bare.save(tmp_path / "bare")
    browser.open(f"http://127.0.0.1:{start(tmp_path / 'bare').port}/#/drop")
    browser.ready()
    assert "no encoder" in browser.text("#drop-state")
    assert "Build it again with --encoder" in browser.text("#drop-state")
    browser.run("document.querySelector('#tab-calibration').focus()")
    browser.key("End")
    assert "build it again with images" in browser.text("#calibration-lead")
    browser.key("Home")
    assert browser.until("document.querySelector('[role=tab][aria-selected=true]').id") == "tab-map"
    browser.run("document.querySelector('#tab-live').click()")
    assert "cannot follow a camera" in browser.text("#live-state")
    assert browser.run("document.querySelector('#live-form').hidden")
    assert browser.complaints() == []


def test_the_page_allows_no_script_from_elsewhere(client: Any) -> None:
    shown = client.get("/")
    assert (shown.status, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self';" in shown.headers["content-security-policy"]
    packed = client.ask("GET", "/viewer/main.js", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.body) == client.get("/viewer/main.js").body
    assert client.ask("GET", "/viewer/main.js", headers={"If-None-Match": packed.headers["etag"]}).status == 304
    assert client.get("/viewer/../study.py").status == 404
    assert client.get("/viewer/vendor/none.js").error == "the viewer has no file 'vendor/none.js'"
    assert client.get("/study").json == {"study": None}
    assert client.get("/study/images/test/00020").status == 404


def test_without_plotly_the_server_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert page.missing() is None
    monkeypatch.setattr(page, "LIBRARY", tmp_path / "plotly.min.js")
    assert "plotly.js is missing" in str(page.missing())
    assert "scripts/vendor" in str(page.missing())


def test_a_large_picture_of_the_study_is_made_smaller(wall: Places) -> None:
    data, kind = picture(wall, 0, [wall.root], "image", most=32)
    with Image.open(io.BytesIO(data)) as smaller:
        assert (smaller.size, smaller.format, kind) == ((32, 24), "JPEG", "image/jpeg")
    assert picture(wall, 0, [wall.root], "image", most=64) == (wall.files[0].read_bytes(), "image/png")


def test_what_is_no_study_of_this_map_is_refused(study_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="study"):
        open_study(tmp_path)
    with pytest.raises(BadInputError, match=r"oxford.*elsewhere"):
        open_study(study_folder, frame="elsewhere")


def test_a_study_names_the_images_that_its_results_are_of(study_folder: Path) -> None:
    study = open_study(study_folder)
    told, found, matrices = (json.loads(one) for one in (study.overview, study.models[MODEL], study.matrices[MODEL]))
    assert len(found["error"]) == len(found["retrieved"]) == len(told["queries"]["id"])
    assert found["calibration"]["coverage"] == 0.9
    known = Result.load(study_folder / "results" / MODEL).get(Matrices)
    assert known is not None
    assert [study.rows[name] for name in matrices["rows"]] == known.references.tolist()
    assert [study.rows[name] for name in matrices["columns"]] == known.queries.tolist()
    assert found["trajectory"]["images"] == study.places.place_id[study.places.split == "test"].tolist()
    assert len(base64.b64decode(matrices["distances"]["steps"])) == np.prod(matrices["shape"])


@pytest.mark.medium
def test_a_result_without_its_numbers_is_named(study_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(study_folder, tmp_path / "study")
    file = folder / "results" / MODEL / "result.json"
    facts = json.loads(file.read_text())
    for broken in ({"positive": None}, {"positive": []}, {"recall": "few"}):
        protocols = facts["protocols"] | {"table1": facts["protocols"]["table1"] | broken}
        file.write_text(json.dumps(facts | {"protocols": protocols}))
        with pytest.raises(BadInputError, match=r"result\.json.*evaluate again"):
            open_study(folder)


def test_a_result_of_other_rows_is_refused(study_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(study_folder, tmp_path / "study")
    home = folder / "results" / MODEL
    result, places = Result.load(home), load_places(folder / "places")
    said = result.get(Localization)
    assert said is not None
    other = replace(said, queries=said.queries[::-1].copy())
    replace(result, scored=dict(result.scored) | {"localization": other}).save(home)
    with pytest.raises(BadInputError, match=rf"{MODEL}.*localization.*table1"):
        open_study(folder)
    result.save(home)
    save_places(places[: len(places) - 1], folder / "places" / "places.parquet")
    with pytest.raises(BadInputError, match=rf"{MODEL}.*{len(places) - 1} images.*image {len(places)}"):
        open_study(folder)
