"""Report sections about all models: settings, how it was run, what was skipped, what failed."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mappable.evaluation.models import Model
from mappable.evaluation.protocol import Section, View
from mappable.evaluation.rows import OFF_THE_SHELF
from mappable.evaluation.tables import Column, table
from mappable.learning.settings import with_defaults

GEOMETRIC_SETTINGS = ("geometric_weight", "feature_scale_squared", "huber_delta")  # a visual loss does not use them


def settings(view: View) -> Section:
    """The settings that differ between models, and all settings."""
    models = view.models()
    several = len(models) > 1
    sentences = ["The settings in which the models differ. All settings of all models are below."] if several else []
    made = table(
        "models",
        Column("Model", [model.title for model in models]),
        Column("Seeds", [_listed(_text(result.seed) for result in model.results) for model in models]),
        Column("Settings that differ", _differences(models) if several else [None]),
        Column("Training, min", [_minutes(model) for model in models]),
        Column("Encoder", [_listed(one.encoder[:8] for one in model.results if one.encoder) for model in models]),
    )
    every = [_settings(model) for model in models]
    names = sorted({name for one in every for name in one} - {"seed"})
    columns = [
        Column(model.title, [_text(one.get(name)) for name in names]) for model, one in zip(models, every, strict=True)
    ]
    everything = table("settings", Column("Setting", names), *columns, caption="All settings", folded=True)
    tables = [made, everything] if names else [made]
    return Section("settings", "Models and settings", sentences, tables)


def conduct(view: View, command: str) -> Section:
    """Machines, versions, dates and commands."""
    ran = [result.ran for result in view.results]
    versions = [f"{name} {one}" for each in ran for name, one in each.get("versions", {}).items() if one]
    facts = {
        "Set": f"{view.setup.name}: {len(view.setup.references):,} references, {len(view.setup.queries):,} queries",
        "Hardware": _listed(str(each["hardware"]) for each in ran if "hardware" in each),
        "Versions": _listed(versions),
        "Date": _listed(sorted(str(each["date"]) for each in ran if "date" in each)),
    }
    known = {name: text for name, text in facts.items() if text}
    given = [command, *(str(each.get("command", "")) for each in ran)]
    commands = dict.fromkeys(one for one in given if one)
    run = table("run", Column("", list(known)), Column("", list(known.values())))
    sentences = ["The command below repeats this study."] if commands else []
    return Section("run", "How it was run", sentences, [run], commands=list(commands))


def skipped(view: View) -> Section:
    """Protocols that were skipped, with the reasons."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for model in view.models():
        for result in model.results:
            for protocol, reason in result.skipped.items():
                reasons.setdefault((protocol, reason), []).append(model.title)
    titles = len(view.models())
    left = table(
        "skipped",
        Column("What", [protocol for protocol, _ in reasons]),
        Column("Reason", [reason for _, reason in reasons]),
        Column("Models", ["all" if len(set(of)) == titles else _listed(of) for of in reasons.values()]),
    )
    sentences = ["These parts do not apply to this set or these models."]
    return Section("skipped", "What was skipped", sentences, [left] if reasons else [])


def failures(view: View, parts: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Failed protocols and failed `parts` of the report: what failed, the reason, and the models."""
    models: dict[tuple[str, str], list[str]] = {}
    for result in view.results:
        for protocol, reason in result.failed.items():
            seed = "" if result.seed is None else f", seed {result.seed}"
            models.setdefault((f"protocol {protocol}", reason), []).append(f"{result.title}{seed}")
    found = [(what, reason, "; ".join(of)) for (what, reason), of in models.items()]
    return found + [(what, reason, "") for what, reason in parts.items()]


def failed_parts(view: View, parts: Mapping[str, str]) -> Section:
    """One row per failed part."""
    found = failures(view, parts)
    titles = ("What", "Reason", "Models")
    columns = [Column(title, [one[at] or None for one in found]) for at, title in enumerate(titles)]
    sentences = [
        "These parts are missing because of an error. All other parts are complete. The same command retries them."
    ]
    return Section("failed", "What failed", sentences, [table("failed", *columns)] if found else [])


def _differences(models: list[Model]) -> list[str]:
    """Per model, the settings that are not the same for all trained models, as text."""
    trained = [_settings(model) for model in models if model.row != OFF_THE_SHELF]
    names = dict.fromkeys(name for one in trained for name in one if name != "seed")
    varied = [name for name in names if len({_text(one.get(name)) for one in trained}) > 1]
    found = []
    for model in models:
        own = _settings(model)
        loss = str(own.get("loss", ""))
        geometric = loss.endswith(("distance", "huber"))
        used = varied if geometric else [name for name in varied if name not in GEOMETRIC_SETTINGS]
        listed = _listed(f"{name} {_text(own[name])}" for name in used if name in own)
        found.append("not trained" if model.row == OFF_THE_SHELF else listed)
    return found


def _settings(model: Model) -> dict[str, Any]:
    """Settings of the first seed, completed with defaults for newer settings; empty for external descriptors."""
    recorded = model.results[0].settings
    return with_defaults(recorded) if recorded else {}


def _minutes(model: Model) -> float | None:
    """Average minutes of training per seed."""
    seconds = [result.ran["training_seconds"] for result in model.results if "training_seconds" in result.ran]
    return float(np.mean(seconds)) / 60 if seconds else None


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "–" if value is None else json.dumps(value)
