"""The paper's claims in words, each judged by our results.

Each claim has parts, such as pairs of models; it holds if all parts do, partly if some do, and fails if none does and
one is refuted. Where nothing is either shown or refuted, or models are missing, it is not decidable.
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
from mappable.evaluation.summary import Difference, RowSummary, accuracies_of, difference, errors_of, summarise

Verdict = Literal["holds", "fails", "partly", "not decidable"]
ALMOST_ALL = 99.6  # percent of the queries within the negative radius, on COLD
ENOUGH_SEEDS = 8  # to tell how much runs vary
SEVERAL_SEEDS = 3  # so that it is not one run that is told apart from another
SURE = 0.05  # below this chance two spreads differ
CLOSE = 5.0  # percentage points that make no difference


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what became of it here, and the numbers that say so, in sentences.

    `compared` is True if no model is missing and some could be compared, though that may not have decided it.
    """

    number: str
    text: str
    verdict: Verdict
    evidence: tuple[str, ...]
    compared: bool


@dataclass(frozen=True)
class Evidence:
    """Of a part of a claim: whether it is so (None: nobody can tell), and why."""

    shown: bool | None
    sentence: str


@dataclass(frozen=True)
class Found:
    """What is known of each row of one set."""

    results: Mapping[str, Sequence[Result]]
    summaries: Mapping[str, RowSummary]

    def ahead(self, first: str, second: str) -> tuple[Difference, str]:
        """By how much one row is ahead of another, and a sentence about it."""
        apart = difference(self.results[first], self.results[second])
        assert apart is not None  # noqa: S101 - all results here have table1
        one, two = (f"{ROWS[name].title} {self.summaries[name].positive.mean:.1f} %" for name in (first, second))
        return apart, f"{one}, {two}: {points(apart)}, {apart.verdict} ({apart.compared})."

    def missing(self, names: Sequence[str]) -> list[str]:
        """The titles of rows that there is no result of."""
        return [ROWS[name].title for name in dict.fromkeys(names) if name not in self.results]


def judge(results: Sequence[Result]) -> list[Claim]:
    """The claims (i) to (v), judged by all results of one set that have `table1`."""
    known = [result for result in results if result.get(Accuracy)]
    found = Found({model.row: model.results for model in models_of(known)}, {one.row: one for one in summarise(known)})
    return [_combinations(found), _geometric(found), _almost_all(found), _huber(found), _weight(known)]


def points(apart: Difference) -> str:
    """A difference of percentages in words."""
    return f"{apart.mean:+.1f} points{between(apart.interval)}".replace("-", "−")


def between(interval: Interval | None) -> str:
    """An interval, to be put behind its mean; "" where there is none.

    >>> between(Interval(2.0, 1.0, 3.04))
    ' [1.0, 3.0]'
    """
    return f" [{interval.low:.1f}, {interval.high:.1f}]".replace("-", "−") if interval else ""


def _combinations(found: Found) -> Claim:
    text = "Every combination of a visual and a geometric loss beats its visual loss alone at the positive radius."
    pairs = [(row.name, row.pure) for row in TABLE_1 if row.combined]
    parts = []
    for combined, pure in pairs:
        if found.results.keys() >= {combined, pure}:
            apart, sentence = found.ahead(combined, pure)
            parts.append(Evidence({"better": True, "worse": False}.get(apart.verdict), sentence))
    return _claim("i", text, parts, missing=found.missing([name for pair in pairs for name in pair]))


def _geometric(found: Found) -> Claim:
    text = "A geometric loss alone is at or below the off-the-shelf encoder at the positive radius."
    names = [row.name for row in TABLE_1 if row.loss and not row.visual]
    parts = []
    for name in names:
        if found.results.keys() >= {name, OFF_THE_SHELF}:
            apart, sentence = found.ahead(name, OFF_THE_SHELF)
            below = apart.interval is not None and apart.interval.high <= CLOSE
            parts.append(Evidence(False if apart.verdict == "better" else below or None, sentence))
    notes = [f"At or below means that the interval does not reach beyond {CLOSE:+g} points."] if parts else []
    return _claim("ii", text, parts, missing=found.missing([OFF_THE_SHELF, *names]), notes=notes)


def _almost_all(found: Found) -> Claim:
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
        notes = [f"{bound:.2f} % of the queries have a landmark within {first.negative_radius:g} {first.unit} at all."]
        if first.set != "cold":
            notes.append(f"The paper says so of COLD only, within 4 m; {first.set} is judged by the same bar.")
    return _claim("iii", text, parts, missing=found.missing(names), notes=notes)


def _huber(found: Found) -> Claim:
    text = "Huber variants vary less from run to run than those with the plain distance loss."
    parts, few = [], []
    for row in TABLE_1:
        if row.loss.endswith("huber"):
            other = ROWS[row.name.replace("huber", "distance")]
            runs = [_accuracies(found.results.get(one.name, [])) for one in (row, other)]
            names, counts = f"{row.title} and {other.title}", f"{len(runs[0])} and {len(runs[1])} seeds"
            if min(map(len, runs)) >= ENOUGH_SEEDS:
                parts.append(_steadier(f"{names}, {counts}", *runs))
            else:
                few.append(f"{names}: {counts}, but {ENOUGH_SEEDS} of each are needed.")
    claim = _claim("iv", text, parts, notes=few)
    return replace(claim, verdict="not decidable") if few else claim


def _steadier(names: str, first: Sequence[float], second: Sequence[float]) -> Evidence:
    """Whether the first of two series varies less."""
    one, two = (float(np.std(series, ddof=1)) for series in (first, second))
    chance = 1.0 if one == two == 0.0 else float(levene(first, second).pvalue)
    sentence = f"{names}: standard deviations of {one:.2f} and {two:.2f} points (Levene's test: p = {chance:.3f})."
    return Evidence(one < two if chance < SURE else None, sentence)


def _weight(results: Sequence[Result]) -> Claim:
    text = "Training is robust to the weight γ of the geometric loss."
    alike: dict[str, dict[float, list[Result]]] = {}  # by all settings but the weight
    for result in results:
        loss, weight = str(result.settings.get("loss", "")), result.settings.get("geometric_weight")
        if "+" in loss and weight is not None and result.row != OFF_THE_SHELF:  # whose loss was never used
            others = json.dumps({**result.settings, "geometric_weight": None, "seed": None}, sort_keys=True)
            alike.setdefault(others, {}).setdefault(float(weight), []).append(result)
    parts = [_spread_of(weights) for weights in alike.values() if len(weights) > 1]
    rule = (
        f"Robust means that the 95 % interval of the difference stays within {CLOSE:g} points, over {SEVERAL_SEEDS} "
        "seeds at least; not robust, that it is beyond."
    )
    lacking = "No loss was trained with several values of γ and all else equal."
    return _claim("v", text, parts, notes=[rule if parts else lacking])


def _spread_of(weights: Mapping[float, list[Result]]) -> Evidence:
    """How much the weight of a loss changes, from the worst of some values to the best."""
    means = {weight: float(np.mean(_accuracies(own))) for weight, own in sorted(weights.items())}
    best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    apart = difference(weights[best], weights[worst])
    shown, gaps = None, []
    if apart and apart.interval and len(apart.seeds) >= SEVERAL_SEEDS:
        found = [{run.seed: _accuracies([run])[0] for run in weights[weight]} for weight in (best, worst)]
        gaps = [found[0][seed] - found[1][seed] for seed in apart.seeds]
        shown = True if apart.interval.high <= CLOSE else False if apart.interval.low > CLOSE else None
    listed = ", ".join(f"{mean:.1f} % with γ = {weight:g}" for weight, mean in means.items())
    loss = str(next(iter(weights.values()))[0].settings["loss"])
    sentence = f"{ROWS[loss].title if loss in ROWS else loss}: {listed}"
    if apart:
        each = ", ".join(f"{gap:+.1f}".replace("-", "−") for gap in gaps)
        sentence += f"; from the worst to the best {points(apart)} ({apart.compared}{each and f': {each}'})"
    return Evidence(shown, f"{sentence}.")


def _accuracies(results: Sequence[Result]) -> list[float]:
    """Percentages within the positive radius, a seed."""
    if not results:
        return []
    within: list[float] = (100.0 * (errors_of(results) <= results[0].positive_radius)).mean(axis=1).tolist()
    return within


def _claim(
    number: str, text: str, parts: Sequence[Evidence], *, missing: Sequence[str] = (), notes: Sequence[str] = ()
) -> Claim:
    """The claim that has these parts; not decidable where rows are `missing`."""
    evidence = [*(part.sentence for part in parts), *notes]
    if missing:
        lacking = f"Not trained: {', '.join(missing).removesuffix('.')}."
        return Claim(number, text, "not decidable", (*evidence, lacking), compared=False)
    return Claim(number, text, _verdict([part.shown for part in parts]), tuple(evidence), compared=bool(parts))


def _verdict(shown: Sequence[bool | None]) -> Verdict:
    if True in shown:
        return "holds" if all(shown) else "partly"
    return "fails" if False in shown else "not decidable"
