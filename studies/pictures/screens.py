"""Takes the pictures of the web page in the documentation, in Chromium, of the map of `make demo`.

    make demo
    PYTHONPATH=tests python studies/pictures/screens.py demo docs

It writes viewer.png, the picture of the README; report.png, the beginning of the report; and a
sheet per view, viewer-VIEW.webp: three widths, light and dark. It takes three minutes on two cores.
"""

import argparse
import base64
import io
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

from browser import Browser
from mappable.places.files import load_places
from mappable.places.table import Places

WIDTHS, THEMES = (1280, 768, 360), ("light", "dark")
VIEWS = ("map", "drop", "live", "calibration", "report")
# The drive of the pictures, and images of a session: every second one.
DRIVE, FOLLOWED = "test-night", 12
DROPPED = 0.36  # share of the drive, chosen by looking: an image that is trusted
TALLEST = 1500  # pixels of a page in a sheet; more is cut off
SCALE, GAP, QUALITY = 0.4, 16, 60  # of a sheet
COLORS = 200  # of viewer.png and report.png
REPORT = (0, 0, 1280, 1180)  # pixels of the report in its picture
SETTLED = 1.5  # seconds until a page has drawn all


def main() -> None:
    """Serve the demo, open each view, and write its pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="output folder of `make demo`")
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument(
        "--views", default=",".join(VIEWS), help="only these views, separated by commas"
    )
    given = parser.parse_args()
    places = load_places(given.demo / "places")
    drive = places[np.flatnonzero(places.sequence == DRIVE)]
    command = [sys.executable, "-m", "mappable", "serve", str(given.demo / "map")]
    command += ["--images", str(given.demo / "places")]
    with (
        tempfile.TemporaryDirectory() as home,
        subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        address = next(line.split()[-1] for line in server.stdout if line.startswith("serving at"))
        browser = Browser(Path(home))
        try:
            for view in given.views.split(","):
                if view == "report":
                    browser.open((given.demo / "report.html").resolve().as_uri())
                    save(shot(browser, 1280, "light").crop(REPORT), given.out / "report.png")
                    continue
                browser.open(f"{address}/#/{view}")
                browser.ready()
                prepare(browser, view, address, drive)
                sheet(browser).save(given.out / f"viewer-{view}.webp", quality=QUALITY, method=6)
                if view == "drop":
                    save(shot(browser, 1280, "light"), given.out / "viewer.png")
        finally:
            browser.close()
            server.terminate()


def prepare(browser: Browser, view: str, address: str, drive: Places) -> None:
    """Bring a view into the state of its picture."""
    at = int(DROPPED * len(drive))
    if view == "drop":
        browser.drop(drive.files[at].name, drive.files[at].read_bytes())
        browser.until("!!document.querySelector('#drop-detail .candidates')")
    elif view == "live":
        browser.run("document.querySelector('#live-new').click()")
        session = browser.until("document.querySelector('#live-id').value")
        for n, file in enumerate(drive.files[at : at + 2 * FOLLOWED : 2]):
            request = urllib.request.Request(
                f"{address}/sessions/{session}/update?time={n}",
                file.read_bytes(),
                {"Content-Type": "image/png"},
            )
            urllib.request.urlopen(request, timeout=60).close()
        browser.until(
            f"document.querySelector('#live-detail dd')?.innerText.startsWith('{FOLLOWED}, ')"
        )


def shot(browser: Browser, width: int, theme: str) -> Image.Image:
    """The whole page at a width, in a theme."""
    browser.size(width)
    browser.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}]
    )
    time.sleep(SETTLED)
    high = min(browser.run("document.documentElement.offsetHeight"), TALLEST)
    clip = {"x": 0, "y": 0, "width": width, "height": high, "scale": 1}
    taken = browser.call(
        "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
    )
    return Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")


def save(picture: Image.Image, file: Path) -> None:
    """Write a PNG file with few colors."""
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(file, optimize=True)


def sheet(browser: Browser) -> Image.Image:
    """A view in all widths, light above dark."""
    rows = [[shot(browser, width, theme) for width in WIDTHS] for theme in THEMES]
    small = [
        [one.resize((round(SCALE * one.width), round(SCALE * one.height))) for one in row]
        for row in rows
    ]
    wide = sum(one.width for one in small[0]) + GAP * (len(WIDTHS) + 1)
    high = [max(one.height for one in row) + GAP for row in small]
    found = Image.new("RGB", (wide, sum(high) + GAP), "#9aa0a8")
    for n, row in enumerate(small):
        x, y = GAP, GAP + sum(high[:n])
        for one in row:
            found.paste(one, (x, y))
            x += one.width + GAP
    return found


if __name__ == "__main__":
    main()
