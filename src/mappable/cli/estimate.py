"""What a map of the images will do on another visit, with intervals: `mappable map build --estimate` and `start`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.arrays import Ints
    from mappable.features.descriptors import Described
    from mappable.localization.estimate import Estimate
    from mappable.places.table import Places


def estimate_of(described: "Described", model: Path | None) -> "Estimate":
    """The estimate for all visits, or for the rows that the encoder in the folder `model` held out
    of training.
    """
    from mappable.localization.estimate import estimate as estimate_visits
    from mappable.places.survey import survey

    places = described.places
    if len(set(places.frame)) > 1:
        raise BadInputError(
            "the places are in several frames; an estimate needs one frame, as a map does"
        )
    radius = described.about.positive_radius if described.about else None
    return estimate_visits(
        described,
        survey(places).positive_radius if radius is None else radius,
        _rows_not_trained(described, model),
        encoder=None if described.encoder else "unnamed",
    )


def _rows_not_trained(described: "Described", model: Path | None) -> "Ints | None":
    """Rows that did not train the encoder; None if it was not trained at all."""
    import numpy as np

    from mappable.learning.choosing import held_out

    about, places = described.about, described.places
    if about is None or not about.sequences or about.settings.get("iterations") == 0:
        return None
    held = None if model is None else held_out(model)
    if held is not None:
        return np.flatnonzero(np.isin(places.place_id.astype(str), held))
    unseen = np.flatnonzero([name not in about.sequences for name in places.sequence])
    if not len(unseen):
        problem = "the encoder was trained on all visits, so an estimate would be too good"
        raise BadInputError(
            f"{problem}; keep one visit out: mappable places split PLACES --calibration SEQUENCE"
        )
    return unseen


def print_estimate(estimate: "Estimate") -> None:
    """Print each left-out visit, and what to expect of another visit."""
    from mappable.cli.output import print_records
    from mappable.localization.estimate import PROBABILITY

    typer.echo(f"found means: within {estimate.radius:g} {estimate.unit}; shares are from 0 to 1")
    print_records(
        [asdict(visit) for visit in estimate.visits], title="visits, each in a map of the others"
    )
    if estimate.source != "own visit" and all(
        visit.source == "own visit" for visit in estimate.visits
    ):
        calibrated = "the map of all visits is calibrated on another visit"
        typer.echo(f"{calibrated}: it is confident of more images than these maps")
    typer.echo(
        f"on another visit like these, expect (with a probability of {100 * PROBABILITY:.0f} %"
        " each):"
    )
    for expected in estimate.expected:
        scale, digits, unit = (
            (1, ".2g", estimate.unit) if expected.name == "median error" else (100, ".0f", "%")
        )
        value, low, high = (
            f"{scale * number:{digits}}" for number in (expected.value, expected.low, expected.high)
        )
        typer.echo(f"  {expected.name}: {value} {unit} ({low} to {high} {unit})")


def describe_places(
    model: Path, table: Path, out: Path, places: "Places", device: str
) -> "Described":
    """The descriptors of all places, from the folder `out` if it has those of this encoder, else
    computed and kept.
    """
    from mappable.features.descriptors import Described, read_descriptors
    from mappable.features.export import write_descriptors
    from mappable.maps.encoders import open_encoder
    from mappable.places.cache import find_packed

    encoder = open_encoder(str(model), device)
    try:
        described = read_descriptors(out, places)
        if described.encoder == encoder.fingerprint:
            return described
    except BadInputError:
        pass  # not there yet, or of other images
    images = find_packed(table, places, encoder.about.size, encoder.about.fit)
    made = encoder.embed(places if images is None else images)
    write_descriptors(
        out, places, made, encoder.about, encoder.fingerprint, encoder.actual_precision("auto")
    )
    return Described(places, made, encoder.fingerprint, encoder.about)
