"""`mappable locate MAP IMAGES...`: find where images were taken, in metres, and how reliable each position is."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import (
    AsJson,
    AsSequence,
    BackendOption,
    DescriptorsFile,
    Device,
    EncoderFile,
    Fingerprint,
    MapFolder,
    Outputs,
    OverwriteFiles,
    TrustCode,
    check_out,
    encoder_or_descriptors,
    packed_images,
    report_failures,
    write_out,
)
from mappable.cli.output import print_json, print_records

if TYPE_CHECKING:
    from mappable.arrays import Floats
    from mappable.localization.location import Location, Outcome
    from mappable.maps.landmarks import Landmarks
    from mappable.places.table import Places


def locate(
    folder: MapFolder,
    images: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="IMAGES...",
            help=(
                "Image files, folders of images, or folders written by `mappable convert`. With"
                " --descriptors, the "
                "images that the file describes, which are not read (default: all in the file)."
            ),
        ),
    ] = None,
    sequence: AsSequence = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            help=(
                "Share of intervals that contain the true distance, from 0 to 1 (default: the"
                " map's)."
            )
        ),
    ] = None,
    out: Outputs = None,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    backend: BackendOption = None,
    trust_code: TrustCode = False,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Locate images: print coordinates in the map, the nearest landmark, and the distance to it
    with an interval.

    A georeferenced map also gives latitude and longitude. If the map is not confident of a
    position, the output says why. An image that cannot be decoded does not stop the others; the
    exit code is then 3.
    """
    from mappable.exchange.poses import Poses, known_positions, poses_of_locations
    from mappable.localization.location import NotLocated
    from mappable.localization.map import Map
    from mappable.maps.landmarks import Landmarks
    from mappable.readers.unposed import find_images

    landmarks = Landmarks.open(folder)
    paths = images or []
    if paths:
        places = find_images(paths, landmarks.places.decoding)
    elif descriptors is None:
        raise typer.BadParameter(
            "give image files or folders, or --descriptors FILE", param_hint="IMAGES"
        )
    else:
        places = _described_images(descriptors)
    outputs = out or []
    check_out(outputs, Poses(landmarks.frame, [], landmarks, places if paths else None), overwrite)
    loaded = encoder_or_descriptors(
        landmarks,
        places,
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        backend=backend,
        trust_code=trust_code,
    )
    opened = Map(landmarks, loaded)
    pixels = packed_images(paths[0], places, loaded) if len(paths) == 1 else None
    located = opened.locate_drive if sequence else opened.locate_all
    found = located(places, pixels=pixels, coverage=coverage)
    truth = known_positions(landmarks, places, paths)
    write_out(outputs, poses_of_locations(landmarks, places, found, pixels, truth))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print_locations(landmarks, found)
    report_failures([one.error for one in found if isinstance(one, NotLocated)])


def _described_images(file: Path) -> "Places":
    """The images of a descriptor file: those of its table, or numbers for the rows of an .npy file."""
    from mappable.containers import read_npy
    from mappable.features.descriptors import read_descriptors
    from mappable.readers.unposed import numbered_images

    if file.suffix == ".npy" and file.is_file():
        return numbered_images(len(read_npy(file, mapped=True)))
    return read_descriptors(file).places


def print_locations(
    landmarks: "Landmarks", outcomes: "Sequence[Outcome]", true: "Floats | None" = None
) -> None:
    """Print one line per image; if the true positions (n, k) are given, also the error of each."""
    from mappable.exchange.tables import AXES, cells
    from mappable.localization.location import Location

    located = [outcome for outcome in outcomes if isinstance(outcome, Location)]
    columns = (
        "image",
        *AXES,
        "latitude",
        "longitude",
        "heading",
        "distance",
        "low",
        "high",
        "landmark",
        "confident",
    )
    rows = []
    for number, outcome in enumerate(outcomes):
        known = cells(asdict(outcome))
        row = {name: known.get(name, "") for name in columns}
        if isinstance(outcome, Location):
            row |= {
                name: f"{row[name]:.6f}" for name in ("latitude", "longitude") if row[name] != ""
            }
            row["not confident"] = outcome.reason.partition(":")[0]
            row["true error"] = "" if true is None else math.dist(outcome.coordinates, true[number])
        rows.append(row | {"problem": outcome.error})
    print_records(rows)
    _print_reasons(located)
    confident = sum(location.confident for location in located)
    frame = f"frame {landmarks.frame.name} ({landmarks.unit})"
    typer.echo(f"confident for {confident:,} of {len(outcomes):,} images; {frame}")


def _print_reasons(located: "Sequence[Location]") -> None:
    """Print below the table why images are not confident: the first image of each kind of reason."""
    kinds = Counter(location.reason.partition(":")[0] for location in reversed(located))
    first = {
        location.reason.partition(":")[0]: location
        for location in reversed(located)
        if location.reason
    }
    for kind, location in first.items():
        typer.echo(f"{kinds[kind]:,} not confident, such as {location.image}: {location.reason}")
