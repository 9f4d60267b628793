"""Advice: the few things that would improve a map most, the largest gain first."""

import numpy as np

from mappable.localization.estimate import Estimate
from mappable.places.survey import Survey

ENOUGH = 0.02  # share of the images; a smaller gain is not worth a sentence
UNSURE = 0.1  # share of confident images below which the map hardly commits itself
KEEP_OUT = (
    "keep one visit out, so that it calibrates the map: mappable places split PLACES --calibration"
    " SEQUENCE; then run the same command again"
)
ONE_VISIT = (
    "this map knows one visit: intervals are guesses for another day, and nothing shows how much it"
    " finds then; drive the route once more, and run the same command with both visits in the"
    " folder"
)
USUAL = (
    (
        "add images from elsewhere, which teach the map to reject such images: map build"
        " --elsewhere PLACES"
    ),
    "visit the route once more, in a light or weather that the map does not know",
    "visit places that are not on the map yet: it knows only where you have been",
)


def advise(found: Estimate | None, seen: Survey, *, why_not: str, warnings: int) -> list[str]:
    """Three sentences, the one with the largest gain first. A gain is the share of images that it
    may find.

    `why_not` says why the encoder could not be trained ("": it could). Gains of drives and of
    conditions are measured by `found`. The others are guesses: half of what is missing at most.
    """
    if found is None or len(seen.visits) == 1:
        ideas = [(1.0, ONE_VISIT)]
        missing = 0.5
    else:
        alone, drives = (
            np.array([getattr(one, name) for one in found.visits])
            for name in ("found", "found_in_a_drive")
        )
        missing = float(1 - alone.mean())
        gain = float((drives - alone).mean())
        shares = f"{100 * drives.mean():.0f} % instead of {100 * alone.mean():.0f} % of the images"
        ideas = [(gain, f"locate whole drives, with --sequence: {shares} were found")]
        sure = float(np.mean([one.confident for one in found.visits]))
        if sure < UNSURE and len(seen.visits) > 2 and not len(seen.places.calibration()):
            ideas.append(
                (
                    1 - sure,
                    f"now the map is confident of {100 * sure:.0f} % of single images; {KEEP_OUT}",
                )
            )
        worst = int(alone.argmin())
        if len(alone) > 1:
            gap = float(np.delete(alone, worst).mean() - alone[worst]) / len(alone)
            visit = found.visits[worst]
            what = (
                f"take another visit like {visit.name!r}: a map of the other visits found"
                f" {100 * visit.found:.0f} %"
            )
            ideas.append((gap, f"{what} of its images"))
        ideas.append((missing / (1 + len(alone)), USUAL[1]))
    once = float(np.mean(seen.overlap == 0)) if len(seen.visits) > 1 else 0.0
    ideas.append(
        (
            once / 2,
            f"visit the whole route each time: only one visit saw {100 * once:.0f} % of the images",
        )
    )
    if why_not and len(seen.visits) > 1:
        ideas.append((missing / 2, f"train the encoder, which was not possible: {why_not}"))
    warnings -= len(seen.visits) == 1  # one of them says just that
    if warnings > 0:
        plural = "s" * (warnings > 1)
        ideas.append(
            (
                missing / 3 + ENOUGH,
                f"mend the data: {warnings} warning{plural} of `mappable places check`",
            )
        )
    if seen.spacing * 2 >= seen.positive_radius:
        closer = f"take an image every {seen.positive_radius / 5:.2g} {seen.unit}"
        ideas.append((missing / 4, f"{closer} instead of every {seen.spacing:.2g} {seen.unit}"))
    ordered = [text for gain, text in sorted(ideas, key=lambda one: -one[0]) if gain >= ENOUGH]
    return list(dict.fromkeys([*ordered, *USUAL]))[:3]
