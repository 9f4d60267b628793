"""The protocols, by name: which rows each needs described, and how it scores one model on one set."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.evaluation.scoring import Scored, Scoring
from mappable.evaluation.setup import Setup


@dataclass(frozen=True)
class Protocol:
    """One way to look at a model. `version` rises when its results change, so that older ones are not taken for new."""

    name: str
    summary: str
    version: int = 1

    def rows(self, setup: Setup) -> Ints:
        """Rows of the table that must be described for it."""
        rows: Callable[[Setup], Ints] = self._module.rows
        return rows(setup)

    def score(self, scoring: Scoring) -> Scored:
        """What it finds; NotApplicableError says why a set cannot be put to it."""
        score: Callable[[Scoring], Scored] = self._module.score
        return score(scoring)

    def key(self, scoring: Scoring) -> str:
        """16 hex digits that change with all that its result depends on."""
        depends: Callable[[Scoring], str] = getattr(self._module, "depends", lambda scoring: "")
        described = scoring.descriptors
        told = [
            self.name,
            self.version,
            scoring.setup.fingerprint,
            described.encoder,
            described.images,
            depends(scoring),
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]

    @property
    def _module(self) -> Any:
        return import_module(f"{__name__}.{self.name.replace('-', '_')}")


PROTOCOLS: Mapping[str, Protocol] = {
    one.name: one
    for one in (
        Protocol("table1", "accuracy within both radii, by condition, and recall@N"),
        Protocol("curves", "accuracy against tolerance, with the geometric upper bound"),
        Protocol("proportionality", "feature against geometric distance, of all pairs of a sequence"),
        Protocol("distance-matrices", "a reference and a query run, image by image"),
        Protocol("landmark-sweep", "accuracy against the number of landmarks"),
        Protocol("generalisation", "places that the encoder never trained on"),
        Protocol("localization", "metres with intervals, refined positions, rejection"),
        Protocol("qualitative", "examples to look at"),
        Protocol("map-recovery", "the trajectory of a sequence from feature distances alone", version=2),
        Protocol("timing", "milliseconds a query"),
    )
}


def protocols_named(names: Sequence[str] | None) -> list[Protocol]:
    """The protocols of these names, in the usual order; all of them if None."""
    if names is not None and not names:
        raise BadInputError(f"no protocol is named; there are {', '.join(PROTOCOLS)}")
    for name in names or ():
        if name not in PROTOCOLS:
            raise BadInputError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}")
    return [one for name, one in PROTOCOLS.items() if names is None or name in names]
