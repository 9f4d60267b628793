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
from PIL import Image

from mappable.errors import BadInputError
from mappable.evaluation import report
from mappable.evaluation.metrics import Correlation, percent_within
from mappable.evaluation.protocol import Drawing, NothingToDrawError, Section, View
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.curves import Curves
from mappable.evaluation.protocols.distance_matrices import Matrices
from mappable.evaluation.protocols.generalization import Generalization, RegionAccuracy
from mappable.evaluation.protocols.landmark_sweep import Sweep
from mappable.evaluation.protocols.localization import Localization
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery, MaskQuality, Method
from mappable.evaluation.protocols.proportionality import Proportionality, SequencePairs
from mappable.evaluation.protocols.qualitative import Example, Examples
from mappable.evaluation.protocols.timing import StepTime, Timing
from mappable.evaluation.report import draw_all, drawings, embedded, failures_of, write_report
from mappable.evaluation.result import Accuracy, Result, empty_result
from mappable.evaluation.rows import OURS, ROWS
from mappable.evaluation.setup import Setup, setup_of
from mappable.evaluation.summary import difference, summarize
from mappable.evaluation.tables import Column, table
from mappable.places.frames import Frame
from mappable.places.table import Places

ODD = "test-<script>alert(1)</script>&\"night'"  # a name that users may give
QUALITY = {"off-the-shelf": 25.0, "triplet": 12.0, "triplet+huber": 6.0}  # metres that models are off


@pytest.fixture(scope="module")
def setup() -> Setup:
    """A straight street of 300 m, driven in sun and at night."""
    names = {"train": ("train", "sun"), ODD: ("test", "night"), "test-sun": ("test", "sun")}
    along = np.arange(0.0, 300.0, 5.0)
    count = len(along)
    return setup_of(
        "made-up",
        Places(
            path=[f"{number}/{at:g}.jpg" for number in range(3) for at in along],
            x=np.tile(along, 3),
            y=np.repeat([0.0, 0.5, 1.0], count),
            sequence=np.repeat(list(names), count),
            split=np.repeat([split for split, _ in names.values()], count),
            condition=np.repeat([condition for _, condition in names.values()], count),
            frames=Frame("street"),
        ),
        positive_radius=10.0,
        negative_radius=25.0,
        landmarks=30,
    )


def made_up(setup: Setup, row: str, seed: int, **others: Any) -> Result:
    """A possible result of a model, in the format of the protocols."""
    off = QUALITY[row]
    random = np.random.default_rng([len(row), seed])
    errors, bound = random.exponential(off, len(setup.queries)), np.append(np.full(len(setup.queries) - 1, 2.5), 11.0)
    near, far = (percent_within(errors, radius) for radius in (10.0, 25.0))
    r = 1.0 / (1.0 + off / 10.0)
    rows, landmarks = setup.queries, setup.references[:30]
    correlation = Correlation(r, r - 0.1, None, r / 2)
    pairs = SequencePairs("sun", rows[:60], 1770, correlation, correlation)
    nothing, nowhere = np.zeros((1, 1)), np.zeros(0, dtype=np.int64)
    scored = {
        "table1": Accuracy(
            queries=rows,
            landmarks=landmarks,
            retrieved=np.full(len(rows), landmarks[0]),
            errors=errors,
            bound=bound,
            landmark_seeds=[0, 1, 2],
            positive=[near, near - 1, near + 1],
            negative=[far, far, far],
            bound_positive=[100.0, 99.0, 98.0],
            bound_negative=[100.0, 100.0, 100.0],
            recall={"1": near, "5": near + 1, "10": near + 2, "20": near + 3},
        ),
        "curves": Curves(rows, landmarks, np.array([0.0, 25.0]), np.array([0.0, far]), np.array([0.0, 100.0]), {}),
        "proportionality": Proportionality({ODD: pairs, "test-sun": pairs}, nothing, nothing[0], nothing[0]),
        "distance-matrices": Matrices(
            "train", ODD, landmarks, rows, *np.zeros((2, 1, 1), dtype=np.float32), pearson=r, spearman=r + 0.01
        ),
        "landmark-sweep": Sweep(
            queries=rows,
            landmarks=landmarks,
            counts=[10, 30],
            positive=[near - 20, near],
            negative=[far - 20, far],
            bound_positive=[70.0, 100.0],
            bound_negative=[100.0, 100.0],
        ),
        "generalization": Generalization(
            {
                "region B": {
                    "1.0": RegionAccuracy(rows, landmarks, 10.0, near - 9, far, 99.0),
                    "1.25": RegionAccuracy(rows, landmarks[:24], 12.5, near - 9, far, 99.0),
                }
            }
        ),
        "qualitative": Examples(
            landmarks,
            [Example("night", int(query), 0, nearest_distance=1.5, retrieved=3, error=off) for query in rows[:2]],
        ),
        "timing": Timing(
            "2 cores of x86_64",
            rows[:40],
            landmarks,
            {
                step: StepTime(1.5 + n, 0.25, 1.4 + n)
                for n, step in enumerate(("describe", "kd-tree", "exact", "total"))
            },
        ),
        "localization": Localization(
            queries=rows,
            landmarks=landmarks,
            nearest=np.full(len(rows), landmarks[0]),
            feature=errors,
            top1=errors,
            to_landmark=errors,
            refined=0.8 * errors,
            sequence=0.5 * errors,
            sequence_distance=errors,
            sequence_low=errors - off / 2,
            sequence_high=errors + off / 2,
            sequence_confident=np.arange(len(rows)) % 3 > 0,
            bound=bound,
            distance=errors,
            low=errors - off / 4,
            high=errors + off / 4,
            confident=np.arange(len(rows)) % 5 > 0,
            between=np.arange(len(rows)) % 4 > 0,
            absent=nowhere,
            absent_feature=np.zeros(0),
            absent_confident=np.zeros(0, dtype=bool),
            absent_sequence_confident=np.zeros(0, dtype=bool),
            rules={"ours, single images": -errors, "ours, sequence": -errors, "feature distance": -errors},
            calibrated_on="calibration",
            coverage=0.9,
            note="",
        ),
        "map-recovery": MapRecovery(
            sequence=ODD,
            images=rows[:60],
            known=rows[:10],
            length=295.0,
            repetitions=10,
            methods=[
                Method(method, group, mean, 0.5, mean / 2.95, rigid, rigid and rigid / 2.95)
                for method, group, mean, rigid in (
                    ("straight line", "trivial", 22.0, 23.0),
                    ("SDP (trace form), classical MDS", "paper", 20.0, 30.0),
                    ("recover", "ours", off, off + 1),
                    ("recover_anchored", "ours, known positions", off / 2, None),
                )
            ],
            mask=MaskQuality(0.5, precision=95.2, recall=40.0, per_row=4.5),
            notes=["All 5 semidefinite programs converged, to a relative duality gap of 9e-08 or less."],
            truth=nothing,
            true=nothing,
            masked=None,
            completed=None,
            positions={},
        ),
    }
    settings = {"loss": "triplet+huber" if row == "off-the-shelf" else row, "geometric_weight": 0.5, "size": [160, 120]}
    started = empty_result(setup, row=row, title=ROWS[row].title, seed=seed, encoder="ab12cd34ef", settings=settings)
    ran = {
        "hardware": "2 cores of x86_64",
        "date": "2026-01-31",
        "versions": {"torch": "2.13.0"},
        "command": "mappable x",
    }
    return replace(started, scored=scored, skipped={}, ran=ran | {"training_seconds": 90.0}, **others)


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
            self.rows = self.tables.setdefault(str(dict(attributes)["id"]).removeprefix("table-"), [])
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
def results(setup: Setup) -> list[Result]:
    """Three models, two seeds each."""
    return [made_up(setup, row, seed) for row in QUALITY for seed in (0, 1)]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small image per name; one has an SVG beside it."""
    folder = tmp_path_factory.mktemp("figures")
    made = {one.name: folder / f"{one.name}.png" for one in drawings()}
    for file in made.values():
        Image.new("RGB", (90, 40), "teal").save(file)
    (folder / "curves.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="40"/>')
    return made


@pytest.fixture(scope="module")
def page(
    results: list[Result], setup: Setup, figures: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The report of all results."""
    return write_report(results, setup, figures, tmp_path_factory.mktemp("report"), command="mappable made <up> 'x'")


def data_of(page: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.with_name("report.json").read_text())
    return found


def section(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in data["sections"] if one["name"] == name)


# In a browser


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
    assert found, f"no browser to open the report with: install one of {', '.join(names)} (make test does so as root)"
    options = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    options += " disable-component-update disable-sync enable-logging=stderr dump-dom"
    command = [found[0], *(f"--{option}" for option in options.split())]
    command += [f"--user-data-dir={home}", f"--window-size={width},800", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


@pytest.mark.medium
def test_a_browser_shows_it_on_a_phone_without_errors_or_requests(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    allowed = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    assert allowed != text
    copy = tmp_path / "copy.html"
    copy.write_text(allowed.replace("</body>", f"{PROBE}</body>"), "utf-8")
    shown, said = dump(copy, tmp_path / "home", 390)
    found = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', shown)[1])  # type: ignore[index]
    assert len(found["images"]) == len(drawings())
    assert all(width > 0 for width in found["images"])
    assert found["loaded"] == []
    assert found["scripts"] == 1  # only the probe, because names of users stay text
    assert found["wide"] <= 0
    assert "CONSOLE" not in said
    assert Tables(shown).tables == tables_of(page)


def test_the_page_needs_no_other_files(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r"""(?:src|href)="(?!data:|#)|url\(|@import""", text) == []
    assert "<script" not in text
    assert ODD not in text


# Its numbers


def test_the_accuracies_are_those_of_the_results(page: Path, results: list[Result]) -> None:
    rows = {row[0]: row for row in tables_of(page)["accuracy"][2:]}
    assert [*rows] == [*(ROWS[row].title for row in QUALITY), "Upper bound"]
    for row in QUALITY:
        own = [accuracy.errors for one in results if one.row == row and (accuracy := one.get(Accuracy))]
        near, far = ([percent_within(errors, radius) for errors in own] for radius in (10.0, 25.0))
        medians = [np.median(errors) for errors in own]
        told = rows[ROWS[row].title]
        assert told[1] == f"{np.mean(near):.1f} ± {np.std(near, ddof=1):.1f}"
        interval = summarize([one for one in results if one.row == row])[0].interval
        assert interval is not None
        assert told[2] == f"[{interval.low:.1f}, {interval.high:.1f}]"
        assert told[3].endswith("± 1.0")  # over landmarks
        assert told[4] == f"{np.mean(far):.1f} ± {np.std(far, ddof=1):.1f}"
        assert told[5] == f"{np.mean(medians):.2f} ± {np.std(medians, ddof=1):.2f}"
    assert rows["Upper bound"][1:] == ["100.0", "–", "99.0 ± 1.0", "100.0", "2.50"]


def test_the_headline_has_the_gain(page: Path, results: list[Result]) -> None:
    best, shelf = ([one for one in results if one.row == row] for row in ("triplet+huber", "off-the-shelf"))
    apart = difference(best, shelf)
    assert apart is not None
    headline = data_of(page)["headline"]
    assert headline["run"] == "3 models on made-up: 120 queries, located among 30 landmarks."
    assert headline["gain"].startswith("Triplet + Huber finds ")
    assert f"a gain of {apart.mean:.1f} points (95 % interval" in headline["gain"]
    assert list(headline["percentages"]) == ["Off-the-shelf", "Triplet + Huber", "Upper bound"]


def test_the_best_model_is_compared_with_every_other_model(page: Path, results: list[Result]) -> None:
    by_row = {row: [one for one in results if one.row == row] for row in QUALITY}
    rows = tables_of(page)["gains"][1:]
    assert [row[0] for row in rows] == [ROWS[row].title for row in ("off-the-shelf", "triplet")]
    for row, told in zip(("off-the-shelf", "triplet"), rows, strict=True):
        gain = difference(by_row["triplet+huber"], by_row[row])
        assert gain is not None
        assert gain.interval is not None
        interval = f"[{gain.interval.low:.1f}, {gain.interval.high:.1f}]".replace("-", "−")
        assert told[1:] == [f"{gain.mean:.1f}", interval, "0, 1"]


def test_the_data_are_what_the_page_shows_in_full_precision(page: Path, results: list[Result]) -> None:
    data, shown = data_of(page), tables_of(page)
    assert [one["name"] for one in data["sections"]] == [
        *("table1", "curves", "proportionality", "distance-matrices", "landmark-sweep", "generalization"),
        *("localization", "map-recovery", "qualitative", "timing", "settings", "run"),
    ]
    tables = {name: one for section in data["sections"] for name, one in section["tables"].items()}
    assert tables.keys() == shown.keys()
    for name, one in tables.items():
        assert [row[0] for row in one["rows"]] == [row[0] for row in shown[name][-len(one["rows"]) :]]
    sweep = tables["landmark-sweep"]
    assert sweep["columns"] == ["Model", "Landmarks: 10", "Landmarks: 30"]
    first = [one.get(Sweep) for one in results if one.row == "off-the-shelf"]
    mean = np.mean([one.positive[0] for one in first if one])
    assert sweep["rows"][0][1]["mean"] == pytest.approx(mean)


def test_the_best_row_is_highlighted(page: Path) -> None:
    text = page.read_text("utf-8")
    best = re.findall(r'<tr class="best"><th scope="row">(.*?)</th>', text)
    assert set(best) == {"Triplet + Huber"}
    assert len(best) >= 6


def test_single_sections_have_their_numbers(page: Path) -> None:
    shown = tables_of(page)
    assert shown["correlations"][1] == ["Model", "all", "squared", "≤\u00a025\u00a0m", "all", "≤\u00a025\u00a0m"]
    assert shown["correlations"][2][:3] == ["Off-the-shelf", "0.286 ± 0.000", "0.186 ± 0.000"]
    assert shown["generalization"][1] == ["Model", "10\u00a0m apart", "12.5\u00a0m apart"]
    assert shown["generalization"][-1] == ["Landmarks", "30", "24"]
    assert [row[0] for row in shown["recovery"][1:]] == [
        *("straight line", "SDP (trace form), classical MDS", "recover", "recover_anchored")
    ]
    assert shown["recovery"][3][1:] == ["ours", "6.0 ± 0.5", "2.03", "7.0", "2.37"]
    assert shown["timing"][1] == ["Off-the-shelf", "2 cores of x86_64", "30", *(f"{n}.50 ± 0.25" for n in range(1, 5))]
    assert [row[0] for row in shown["timing"][-2:]] == ["Paper, COLD", "Paper, Oxford"]
    assert shown["models"][1:3] == [
        ["Off-the-shelf", "0, 1", "not trained", "1.5", "ab12cd34"],
        ["Triplet", "0, 1", "loss triplet", "1.5", "ab12cd34"],
    ]
    assert [row[0] for row in shown["examples"][1:]] == ["1/0.jpg", "1/5.jpg"]


# Other results


def test_one_model_of_a_user_makes_a_page(setup: Setup, tmp_path: Path) -> None:
    few = made_up(setup, "triplet", 0)
    scored = {name: few.scored[name] for name in ("table1", "localization")}
    one = replace(
        few, row="mine", title="<b>mine</b>", seed=None, scored=scored, skipped={"timing": "no <encoder>"}, ran={}
    )
    written = write_report([one], setup, {}, tmp_path, command="")
    data, shown = data_of(written), tables_of(written)
    assert [part["name"] for part in data["sections"]] == ["localization", "table1", "settings", "run", "skipped"]
    assert shown["skipped"][1] == ["timing", "no <encoder>", "all"]
    assert shown["models"] == [["Model", "Seeds", "Encoder"], ["<b>mine</b>", "–", "ab12cd34"]]
    assert data["headline"]["gain"].startswith("<b>mine</b> locates best with the method sequence: ")
    text = written.read_text("utf-8")
    assert "<b>" not in text
    best = re.findall(r'<tr class="best"><th scope="row">(.*?)</th>', text)
    assert best == [
        "sequence",
        "ours, single images",
    ]  # the best method and the best rule; a single model is not highlighted
    errors = scored["localization"].top1
    near = [int(np.sum(factor * errors <= 10)) for factor in (1.0, 0.8, 0.5)]
    assert data["headline"]["gain"].endswith(
        f"{near[2]} of 120 queries ({100 * near[2] / 120:.1f} %) within 10 m, and {near[0]} of 120 queries "
        f"({100 * near[0] / 120:.1f} %) with the nearest landmark. It is "
        f"confident about 80 queries, {np.sum(0.5 * errors[np.arange(120) % 3 > 0] <= 10)} of them correctly."
    )
    ways = ["nearest", "refined", "sequence"]
    told = [[way, f"{count} of 120"] for way, count in zip(ways, near, strict=True)]
    assert [row[:2] for row in shown["ways"][1:]] == [*told, ["Upper bound", "119 of 120"]]
    assert list(data["headline"]["percentages"]) == ["nearest", "refined", "sequence", "Upper bound"]
    assert "standard deviation over training runs" not in text


def test_the_papers_numbers_are_shown_for_its_sets(results: list[Result], setup: Setup, tmp_path: Path) -> None:
    renamed = [replace(one, set="oxford") for one in results]
    shown = tables_of(write_report(renamed, replace(setup, name="oxford"), {}, tmp_path, command=""))
    headings, rows = shown["accuracy"][1], {row[0]: row for row in shown["accuracy"][2:]}
    theirs = [number for number, title in enumerate(headings) if title == "Paper"]
    assert [rows["Triplet + Huber"][at] for at in theirs] == ["79.46", "90.44"]
    assert [row[0] for row in shown["recovery"][-2:]] == ["Paper: classical MDS, 672 m", "Paper: SMACOF, 672 m"]
    assert shown["recovery"][-1][2:4] == ["38.8", "5.77"]
    assert shown["timing"][-1][0] == "Paper, Oxford"
    assert not shown["timing"][-2][0].startswith("Paper")


def test_generalization_is_the_mean_over_models_of_a_kind(setup: Setup, tmp_path: Path) -> None:
    nine = np.arange(9)
    shares = {"triplet": 70.0, "quadruplet": 80.0, "triplet+huber": 90.0}
    shares |= {f"triplet{OURS}": 85.0, f"triplet+huber{OURS}": 97.0}
    results = []
    for row, share in shares.items():
        found = Generalization({"Freiburg A": {"1.0": RegionAccuracy(nine, nine, 1.0, share, 0.0, 99.0)}})
        started = empty_result(setup, row=row, title=ROWS[row].title, seed=0, encoder="", settings={})
        results.append(replace(started, set="cold", scored={"generalization": found}))
    shown = tables_of(write_report(results, replace(setup, name="cold"), {}, tmp_path, command=""))
    assert shown["generalization"][2:] == [
        ["Visual (2 models)", "75.0"],
        ["Combined (1 model)", "90.0"],
        ["Visual (ours) (1 model)", "85.0"],
        ["Combined (ours) (1 model)", "97.0"],
        ["Paper, visual", "87.0"],
        ["Paper, combined", "94.8"],
        ["Upper bound", "99.0"],
        ["Landmarks", "9"],
    ]
    assert shown["generalization-of-models"][2] == ["Triplet", "70.0"]


def test_a_map_without_calibration_has_a_note(setup: Setup, tmp_path: Path) -> None:
    known = made_up(setup, "triplet", 0)
    before = known.get(Localization)
    assert before is not None
    nobody, unknown = np.zeros(len(before.queries), dtype=bool), np.full(len(before.queries), np.nan)
    lacking = {"refined": unknown, "sequence": unknown, "confident": nobody}
    bare = {"localization": replace(before, **lacking, calibrated_on="", note="Too few images.")}
    written = write_report([replace(known, scored=bare)], setup, {}, tmp_path, command="")
    found = section(data_of(written), "localization")
    assert "Triplet: Too few images." in found["sentences"]
    assert "intervals" not in found["tables"]
    both = [replace(one, scored=bare) for one in (known, made_up(setup, "off-the-shelf", 0))]
    found = section(data_of(write_report(both, setup, {}, tmp_path, command="")), "localization")
    assert [one for one in found["sentences"] if "Too few" in one] == ["All models: Too few images."]
    assert found["tables"]["positions"]["columns"] == ["Model", "Top-1: median, m", "Top-1: ≤ 10 m, %"]


def test_a_small_svg_is_embedded_and_a_large_one_is_not(
    figures: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedded(figures["curves"]).startswith("data:image/svg+xml;base64,")
    assert embedded(figures["table1"]).startswith("data:image/png;base64,")
    monkeypatch.setattr(report, "EMBEDDED_SVG_BYTES", 10)
    assert embedded(figures["curves"]).startswith("data:image/png;base64,")


# Errors


def test_a_report_of_nothing_or_of_another_set_raises(setup: Setup, results: list[Result], tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"made-up.*results"):
        write_report([], setup, {}, tmp_path, command="")
    other = replace(setup, name="elsewhere")
    with pytest.raises(BadInputError, match=r"elsewhere.*'Off-the-shelf'.*made-up"):
        write_report(results, other, {}, tmp_path, command="")


def test_a_missing_figure_raises(setup: Setup, results: list[Result], tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"gone.png"):
        write_report(results, setup, {"curves": tmp_path / "gone.png"}, tmp_path, command="")


# What fails


def broken(*_: Any) -> Any:
    raise KeyError("masked")


def test_a_failed_section_is_named_and_the_others_are_written(
    setup: Setup, results: list[Result], figures: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [one["name"] for one in data_of(write_report(results, setup, figures, tmp_path, command="x"))["sections"]]
    monkeypatch.setitem(PROTOCOLS, "curves", replace(PROTOCOLS["curves"], sections=broken))
    unwritable = table("bad", Column("Model", ["one"]), Column("%", [1.0, 2.0]))
    bad = Section("timing", "Timing", [], [unwritable])
    monkeypatch.setitem(PROTOCOLS, "timing", replace(PROTOCOLS["timing"], sections=lambda *_: [bad]))
    monkeypatch.setattr(report, "conduct", broken)
    monkeypatch.setattr(report, "headline_of", broken)
    page = write_report(results, setup, figures, tmp_path, command="x", failed={"figure curves": "no colors"})
    data = data_of(page)
    lost = {"curves", "timing", "run"}
    assert [one["name"] for one in data["sections"]] == [*(name for name in whole if name not in lost), "failed"]
    told = {row[0]: row[1] for row in section(data, "failed")["tables"]["failed"]["rows"]}
    assert set(told) == {"figure curves", "headline", *(f"section {name}" for name in lost)}
    assert told["figure curves"] == "no colors"
    assert re.fullmatch(r"KeyError: 'masked' \(.*\.py, line \d+\)", told["section curves"])
    assert told["section timing"].startswith("ValueError: ")
    assert failures_of(page) == [f"{what}: {why}" for what, why in told.items()]
    assert "What failed" in page.read_text("utf-8")
    assert "What failed" in page.with_name("report.md").read_text("utf-8")


def test_a_failed_figure_is_named_and_the_others_are_written(
    setup: Setup, results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {"good": lambda _: None, "bad": broken, "none": nothing_to_draw}
    made = [Drawing(name, "", draw) for name, draw in drawn.items()]  # type: ignore[arg-type]
    monkeypatch.setattr(report, "save", lambda figure, folder, name: [folder / f"{name}.png"])
    monkeypatch.setattr(report, "drawings", lambda: made)
    found, failed = draw_all(results, setup, lambda rows: np.zeros((len(rows), 8, 8, 3), np.uint8), tmp_path)
    assert found == {"good": tmp_path / "good.png"}
    assert list(failed) == ["figure bad"]
    assert "KeyError" in failed["figure bad"]


def nothing_to_draw(_: View) -> Any:
    raise NothingToDrawError("nothing")


def test_a_failed_protocol_is_named_with_its_models(setup: Setup, results: list[Result], tmp_path: Path) -> None:
    failed = [replace(one, failed={"timing": "no clock"}) if one.row == "triplet" else one for one in results]
    page = write_report(failed, setup, {}, tmp_path, command="")
    assert tables_of(page)["failed"][1] == ["protocol timing", "no clock", "Triplet, seed 0; Triplet, seed 1"]
    assert failures_of(page) == ["protocol timing: no clock"]
    failed[-1].save(tmp_path)
    assert Result.load(tmp_path).failed == {}
    failed[2].save(tmp_path)
    assert Result.load(tmp_path).failed == {"timing": "no clock"}
