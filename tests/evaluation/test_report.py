"""The report: its numbers equal the results, and a browser shows all of it without further requests."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_results import measured
from mappable.evaluation import report
from mappable.evaluation.answers import count
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.protocol import Images, View
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.localization import Localization
from mappable.evaluation.report import failures_of, headline_of, write_report
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import difference, summarize
from mappable.evaluation.tables import cell_text

pytestmark = pytest.mark.medium
ODD = "<script>alert(1)</script>&\"night'"  # a name that users may give


class Tables(HTMLParser):
    """The texts of a page's tables by id: one list of cells per row."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.rows = self.tables.setdefault(
                str(dict(attributes)["id"]).removeprefix("table-"), []
            )
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def tables_of(page: Path) -> dict[str, list[list[str]]]:
    return Tables(page.read_text("utf-8")).tables


@pytest.fixture(scope="module")
def page(
    results: list[Result], setup: Setup, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The report of all results, one with an odd title."""
    named = [replace(one, title=ODD) if one.row == "triplet" else one for one in results]
    return write_report(
        named, setup, images, tmp_path_factory.mktemp("report"), command="mappable made <up> 'x'"
    )


def data_of(page: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.with_name("report.json").read_text())
    return found


PROBE = """<script>
addEventListener("load", () => {
  const found = {
    images: [...document.images].map(one => one.naturalWidth),
    loaded: performance.getEntriesByType("resource").map(one => one.name).filter(one => !one.startsWith("data:")),
    scripts: document.scripts.length,
    wide: document.documentElement.scrollWidth - innerWidth,
  };
  document.body.append(Object.assign(document.createElement("pre"), {id: "probe", textContent: JSON.stringify(found)}));
});
</script>"""


def dump(page: Path, home: Path, width: int) -> tuple[str, str]:
    """The page as Chromium renders it, and the messages of Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = [path for name in names if (path := shutil.which(name))]
    assert found, (
        f"no browser to open the report with: install one of {', '.join(names)} (make test does so"
        " as root)"
    )
    options = (
        "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    )
    options += " disable-component-update disable-sync enable-logging=stderr dump-dom"
    command = [found[0], *(f"--{option}" for option in options.split())]
    command += [f"--user-data-dir={home}", f"--window-size={width},800", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def test_a_browser_shows_it_on_a_phone_without_errors_or_requests(
    page: Path, tmp_path: Path
) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r"""(?:src|href)="(?!data:|#)|url\(|@import""", text) == []
    assert "<script" not in text
    allowed = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    assert allowed != text
    copy = tmp_path / "copy.html"
    copy.write_text(allowed.replace("</body>", f"{PROBE}</body>"), "utf-8")
    shown, said = dump(copy, tmp_path / "home", 390)
    found = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', shown)[1])  # type: ignore[index]
    assert len(found["images"]) == sum(len(one.drawings) for one in PROTOCOLS.values())
    assert all(width > 0 for width in found["images"])
    assert found["loaded"] == []
    assert found["scripts"] == 1  # only the probe, because names of users stay text
    assert found["wide"] <= 0
    assert "CONSOLE" not in said
    assert Tables(shown).tables == tables_of(page)


def test_the_accuracies_are_those_of_the_results(page: Path, results: list[Result]) -> None:
    rows = {row[0]: row for row in tables_of(page)["accuracy"][2:]}
    titles = {
        "off-the-shelf": "Off-the-shelf",
        "triplet": ODD,
        "triplet+huber": ROWS["triplet+huber"].title,
    }
    assert [*rows] == [*titles.values(), "Upper bound", "Chance"]
    for row, title in titles.items():
        models = [one for one in results if one.row == row]
        errors = [accuracy.errors for one in models if (accuracy := one.get(Accuracy))]
        (summary,) = summarize(models)
        near, far = ([percent_within(own, radius) for own in errors] for radius in (10.0, 25.0))
        assert rows[title][1].startswith(f"{np.mean(near):.1f}")
        assert rows[title][2] == cell_text(summary.interval)
        assert rows[title][4].startswith(f"{np.mean(far):.1f}")
        assert rows[title][5].startswith(f"{np.mean([np.median(own) for own in errors]):.2f}")
    known = results[0].get(Accuracy)
    assert known is not None
    assert rows["Chance"][1] == f"{known.chance_positive:.1f}"


def test_the_headline_has_the_gain_over_off_the_shelf(results: list[Result], setup: Setup) -> None:
    headline = headline_of(View(results, setup))
    best, shelf = (
        [one for one in results if one.row == row] for row in (_best(results), "off-the-shelf")
    )
    gain = difference(best, shelf)
    assert gain is not None
    assert f"a gain of {gain.mean:.1f} points" in headline.gain
    assert list(headline.percentages) == ["Off-the-shelf", best[0].title, "Upper bound", "Chance"]


def _best(results: list[Result]) -> str:
    return max(summarize(results), key=lambda one: one.positive.mean).row


def test_a_map_opens_with_found_error_confidence_and_intervals(
    scoring: Scoring, setup: Setup, images: Images, tmp_path: Path
) -> None:
    result = replace(measured(scoring, "mine", 0, ["table1", "localization"]), title="mine")
    page = write_report([result], setup, images, tmp_path, command="")
    told, found = data_of(page), result.get(Localization)
    assert found is not None
    assert [one["name"] for one in told["sections"]][:2] == ["localization", "table1"]
    assert "Paper" not in page.read_text("utf-8")
    one = count(found.methods["sequence"], 10.0, np.arange(len(found.queries)))
    for text in (
        f"{one.found:,} of {one.queries:,} queries",
        f"chance finds {found.chance:.1f} %",
        f"The median error is {one.median:.2f} m",
        f"confident about {one.confident:,} queries",
        f"{one.held:,} of {one.intervals:,} intervals",
    ):
        assert text in told["headline"]["gain"]
    (ways,) = (
        each["rows"]
        for section in told["sections"]
        for name, each in section["tables"].items()
        if name == "ways"
    )
    assert (
        dict(zip(told["headline"]["percentages"], [row[1] for row in ways], strict=False))[
            "nearest"
        ]["mean"]
        > 50
    )


def broken(*_: Any) -> Any:
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize("part", ["report", "draw", "headline"])
def test_a_failed_part_is_named_and_the_others_are_written(
    part: str,
    results: list[Result],
    setup: Setup,
    images: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curves = PROTOCOLS["curves"]
    if part == "headline":
        monkeypatch.setattr(report, "headline_of", broken)
    elif part == "report":
        monkeypatch.setitem(PROTOCOLS, "curves", replace(curves, report=broken))
    else:
        monkeypatch.setitem(
            PROTOCOLS,
            "curves",
            replace(curves, drawings=(replace(curves.drawings[0], draw=broken),)),
        )
    failed = replace(
        results[0], failed={"timing": "no clock"}, scored={"curves": results[0].scored["curves"]}
    )
    page = write_report([failed], setup, images, tmp_path, command="")
    first, second = failures_of(page)
    assert first == "protocol timing, Off-the-shelf: no clock"
    assert "ZeroDivisionError: by nothing (" in second
    assert [row[1] for row in tables_of(page)["failed"][1:]] == [
        one.partition(": ")[2] for one in (first, second)
    ]
