"""Write the report: one self-contained HTML page with all tables and figures, and the same as JSON and Markdown."""

import base64
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mappable.errors import BadInputError
from mappable.evaluation import paper
from mappable.evaluation.as_printed import start_of
from mappable.evaluation.failures import reason_of
from mappable.evaluation.markdown import markdown_of
from mappable.evaluation.models import own_map
from mappable.evaluation.protocol import BOUND, Drawing, Images, NothingToDrawError, Protocol, Section, View, counted
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.localization.compute import Localization
from mappable.evaluation.protocols.localization.ways import NEAREST, WayCounts, best_way, count_ways
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import OFF_THE_SHELF
from mappable.evaluation.sections import conduct, failed_parts, failures, settings, skipped
from mappable.evaluation.setup import Setup
from mappable.evaluation.style import save
from mappable.evaluation.summary import Difference, difference
from mappable.features.about import version_of_mappable
from mappable.files import write_atomically
from mappable.formats import Format
from mappable.learning.settings import with_defaults
from mappable.progress import track

PAGE, DATA, TEXT, TEMPLATE = "report.html", "report.json", "report.md", "report.html.jinja"
FORMAT = Format("mappable report", 2, "write it again", sealed_since=2)
EMBEDDED_SVG_BYTES = 300_000  # the page embeds a larger figure as PNG
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Headline:
    """The first lines of the report: what was run, the gain in words, and percentages by title.

    The page highlights the bar of the `best` model.
    """

    run: str
    gain: str = ""
    best: str = ""
    percentages: Mapping[str, float] = field(default_factory=dict)


def drawings() -> list[Drawing]:
    """The drawings of all protocols."""
    return [one for protocol in PROTOCOLS.values() for one in protocol.drawings]


def draw_all(
    results: Sequence[Result], setup: Setup, images: Images, folder: Path
) -> tuple[dict[str, Path], dict[str, str]]:
    """Write NAME.png and NAME.svg for every figure that has results; return the PNG by name.

    A figure that fails is left out. The second dictionary holds the reasons.
    """
    view, files, failed = View(results, setup, images), dict[str, Path](), dict[str, str]()
    for one in track(drawings(), "Drawing", len(drawings())):
        try:
            files[one.name] = save(one.draw(view), folder, one.name)[0]
        except NothingToDrawError:
            continue
        except Exception as error:
            failed[f"figure {one.name}"] = reason_of(error)
    return files, failed


def write_report(
    results: Sequence[Result],
    setup: Setup,
    figures: Mapping[str, Path],
    out: Path,
    *,
    command: str,
    as_printed: bool = False,
    failed: Mapping[str, str] | None = None,
) -> Path:
    """Write `report.html`, `report.json` and `report.md` into a folder; return the path of the page.

    All `results` are of one set. `figures` holds a PNG by name; an SVG may lie beside it. Figures with
    unknown names are left out. `command` repeats the whole study. `as_printed` says that the models start as the
    paper's do. The report names each part that `failed` before, and each section that fails now, with the reason;
    `failures_of` reads them back.
    """
    if not results:
        raise BadInputError(f"{setup.name}: there are no results to report")
    for result in results:
        if result.set != setup.name:
            raise BadInputError(f"the report is on {setup.name}, but the result of {result.title!r} is on {result.set}")
    view = View(results, setup, as_printed=as_printed)
    lost = dict(failed or {})
    top, sections = _headline(view, lost), sections_of(view, figures, command, lost)
    shown = {name: embedded(figures[name]) for section in sections for name in section.figures}
    captions = {one.name: one.caption for one in drawings()}
    page = _page(setup=setup, headline=top, sections=sections, figures=shown, captions=captions)
    reasons = [f"{what}: {why}" for what, why, _ in failures(view, lost)]
    data = _data(view, top, sections, reasons)
    json.dumps(data, allow_nan=False)  # raises for NaN, which other programs cannot read
    linked = {name: (os.path.relpath(path, out), captions[name]) for name, path in figures.items() if name in captions}
    text = markdown_of(setup.name, [top.gain, top.run], sections, linked)
    FORMAT.write(out / DATA, data)
    write_atomically(out / TEXT, lambda stream: stream.write(text.encode("utf-8", "replace")))
    write_atomically(out / PAGE, lambda stream: stream.write(page.encode("utf-8", "replace")))
    return out / PAGE


def failures_of(page: Path) -> list[str]:
    """The failed parts that the report of this page names, one sentence each."""
    failed: list[str] = FORMAT.read(page.with_name(DATA))["failed"]
    return failed


def sections_of(view: View, figures: Mapping[str, Path], command: str, failed: dict[str, str]) -> list[Section]:
    """All sections that have a figure, or a table with more columns than the names.

    A section that fails is left out. Its reason goes to `failed`.
    """
    makers: dict[str, Callable[[], Sequence[Section]]] = {
        protocol.name: partial(_sections_of_protocol, protocol, view) for protocol in PROTOCOLS.values()
    }
    makers |= {
        "settings": lambda: [settings(view)],
        "run": lambda: [conduct(view, command)],
        "skipped": lambda: [skipped(view)],
        "failed": lambda: [failed_parts(view, failed)],
    }
    found: list[Section] = []
    for name, make in makers.items():
        try:
            found += [_shown(one, figures) for one in make()]
        except Exception as error:
            failed[f"section {name}"] = reason_of(error)
    shown = [one for one in found if one.tables or one.figures or one.commands]
    return sorted(shown, key=lambda one: not one.leads)


def _sections_of_protocol(protocol: Protocol[Any], view: View) -> Sequence[Section]:
    models = view.models(protocol.kind)
    return protocol.sections(view, models) if models else ()


def _shown(section: Section, figures: Mapping[str, Path]) -> Section:
    """The section with its existing figures and non-empty tables; raises if a part cannot be written."""
    kept = [each for each in section.tables if len(each.columns) > 1]
    shown = replace(section, figures=[name for name in section.figures if name in figures], tables=kept)
    json.dumps(_section_data(shown), allow_nan=False)
    markdown_of("", [], [shown], {})
    return shown


def _headline(view: View, failed: dict[str, str]) -> Headline:
    try:
        return headline_of(view)
    except Exception as error:
        failed["headline"] = reason_of(error)
        return Headline(f"{view.setup.name}.")


def headline_of(view: View) -> Headline:
    """What was run, and how far the best model is ahead of the untrained encoder."""
    what, best = f"{counted(len(view.models()), 'model', 'models')} on {view.setup.name}", view.best
    if best is None:
        return Headline(" ".join([f"{what}.", *_starts(view)]))
    if (of_a_map := _best_way(view, what)) is not None:
        return of_a_map
    rows = {model.row: model for model in view.models(Accuracy)}
    first, shelf = rows[best.row].first(Accuracy), rows.get(OFF_THE_SHELF)
    located = f"{what}: {_located(first)}."
    run = " ".join([located, *_starts(view)])
    gain = f"{best.title} finds {best.positive.mean:.1f} % of the queries within {view.positive}"
    compared = [one for one in view.summaries if one.row in (OFF_THE_SHELF, best.row)]
    shown = {one.title: one.positive.mean for one in compared} | {BOUND: first.bound_positive[0]}
    if shelf is not None and len(compared) > 1:
        apart = difference(rows[best.row].results, shelf.results)
        gain += f"; {compared[0].title} finds {compared[0].positive.mean:.1f} %"
        gain += _ahead(apart) if apart else ""
    elif shelf is not None and len(rows) > 1:
        gain += "; no trained model finds more"
    return Headline(run, f"{gain}.", best.title, shown)


def _best_way(view: View, what: str) -> Headline | None:
    """For a user's own map: the method that finds most queries, and the nearest landmark; None for a study."""
    models = view.models(Localization)
    if not own_map(models):
        return None
    found, radius, title = models[0].first(Localization), view.setup.positive_radius, models[0].title
    ways, bound = count_ways(found, radius), 100 * float(np.mean(found.bound <= radius))
    best = best_way(ways)
    run = f"{what}: {_located(found)}."
    gain = f"{title} locates best with the method {best}: {_share(ways[best])} within {view.positive}"
    if best != NEAREST:
        gain += f", and {_share(ways[NEAREST])} with the nearest landmark"
    if confident := ways[best].confident:
        gain += f". It is confident about {confident:,} queries, {ways[best].right:,} of them correctly"
    return Headline(run, f"{gain}.", best, {name: one.percent for name, one in ways.items()} | {BOUND: bound})


def _share(way: WayCounts) -> str:
    return f"{way.found:,} of {way.queries:,} queries ({way.percent:.1f} %)"


def _located(found: Accuracy | Localization) -> str:
    return f"{len(found.queries):,} queries, located among {len(found.landmarks):,} landmarks"


def _starts(view: View) -> list[str]:
    """For the paper's sets: whether training started as in the paper. One sentence, or several if models differ."""
    if view.setup.name not in paper.SIZES or own_map(view.models()):
        return []
    known = [with_defaults(result.settings) for result in view.results if result.settings]
    return list(dict.fromkeys(start_of(one, view.setup, as_printed=view.as_printed) for one in known))


def _ahead(apart: Difference) -> str:
    """A gain in words."""
    if apart.interval is None:
        return f": a gain of {apart.mean:.1f} points"
    sure = "" if apart.verdict == "better" else ", not decided"
    interval = f"{apart.interval.low:.1f} to {apart.interval.high:.1f}".replace("-", "−")
    return f": a gain of {apart.mean:.1f} points (95 % interval {interval}{sure})"


def embedded(figure: Path) -> str:
    """A figure as a `data:` address: the SVG beside it if that is small, else the figure itself."""
    drawn = figure.with_suffix(".svg")
    try:
        if drawn.is_file() and drawn.stat().st_size < EMBEDDED_SVG_BYTES:
            figure = drawn
        content = base64.b64encode(figure.read_bytes()).decode()
    except OSError as error:
        raise BadInputError(f"{figure}: cannot be read ({(error.strerror or str(error)).lower()})") from None
    return f"data:{TYPES[figure.suffix]};base64,{content}"


def _page(**facts: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    known = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # Non-breaking spaces keep a unit, and a sign, on the line of their number.
    known.filters["tied"] = lambda text: re.sub(r"(?<=[\d,]) (?=%|(m|frames)\b)|(?<=≤) ", "\u00a0", text)
    template = files("mappable.evaluation").joinpath(TEMPLATE).read_text("utf-8")
    return known.from_string(template).render(version=version_of_mappable(), **facts)


def _data(view: View, headline: Headline, sections: Sequence[Section], failed: Sequence[str]) -> dict[str, Any]:
    """All content of the page except its figures."""
    return {
        "mappable": version_of_mappable(),
        "set": view.setup.name,
        "unit": view.unit,
        "positive_radius": view.setup.positive_radius,
        "negative_radius": view.setup.negative_radius,
        "headline": asdict(headline),
        "failed": list(failed),
        "sections": [_section_data(one) for one in sections],
    }


def _section_data(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "sentences": [*section.sentences, *section.notes],
        "tables": {each.name: each.to_json() for each in section.tables},
        "commands": list(section.commands),
    }
