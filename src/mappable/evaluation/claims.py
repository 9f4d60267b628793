"""Judge the claims that the paper makes in words by our results.

Each claim has parts, such as pairs of models. A claim holds if all parts hold, and holds partly if some parts hold. It
fails if no part holds and at least one is refuted. It is not decidable if no part is shown or refuted, or if models
are missing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import levene

from mappable.evaluation.bootstrap import Interval
from mappable.evaluation.models import models_of
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import OFF_THE_SHELF, ROWS, TABLE_1
from mappable.evaluation.summary import Difference, RowSummary, accuracies_of, difference, errors_of, summarize

Verdict = Literal["holds", "fails", "partly", "not decidable"]
ALMOST_ALL = 99.6  # percent of the queries within the negative radius, which the paper states for COLD
SEEDS_FOR_SPREAD = 8  # fewest seeds per model to judge how much runs vary
SEEDS_FOR_ROBUSTNESS = 3  # fewest seeds per γ, so that a single run does not decide
SIGNIFICANCE = 0.05  # two spreads differ if the p-value is below this
CLOSE = 5.0  # differences up to this many percentage points count as none


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our verdict, and the evidence in sentences with numbers.

    `compared` is True if no model is missing and at least one part was compared. The verdict may still be open.
    """

    number: str
    text: str
    verdict: Verdict
    evidence: tuple[str, ...]
    compared: bool


@dataclass(frozen=True)
class Evidence:
    """One part of a claim: True if shown, False if refuted, None if not decided; and a sentence with the numbers."""

    shown: bool | None
    sentence: str


@dataclass(frozen=True)
class Trained:
    """The results and the summary of each row, for one set."""

    results: Mapping[str, Sequence[Result]]
    summaries: Mapping[str, RowSummary]

    def ahead(self, first: str, second: str) -> tuple[Difference, str]:
        """By how much the first row is ahead of the second, and a sentence about it."""
        apart = difference(self.results[first], self.results[second])
        assert apart is not None  # noqa: S101 - all results here have table1
        one, two = (f"{ROWS[name].title} {self.summaries[name].positive.mean:.1f} %" for name in (first, second))
        return apart, f"{one}, {two}: {points(apart)}, {apart.verdict} ({apart.compared})."

    def missing(self, names: Sequence[str]) -> list[str]:
        """The titles of rows that have no result."""
        return [ROWS[name].title for name in dict.fromkeys(names) if name not in self.results]


def judge(results: Sequence[Result]) -> list[Claim]:
    """Claims (i) to (v), judged with all results of one set that have `table1`."""
    known = [result for result in results if result.get(Accuracy)]
    found = Trained(
        {model.row: model.results for model in models_of(known)}, {one.row: one for one in summarize(known)}
    )
    return [_combinations(found), _geometric(found), _almost_all(found), _huber(found), _weight(known)]


def points(apart: Difference) -> str:
    """A difference of percentages as text."""
    return f"{apart.mean:+.1f} points{between(apart.interval)}".replace("-", "−")


def between(interval: Interval | None) -> str:
    """An interval as text to follow its mean; "" for None.

    >>> between(Interval(2.0, 1.0, 3.04))
    ' [1.0, 3.0]'
    """
    return f" [{interval.low:.1f}, {interval.high:.1f}]".replace("-", "−") if interval else ""


def _combinations(found: Trained) -> Claim:
    text = "Every combination of a visual and a geometric loss beats its visual loss alone at the positive radius."
    pairs = [(row.name, row.pure) for row in TABLE_1 if row.combined]
    parts = []
    for combined, pure in pairs:
        if found.results.keys() >= {combined, pure}:
            apart, sentence = found.ahead(combined, pure)
            parts.append(Evidence({"better": True, "worse": False}.get(apart.verdict), sentence))
    return _claim("i", text, parts, missing=found.missing([name for pair in pairs for name in pair]))


def _geometric(found: Trained) -> Claim:
    text = "A geometric loss alone is at or below the off-the-shelf encoder at the positive radius."
    names = [row.name for row in TABLE_1 if row.loss and not row.visual]
    parts = []
    for name in names:
        if found.results.keys() >= {name, OFF_THE_SHELF}:
            apart, sentence = found.ahead(name, OFF_THE_SHELF)
            below = apart.interval is not None and apart.interval.high <= CLOSE
            parts.append(Evidence(False if apart.verdict == "better" else below or None, sentence))
    notes = [f"At or below means that the interval ends at {CLOSE:+g} points or lower."] if parts else []
    return _claim("ii", text, parts, missing=found.missing([OFF_THE_SHELF, *names]), notes=notes)


def _almost_all(found: Trained) -> Claim:
    text = f"All four combinations find at least {ALMOST_ALL} % of the queries within the negative radius."
    names = [row.name for row in TABLE_1 if row.combined]
    trained = [name for name in names if name in found.results]
    parts, notes = [], []
    for name in trained:
        share = found.summaries[name].negative.mean
        parts.append(Evidence(share >= ALMOST_ALL, f"{ROWS[name].title} {share:.2f} %."))
    if trained:
        first = found.results[trained[0]][0]
        bound = accuracies_of([first])[0].bound_negative[0]
        notes = [f"{bound:.2f} % of the queries have any landmark within {first.negative_radius:g} {first.unit}."]
        if first.set != "cold":
            notes.append(f"The paper states this for COLD only, within 4 m; {first.set} is judged by the same number.")
    return _claim("iii", text, parts, missing=found.missing(names), notes=notes)


def _huber(found: Trained) -> Claim:
    text = "Huber variants vary less between runs than variants with the plain distance loss."
    parts, few = [], []
    for row in TABLE_1:
        if row.loss.endswith("huber"):
            other = ROWS[row.name.replace("huber", "distance")]
            runs = [_accuracies(found.results.get(one.name, [])) for one in (row, other)]
            names, counts = f"{row.title} and {other.title}", f"{len(runs[0])} and {len(runs[1])} seeds"
            if min(map(len, runs)) >= SEEDS_FOR_SPREAD:
                parts.append(_steadier(f"{names}, {counts}", *runs))
            else:
                few.append(f"{names}: {counts}; the test needs {SEEDS_FOR_SPREAD} of each.")
    claim = _claim("iv", text, parts, notes=few)
    return replace(claim, verdict="not decidable") if few else claim


def _steadier(names: str, first: Sequence[float], second: Sequence[float]) -> Evidence:
    """Whether the first series varies less than the second."""
    one, two = (float(np.std(series, ddof=1)) for series in (first, second))
    chance = 1.0 if one == two == 0.0 else float(levene(first, second).pvalue)
    sentence = f"{names}: standard deviations of {one:.2f} and {two:.2f} points (Levene's test: p = {chance:.3f})."
    return Evidence(one < two if chance < SIGNIFICANCE else None, sentence)


def _weight(results: Sequence[Result]) -> Claim:
    text = "Training is robust to the weight γ of the geometric loss."
    alike: dict[str, dict[float, list[Result]]] = {}  # by all settings except weight and seed, then by weight
    for result in results:
        loss, weight = str(result.settings.get("loss", "")), result.settings.get("geometric_weight")
        if "+" in loss and weight is not None and result.row != OFF_THE_SHELF:  # off-the-shelf never used its loss
            others = json.dumps({**result.settings, "geometric_weight": None, "seed": None}, sort_keys=True)
            alike.setdefault(others, {}).setdefault(float(weight), []).append(result)
    parts = [_spread_of(weights) for weights in alike.values() if len(weights) > 1]
    rule = (
        f"Robust means that the 95 % interval of the difference stays within {CLOSE:g} points, with at least "
        f"{SEEDS_FOR_ROBUSTNESS} seeds. Not robust means that the whole interval is above {CLOSE:g} points."
    )
    lacking = "No loss was trained with several values of γ and otherwise equal settings."
    return _claim("v", text, parts, notes=[rule if parts else lacking])


def _spread_of(weights: Mapping[float, list[Result]]) -> Evidence:
    """How much the weight changes the accuracy of one loss, from its worst value to its best."""
    means = {weight: float(np.mean(_accuracies(own))) for weight, own in sorted(weights.items())}
    best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    apart = difference(weights[best], weights[worst])
    shown, gaps = None, []
    if apart and apart.interval and len(apart.seeds) >= SEEDS_FOR_ROBUSTNESS:
        found = [{run.seed: _accuracies([run])[0] for run in weights[weight]} for weight in (best, worst)]
        gaps = [found[0][seed] - found[1][seed] for seed in apart.seeds]
        shown = True if apart.interval.high <= CLOSE else False if apart.interval.low > CLOSE else None
    listed = ", ".join(f"{mean:.1f} % with γ = {weight:g}" for weight, mean in means.items())
    loss = str(next(iter(weights.values()))[0].settings["loss"])
    sentence = f"{ROWS[loss].title if loss in ROWS else loss}: {listed}"
    if apart:
        each = ", ".join(f"{gap:+.1f}".replace("-", "−") for gap in gaps)
        sentence += f"; difference of best and worst {points(apart)} ({apart.compared}{each and f': {each}'})"
    return Evidence(shown, f"{sentence}.")


def _accuracies(results: Sequence[Result]) -> list[float]:
    """Percentages within the positive radius, one per seed."""
    if not results:
        return []
    within: list[float] = (100.0 * (errors_of(results) <= results[0].positive_radius)).mean(axis=1).tolist()
    return within


def _claim(
    number: str, text: str, parts: Sequence[Evidence], *, missing: Sequence[str] = (), notes: Sequence[str] = ()
) -> Claim:
    """The claim that has these parts; not decidable if rows are `missing`."""
    evidence = [*(part.sentence for part in parts), *notes]
    if missing:
        lacking = f"Not trained: {', '.join(missing).removesuffix('.')}."
        return Claim(number, text, "not decidable", (*evidence, lacking), compared=False)
    return Claim(number, text, _verdict([part.shown for part in parts]), tuple(evidence), compared=bool(parts))


def _verdict(shown: Sequence[bool | None]) -> Verdict:
    if True in shown:
        return "holds" if all(shown) else "partly"
    return "fails" if False in shown else "not decidable"
