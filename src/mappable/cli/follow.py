"""`mappable follow MAP SOURCE...`: follow a camera along images as they come, with odometry if there is any."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import (
    Device,
    EncoderFile,
    MapFolder,
    Outputs,
    OverwriteFiles,
    check_out,
    report_failures,
    write_out,
)
from mappable.errors import BadInputError, MappableError

if TYPE_CHECKING:
    from mappable.localization.feeds import FeedImage
    from mappable.localization.localizer import Estimate, Localizer
    from mappable.odometry import Track

SAVE_SECONDS = 1.0  # longest time between two writes of the state
ROUNDING = 1e-6  # seconds; times are floating-point numbers
POSE = ("position", "covariance", "heading", "heading_deviation")


def follow(
    folder: MapFolder,
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help=(
                "A folder of images, a video, a camera (/dev/video0, on Linux), a folder of one"
                " drive, or images."
            ),
        ),
    ],
    odometry: Annotated[
        Path | None,
        typer.Option(
            help="The robot's motion: a TUM file, or a table (.csv, .parquet) with time,x,y,yaw or "
            "time,forward,left,turn. Its times are on the clock of the images.",
            metavar="FILE",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            help=(
                "Seconds to wait for the next image in a folder that grows; inf waits until Ctrl-C."
            ),
            min=0.0,
        ),
    ] = 0.0,
    every: Annotated[
        float,
        typer.Option(
            help="Smallest time in seconds between two images; others are skipped.", min=0.0
        ),
    ] = 0.0,
    state: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps what is remembered; if it exists, go on from there.",
            metavar="FILE",
        ),
    ] = None,
    every_pose: Annotated[
        bool, typer.Option("--all", help="Also print poses that are not trusted.")
    ] = False,
    out: Outputs = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    overwrite: OverwriteFiles = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON per image.")
    ] = False,
) -> None:
    """Follow a camera: print one line per image, with its pose as soon as the map is sure of it.

    The time of an image is the number that is its file name, in seconds; otherwise, images are
    numbered. An image that cannot be used does not stop the others; the exit code is then 3.
    """
    from mappable.exchange.poses import Poses, poses_of_estimates
    from mappable.interruption import held_back
    from mappable.localization.feeds import feed
    from mappable.localization.localizer import Localizer
    from mappable.localization.map import open_map
    from mappable.locks import alone_with
    from mappable.odometry import read_track

    outputs = out or []
    opened = open_map(folder, encoder=encoder, device=device)
    landmarks = opened.landmarks
    check_out(outputs, Poses(landmarks.frame, [], landmarks), overwrite)
    track = None if odometry is None else read_track(odometry)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    recorded: list[Estimate] = []
    images: list[str | Path] = []
    times: list[float] = []
    with (
        alone_with(state) if state else nullcontext(),
        held_back(say="stopping after this image") as stopped,
    ):
        localizer = Localizer(opened)
        if state and state.exists():
            localizer.load(state)
        saved = time.monotonic()
        source_images = takewhile(
            lambda _: not stopped(), _readable(feed(source, wait, stopped), failures)
        )
        for image, estimate in _estimates(localizer, track, every, source_images, counts, failures):
            typer.echo(_json(estimate, every_pose) if as_json else _line(estimate, every_pose))
            times[1:] = [image.time]  # the first and the last one
            if outputs:
                recorded.append(estimate)
                images.append(image.image if isinstance(image.image, Path) else image.name)
            if state and time.monotonic() - saved >= SAVE_SECONDS:
                localizer.save(state)
                saved = time.monotonic()
        if not counts:
            raise BadInputError(f"{source[0]}: no images came")
        if track is not None and counts["moves"] < counts["steps"]:
            if not counts["moves"]:
                raise track.unmet(times[0], times[-1])
            covered = f"covers {counts['moves']:,} of {counts['steps']:,} steps between images"
            typer.echo(f"warning: {track.file} {covered}", err=True)
        if state:
            localizer.save(state)
        write_out(outputs, poses_of_estimates(landmarks, recorded, images))
    if skipped := counts["skipped"]:
        typer.echo(
            f"note: skipped {skipped:,} images that are not later than the saved state", err=True
        )
    trusted = f"trusted for {counts['trusted']:,} of {counts['images']:,} images"
    typer.echo(f"{trusted}; frame {landmarks.frame.name}", err=True)
    report_failures(failures)


def _readable(images: "Iterator[FeedImage]", failures: list[str]) -> "Iterator[FeedImage]":
    """The images. If the source fails after some of them, note why and end: what came before
    counts.
    """
    yield next(images)
    try:
        yield from images
    except BadInputError as error:
        failures.append(str(error))


def _estimates(
    localizer: "Localizer",
    track: "Track | None",
    every: float,
    images: "Iterator[FeedImage]",
    counts: "Counter[str]",
    failures: list[str],
) -> "Iterator[tuple[FeedImage, Estimate]]":
    """The images that can be used, with their estimates; counts images and the steps between them."""
    resumed = localizer.time
    for image in images:
        last = localizer.time
        if resumed is not None and image.time <= resumed:
            counts["skipped"] += 1
            continue
        if last is not None and last <= image.time < last + every - ROUNDING:
            continue
        counts["images"] += 1
        motion = None
        if track is not None and last is not None and image.time > last:
            motion = track.between(last, image.time)
            counts["steps"] += 1
            counts["moves"] += motion is not None
        try:
            estimate = localizer.update(image.image, image.time, motion)
        except MappableError as error:
            failures.append(str(error))
            continue
        counts["trusted"] += estimate.trusted
        yield image, estimate


def _line(estimate: "Estimate", every_pose: bool) -> str:
    where = ""
    if estimate.trusted or every_pose:
        where = " ".join(f"{value:.2f}" for value in estimate.position)
        where += "" if estimate.heading is None else f" heading {estimate.heading:.2f} rad"
        where = f"  {where}"
    return f"{estimate.time:.3f}  {estimate.state}{where}  {estimate.reason or 'trusted'}"


def _json(estimate: "Estimate", every_pose: bool) -> str:
    values = asdict(estimate)
    if not estimate.trusted and not every_pose:
        values |= dict.fromkeys(POSE)
    return json.dumps(values)
