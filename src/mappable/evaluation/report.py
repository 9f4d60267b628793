"""Write the report: one self-contained HTML page with all tables and figures, and all its numbers as JSON."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mappable.errors import BadInputError
from mappable.evaluation import paper
from mappable.evaluation.answers import count, percent
from mappable.evaluation.as_printed import start_of
from mappable.evaluation.failures import reason_of
from mappable.evaluation.figure import save
from mappable.evaluation.models import Model, own_map
from mappable.evaluation.protocol import (
    BOUND,
    CHANCE,
    Drawing,
    Images,
    NothingToDrawError,
    Protocol,
    Section,
    View,
)
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.localization import Localization
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import OFF_THE_SHELF
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import difference
from mappable.evaluation.tables import Column, cell_text, table
from mappable.features.about import version_of_mappable
from mappable.files import write_atomically
from mappable.formats import Format
from mappable.learning.settings import with_defaults
from mappable.progress import track

PAGE, DATA, TEMPLATE, FIGURES = "report.html", "report.json", "report.html.jinja", "figures"
FORMAT = Format("mappable report", 2, "write it again", sealed_since=2)
EMBEDDED_SVG_BYTES = 300_000  # the page embeds a larger figure as PNG


@dataclass(frozen=True)
class Headline:
    """The first lines of the report: what was run, the gain in words, and percentages by title.

    The page highlights the bar of the `best` model.
    """

    run: str
    gain: str = ""
    best: str = ""
    percentages: Mapping[str, float] = field(default_factory=dict)


def write_report(
    results: Sequence[Result],
    setup: Setup,
    images: Images,
    out: Path,
    *,
    command: str,
    as_printed: bool = False,
) -> Path:
    """Draw all figures, and write `report.html` and `report.json` into a folder; return the path of
    the page.

    `command` repeats the whole study. `as_printed` says that the models start as the paper's do.
    The report names each part that failed, with the reason; `failures_of` reads them back.
    """
    if not results:
        raise BadInputError(f"{setup.name}: there are no results to report")
    for result in results:
        if result.set != setup.name:
            raise BadInputError(
                f"the report is on {setup.name}, but the result of {result.title!r} is on"
                f" {result.set}"
            )
    view = View(results, setup, images, as_printed)
    failed = {
        f"protocol {name}, {one.title}": why for one in results for name, why in one.failed.items()
    }
    figures = _draw(view, out / FIGURES, failed)
    makers: dict[str, Callable[[], Any]] = {
        name: partial(_section_of, protocol, view, figures) for name, protocol in PROTOCOLS.items()
    }
    makers |= {"settings": partial(_settings, view), "run": partial(_conduct, view, command)}
    made = {name: _guarded(f"section {name}", make, failed) for name, make in makers.items()}
    headline = _guarded("headline", partial(headline_of, view), failed) or Headline(
        f"{setup.name}."
    )
    sections = [
        one for one in (*made.values(), _skipped(view), _failed(failed)) if one and _shows(one)
    ]
    sections.sort(key=lambda one: not one.leads)
    captions = {one.name: one.caption for one in drawings()}
    reasons = [f"{what}: {why}" for what, why in failed.items()]
    FORMAT.write(out / DATA, _data(view, headline, sections, reasons))
    page = _page(
        setup=setup,
        headline=headline,
        sections=sections,
        figures={name: embedded(file) for name, file in figures.items()},
        captions=captions,
    )
    write_atomically(out / PAGE, lambda stream: stream.write(page.encode("utf-8", "replace")))
    return out / PAGE


def failures_of(page: Path) -> list[str]:
    """The failed parts that the report of this page names, one sentence each."""
    failed: list[str] = FORMAT.read(page.with_name(DATA))["failed"]
    return failed


def drawings() -> list[Drawing]:
    """The drawings of all protocols."""
    return [one for protocol in PROTOCOLS.values() for one in protocol.drawings]


def _draw(view: View, folder: Path, failed: dict[str, str]) -> dict[str, Path]:
    """Write NAME.png and NAME.svg for every figure that has results; return the PNG by name."""
    figures = {}
    for drawing in track(drawings(), "Drawing", len(drawings())):
        try:
            figures[drawing.name] = save(drawing.draw(view), folder, drawing.name)[0]
        except NothingToDrawError:
            continue
        except Exception as error:
            failed[f"figure {drawing.name}"] = reason_of(error)
    return figures


def _guarded(what: str, make: Callable[[], Any], failed: dict[str, str]) -> Any:
    """A part of the report; None if it fails, with the reason in `failed`."""
    try:
        made = make()
        json.dumps(
            asdict(made) if isinstance(made, Headline) else made and _section_data(made),
            allow_nan=False,
        )
        return made
    except Exception as error:
        failed[what] = reason_of(error)
        return None


def _section_of(protocol: Protocol[Any], view: View, figures: Mapping[str, Path]) -> Section | None:
    """The section of a protocol that has results, with its existing figures."""
    models = view.models(protocol.kind)
    if not models:
        return None
    section = protocol.report(view, models)
    return replace(section, figures=[name for name in section.figures if name in figures])


def _shows(section: Section) -> bool:
    return any(one.shown for one in section.tables) or bool(section.figures or section.commands)


def headline_of(view: View) -> Headline:
    """What was run, and how far the best model is ahead of the untrained encoder."""
    models = view.models()
    what = f"{len(models):,} model{'s' * (len(models) > 1)} on {view.setup.name}"
    if own_map(models) and view.models(Localization):
        return _headline_of_map(view, models[0])
    starts = _starts(view)
    if not view.summaries:
        return Headline(" ".join([f"{what}.", *starts]))
    best = max(view.summaries, key=lambda one: one.positive.mean)
    rows = {model.row: model for model in view.models(Accuracy)}
    first = rows[best.row].first(Accuracy)
    located = (
        f"{what}: {len(first.queries):,} queries, located among {len(first.landmarks):,} landmarks."
    )
    gain = f"{best.title} finds {best.positive.mean:.1f} % of the queries within {view.positive}"
    shown = {
        one.title: one.positive.mean
        for one in view.summaries
        if one.row in (OFF_THE_SHELF, best.row)
    }
    shelf = rows.get(OFF_THE_SHELF)
    apart = (
        difference(rows[best.row].results, shelf.results)
        if shelf and best.row != OFF_THE_SHELF
        else None
    )
    if shelf and apart:
        gain += (
            f"; {shelf.title} finds {shown[shelf.title]:.1f} %: a gain of {apart.mean:.1f} points"
        )
        gain += (
            f" (95 % interval {cell_text(apart.interval)}, {apart.verdict})"
            if apart.interval
            else ""
        )
    bars = shown | {BOUND: first.bound_positive[0], CHANCE: first.chance_positive}
    return Headline(" ".join([located, *starts]), f"{gain}.", best.title, bars)


def _headline_of_map(view: View, model: Model) -> Headline:
    """For a user's own map: found, error, confidence and intervals of the best method."""
    found, radius = model.first(Localization), view.setup.positive_radius
    every = np.arange(len(found.queries))
    counts = {name: count(answers, radius, every) for name, answers in found.methods.items()}
    best = max(counts, key=lambda name: counts[name].found)
    one = counts[best]
    gain = (
        f"{model.title} finds {one.found:,} of {one.queries:,} queries ({one.percent:.1f} %) within"
        f" {view.positive} with the method {best}; chance finds {found.chance:.1f} %. The median"
        f" error is {one.median:.2f} {view.unit}. It is confident about {one.confident:,} queries,"
        f" and {one.right:,} of them are correct. {one.held:,} of {one.intervals:,} intervals"
        f" ({cell_text(percent(one.held, one.intervals))} %) contain the truth; they state"
        f" {100 * found.coverage:g} %."
    )
    run = f"{one.queries:,} queries, located among {len(found.landmarks):,} landmarks."
    bound = 100 * float(np.mean(found.bound <= radius))
    bars = {name: each.percent for name, each in counts.items()} | {
        BOUND: bound,
        CHANCE: found.chance,
    }
    return Headline(run, gain, best, bars)


def _starts(view: View) -> list[str]:
    """For the paper's sets: whether training started as in the paper. One sentence, or several if
    models differ.
    """
    if view.setup.name not in paper.SIZES or own_map(view.models()):
        return []
    known = [with_defaults(result.settings) for result in view.results if result.settings]
    return list(
        dict.fromkeys(start_of(one, view.setup, as_printed=view.as_printed) for one in known)
    )


def _settings(view: View) -> Section:
    """Models, the settings in which they differ, and all settings."""
    models = view.models()
    every = [
        with_defaults(model.results[0].settings) if model.results[0].settings else {}
        for model in models
    ]
    names = sorted({name for one in every for name in one} - {"seed"})
    texts = {name: [_text(one.get(name)) for one in every] for name in names}
    minutes = [_minutes(model) for model in models]
    made = table(
        "models",
        Column("Model", [model.title for model in models]),
        Column(
            "Seeds", [_listed(_text(result.seed) for result in model.results) for model in models]
        ),
        Column("Training, min", minutes),
        Column(
            "Encoder",
            [_listed(one.encoder[:8] for one in model.results if one.encoder) for model in models],
        ),
        *(Column(name, texts[name]) for name in names if len(set(texts[name])) > 1),
    )
    columns = [
        Column(model.title, [texts[name][at] for name in names]) for at, model in enumerate(models)
    ]
    everything = table(
        "settings", Column("Setting", names), *columns, caption="All settings", folded=True
    )
    return Section("settings", "Models and settings", [], [made, everything])


def _conduct(view: View, command: str) -> Section:
    """Machines, versions, dates and commands."""
    ran = [result.ran for result in view.results]
    versions = [
        f"{name} {one}" for each in ran for name, one in each.get("versions", {}).items() if one
    ]
    facts = {
        "Set": (
            f"{view.setup.name}: {len(view.setup.references):,} references,"
            f" {len(view.setup.queries):,} queries"
        ),
        "Hardware": _listed(str(each["hardware"]) for each in ran if "hardware" in each),
        "Versions": _listed(versions),
        "Date": _listed(sorted(str(each["date"]) for each in ran if "date" in each)),
    }
    run = table("run", Column("", list(facts)), Column("", list(facts.values())))
    commands = dict.fromkeys(
        filter(None, [command, *(str(each.get("command", "")) for each in ran)])
    )
    return Section("run", "How it was run", [], [run], commands=list(commands))


def _skipped(view: View) -> Section:
    """Protocols that were skipped, with the reasons."""
    reasons = dict(pair for result in view.results for pair in result.skipped.items())
    left = table("skipped", Column("What", list(reasons)), Column("Reason", list(reasons.values())))
    return Section(
        "skipped",
        "What was skipped",
        ["These parts do not apply to this set or these models."],
        [left],
    )


def _failed(failed: Mapping[str, str]) -> Section:
    """One row per failed part."""
    lost = table("failed", Column("What", list(failed)), Column("Reason", list(failed.values())))
    sentence = (
        "These parts are missing because of an error; all others are complete. The same command"
        " retries them."
    )
    return Section("failed", "What failed", [sentence], [lost])


def _minutes(model: Model) -> float | None:
    """Average minutes of training per seed."""
    seconds = [
        result.ran["training_seconds"]
        for result in model.results
        if "training_seconds" in result.ran
    ]
    return float(np.mean(seconds)) / 60 if seconds else None


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "–" if value is None else json.dumps(value)


def embedded(figure: Path) -> str:
    """A PNG as a `data:` address; the SVG beside it if that is small."""
    drawn = figure.with_suffix(".svg")
    small = drawn.stat().st_size < EMBEDDED_SVG_BYTES
    kind, file = ("image/svg+xml", drawn) if small else ("image/png", figure)
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _page(**facts: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    known = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # Non-breaking spaces keep a unit, and a sign, on the line of their number.
    known.filters["tied"] = lambda text: re.sub(
        r"(?<=[\d,]) (?=%|(m|frames)\b)|(?<=≤) ", "\u00a0", text
    )
    template = files("mappable.evaluation").joinpath(TEMPLATE).read_text("utf-8")
    return known.from_string(template).render(version=version_of_mappable(), **facts)


def _data(
    view: View, headline: Headline, sections: Sequence[Section], failed: Sequence[str]
) -> dict[str, Any]:
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
        "tables": {one.name: one.to_json() for one in section.tables if one.shown},
        "commands": list(section.commands),
    }
