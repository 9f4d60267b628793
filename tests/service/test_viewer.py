"""The viewer in a real browser: it shows a map, and locates an image that is dropped on the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Browser
from mappable.maps import Landmarks

WIDE = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def address(client: Any) -> str:
    """The address of a server."""
    return f"http://127.0.0.1:{client.port}/"


@pytest.mark.medium
def test_an_image_that_is_dropped_is_placed(
    browser: Browser, address: str, images: list[tuple[str, bytes]]
) -> None:
    browser.open(address)
    browser.ready()
    name, data = images[30]
    browser.drop(name, data)
    x, y = map(float, browser.text("#position").removesuffix(" m").split(", "))
    true = float(name.removesuffix(".png")) / 10
    assert np.hypot(x - true, y - 20 * np.sin(true / 40)) < 3
    assert browser.text("#drop-detail .verdict").startswith(
        ("Placed and trusted", "Placed, not trusted: ")
    )
    assert browser.run("document.querySelectorAll('#drop-detail .candidates img').length") == 4
    browser.until(
        "[...document.querySelectorAll('#drop-detail img')].every((one) => one.naturalWidth === 64)"
    )
    stars = (
        "document.querySelector('#drop-plot').data.filter((one) => one.name === 'your"
        " image').map((one) => one.x[0])"
    )
    assert browser.run(stars) == [pytest.approx(x, abs=0.06)]
    browser.drop("notes.png", b"no image")
    browser.until("document.querySelector('#drop-state').classList.contains('bad')")
    assert browser.text("#drop-state") == "notes.png: not a JPEG, PNG or WebP image"


@pytest.mark.parametrize("width", [390, 1440])
def test_all_views_fit_the_screen_without_errors_or_other_addresses(
    browser: Browser, address: str, map_folder: Path, width: int
) -> None:
    places = Landmarks.open(map_folder).places
    browser.open(f"{address}#/map", width=width)
    browser.ready()
    assert browser.text("#title") == map_folder.parent.name  # the folder itself is called map
    assert browser.text("#map-detail figcaption b") == places.place_id[0]
    browser.key("ArrowRight")
    assert browser.text("#map-detail figcaption b") == places.place_id[1]
    clicked = f"{{ points: [{{ customdata: '{places.place_id[5]}' }}] }}"
    browser.run(f"document.querySelector('#map-plot').emit('plotly_click', {clicked})")
    assert browser.text("#map-detail figcaption b") == places.place_id[5]
    for name in ("map", "drop", "live", "calibration"):
        browser.run(f"document.querySelector('#tab-{name}').click()")
        browser.until(f"!!document.querySelector('#{name} .plot .main-svg')")
        assert browser.run(WIDE) <= 0
    before = browser.run("document.documentElement.dataset.theme")
    dark = browser.run(
        "(document.querySelector('#theme').click(), document.documentElement.dataset.theme)"
    )
    assert dark in {"dark", "light"} - {before}
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
        browser.until(
            f"document.querySelector('#live-detail dd')?.innerText.startsWith('{n + 1}, ')"
        )
        clouds.append(browser.until(f"{shown}?.customdata"))
    assert len(clouds[0]) > 2 * len(clouds[-1])
    assert found[-1]["trusted"]
    assert browser.text("#live-detail .verdict") == "tracking"
    camera = "document.querySelector('#live-plot').data.find((one) => one.name === 'camera')"
    assert browser.until(f"{camera} && [{camera}.x[0], {camera}.y[0]]") == pytest.approx(
        found[-1]["position"]
    )
    path = browser.run(
        "document.querySelector('#live-plot').data.find((one) => one.name === 'path').x.length"
    )
    assert path == sum(one["trusted"] for one in found)
    browser.run("document.querySelector('#live-id').value = 'none'")
    browser.run("document.querySelector('#live-form').requestSubmit()")
    browser.until("document.querySelector('#live-state').classList.contains('bad')")
    assert browser.text("#live-state").startswith("the session 'none' does not exist")


def test_the_page_allows_no_script_from_elsewhere(client: Any) -> None:
    shown = client.get("/")
    assert shown.status == 200
    assert "script-src 'self';" in shown.headers["content-security-policy"]
    assert client.get("/viewer/../page.py").status == 404
