"""`mappable locate MAP IMAGES...`: find where images were taken, in metres, and how reliable each position is."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

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
    check_new,
    encoder_or_descriptors,
    packed_images,
    print_json,
    report_failures,
)
from mappable.cli.output import print_table

if TYPE_CHECKING:
    from mappable.arrays import Floats
    from mappable.localization.location import Location, Outcome
    from mappable.maps.landmarks import Landmarks
    from mappable.places.table import Places

REASONS_SHOWN = 3  # images per kind of reason, below the table


def locate(
    folder: MapFolder,
    images: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="IMAGES...",
            help="Image files, folders of images, or folders written by `mappable convert`. With --descriptors, the "
            "images that the file describes, which are not read (default: all in the file).",
        ),
    ] = None,
    sequence: AsSequence = False,
    coverage: Annotated[
        float | None,
        typer.Option(help="Share of intervals that contain the true distance, from 0 to 1 (default: the map's)."),
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
    """Locate images: print coordinates in the map, the nearest landmark, and the distance to it with an interval.

    A georeferenced map also gives latitude and longitude. If the map is not confident of a position, the output says
    why. An image that cannot be decoded does not stop the others; the exit code is then 3.
    """
    from mappable.exchange.poses import Poses, known_positions, poses_of_locations
    from mappable.exchange.writers import check_outputs, files_of, write_poses
    from mappable.localization.location import NotLocated
    from mappable.localization.map import Map
    from mappable.maps.landmarks import Landmarks
    from mappable.readers.unposed import find_images

    landmarks = Landmarks.open(folder)
    paths = images or []
    if paths:
        places = find_images(paths, landmarks.places.decoding)
    elif descriptors is None:
        raise typer.BadParameter("give image files or folders, or --descriptors FILE", param_hint="IMAGES")
    else:
        places = _described_images(descriptors)
    outputs = out or []
    check_new(overwrite, *files_of(outputs))
    check_outputs(outputs, Poses(landmarks.frame, [], landmarks, places if paths else None))
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
    for sentence in write_poses(outputs, poses_of_locations(landmarks, places, found, pixels, truth)):
        typer.echo(sentence, err=True)
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


def print_locations(opened: "Landmarks", found: "Sequence[Outcome]", true: "Floats | None" = None) -> None:
    """Print one line per image; if the true positions (n, k) are given, also the error of each."""
    from mappable.localization.location import AXES, Location

    axes = [*AXES[: opened.dimensions], *(("latitude", "longitude") if opened.frame.crs else ())]
    located = [one for one in found if isinstance(one, Location)]
    coverage = next((f"{100 * one.coverage:g} % " for one in located if one.coverage is not None), "")
    turned = any(one.heading is not None for one in located)
    axes += ["heading (rad)"] if turned else []
    numbers = [*axes, f"distance to landmark ({opened.unit})", f"{coverage}interval"]
    numbers += [] if true is None else [f"error ({opened.unit})"]
    rows: list[list[str | Text]] = []
    for row, one in enumerate(found):
        if not isinstance(one, Location):
            reason = one.error.removeprefix(f"{one.image}: ")
            rows.append([one.image, *[""] * (len(numbers) + 1), Text(reason, "red")])
            continue
        distance = "" if one.distance is None else f"{one.distance:.1f}"
        interval = "" if one.low is None else f"{one.low:.1f} to {one.high:.1f}"
        status = Text("confident", "green") if one.confident else Text(one.reason.partition(":")[0], "yellow")
        where = [f"{value:.2f}" for value in one.coordinates]
        where += [f"{value:.6f}" for value in (one.latitude, one.longitude) if value is not None]
        where += [] if not turned else ["" if one.heading is None else f"{one.heading:.2f}"]
        error = [] if true is None else [f"{math.dist(one.coordinates, true[row]):.1f}"]
        rows.append([one.image, *where, distance, interval, *error, one.landmark, status])
    print_table(["image", *numbers, "landmark", ""], rows, numbers=numbers)
    _print_reasons(located)
    confident = sum(one.confident for one in located)
    typer.echo(f"confident for {confident:,} of {len(found):,} images; frame {opened.frame.name} ({opened.unit})")


def _print_reasons(located: "Sequence[Location]") -> None:
    """Print below the table why images are not confident: the first images of each kind of reason."""
    kinds: dict[str, list[Location]] = {}
    for one in located:
        if ":" in one.reason:
            kinds.setdefault(one.reason.partition(":")[0], []).append(one)
    for kind, images in kinds.items():
        for one in images[:REASONS_SHOWN]:
            typer.echo(f"{kind}: {one.image}:{one.reason.partition(':')[2]}")
        if len(images) > REASONS_SHOWN:
            typer.echo(f"{kind}: {len(images) - REASONS_SHOWN:,} more images; --json has the reason of each")
