"""`mappable map estimate PLACES`: what a map of the images will do on another visit, with intervals."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import ENCODER_HELP, AsJson, DescriptorsFile, Device, Table, TrustCode, print_json
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.arrays import Ints
    from mappable.features.descriptors import Described
    from mappable.localization.estimate import Estimate
    from mappable.places.table import Places


def estimate(
    table: Table,
    encoder: Annotated[
        str | None, typer.Option(help=f"Required unless --descriptors is given. {ENCODER_HELP}", metavar="FILE")
    ] = None,
    descriptors: DescriptorsFile = None,
    within: Annotated[
        float | None,
        typer.Option(help="Distance within which an image counts as found (default: from the spacing of the images)."),
    ] = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Estimate what a map of the images will do on another visit.

    Each visit (sequence) is left out in turn, and located in a map of the others. The value of another visit is in the
    stated interval with a probability of 90 %, if it is like the visits so far.

    An encoder that `mappable train` trained is judged on the images that it held out.
    """
    from mappable.cli.common import load_some_places, packed_or_files
    from mappable.features.descriptors import Described, read_descriptors
    from mappable.maps.encoders import open_encoder

    places = load_some_places(table)
    if descriptors is not None:
        described = read_descriptors(descriptors, places)
    elif encoder is None:
        raise BadInputError("an estimate needs an encoder or descriptors: give --encoder FILE or --descriptors FILE")
    else:
        loaded = open_encoder(encoder, device, trust_code=trust_code)
        images = packed_or_files(table, places, loaded)
        described = Described(places, loaded.embed(images), loaded.fingerprint, loaded.about)
    folder = Path(encoder) if encoder is not None and Path(encoder).is_dir() else None
    found = estimate_of(described, within, folder)
    if as_json:
        print_json(asdict(found))
    else:
        print_estimate(found)


def estimate_of(described: "Described", within: float | None, model: Path | None) -> "Estimate":
    """The estimate for all visits, or for the rows that the encoder in the folder `model` held out of training."""
    from mappable.localization.estimate import estimate as estimate_visits
    from mappable.places.survey import survey

    places = described.places
    if len(set(places.frame)) > 1:
        raise BadInputError("the places are in several frames; an estimate needs one frame, as a map does")
    radius = within or (described.about.positive_radius if described.about else None)
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
        raise BadInputError(f"{problem}; keep one visit out: mappable places split PLACES --calibration SEQUENCE")
    return unseen


def print_estimate(found: "Estimate") -> None:
    """Print each left-out visit, and what to expect of another visit."""
    import numpy as np

    from mappable.cli.output import print_table
    from mappable.localization.estimate import PROBABILITY

    unit = found.unit
    headings = ["images", f"found within {found.radius:g} {unit}, %", "found in a drive, %", f"median error, {unit}"]
    headings += ["confident, %", "confident and right, %", "intervals that hold, %"]
    rows = [
        [
            one.name,
            f"{one.queries:,}",
            *(f"{100 * value:.1f}" for value in (one.found, one.found_in_a_drive)),
            f"{one.median_error:.2f}",
            *("" if np.isnan(value) else f"{100 * value:.1f}" for value in (one.confident, one.right, one.coverage)),
        ]
        for one in found.visits
    ]
    print_table(("left-out visit", *headings), rows, numbers=headings)
    if found.source != "own visit" and all(one.source == "own visit" for one in found.visits):
        typer.echo(
            "the map of all visits is calibrated on another visit: it is confident of more images than these maps"
        )
    typer.echo(f"on another visit like these, expect (with a probability of {100 * PROBABILITY:.0f} % each):")
    for one in found.expected:
        if one.name == "median error":
            typer.echo(f"  {one.name}: {one.value:.2g} {unit} ({one.low:.2g} to {one.high:.2g} {unit})")
        else:
            typer.echo(f"  {one.name}: {100 * one.value:.0f} % ({100 * one.low:.0f} to {100 * one.high:.0f} %)")


def describe_places(model: Path, table: Path, out: Path, places: "Places", device: str) -> "Described":
    """The descriptors of all places, from the folder `out` if it has those of this encoder, else computed and kept."""
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
    write_descriptors(out, places, made, encoder.about, encoder.fingerprint, encoder.actual_precision("auto"))
    return Described(places, made, encoder.fingerprint, encoder.about)
