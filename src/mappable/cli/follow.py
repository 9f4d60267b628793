"""`mappable follow MAP SOURCE...`: follow a camera along images as they come, with odometry if there is any."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import (
    BackendOption,
    Device,
    EncoderFile,
    MapFolder,
    Outputs,
    OverwriteFiles,
    check_new,
    report_failures,
)
from mappable.errors import BadInputError, MappableError

if TYPE_CHECKING:
    from mappable.localization.feeds import FeedImage
    from mappable.localization.localizer import Estimate

SAVE_SECONDS = 1.0  # longest time between two writes of the state
ROUNDING = 1e-6  # seconds; times are floating-point numbers
POSE = ("position", "covariance", "heading", "heading_deviation")


def follow(
    folder: MapFolder,
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="A folder of images, a video, a camera (/dev/video0, on Linux), a folder of one drive, or images.",
        ),
    ],
    odometry: Annotated[
        Path | None,
        typer.Option(
            help="Table of the robot's motion (.csv, .parquet): time,x,y,yaw or time,forward,left,turn. Its times are "
            "on the clock of the images.",
            metavar="FILE",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            help="Seconds to wait for the next image in a folder that grows; inf waits until Ctrl-C.", min=0.0
        ),
    ] = 0.0,
    every: Annotated[
        float, typer.Option(help="Smallest time in seconds between two images; others are skipped.", min=0.0)
    ] = 0.0,
    state: Annotated[
        Path | None,
        typer.Option(help="File that keeps what is remembered; if it exists, go on from there.", metavar="FILE"),
    ] = None,
    every_pose: Annotated[bool, typer.Option("--all", help="Also print poses that are not trusted.")] = False,
    out: Outputs = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    backend: BackendOption = None,
    overwrite: OverwriteFiles = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per image.")] = False,
) -> None:
    """Follow a camera: print one line per image, with its pose as soon as the map is sure of it.

    The time of an image is the number that is its file name, in seconds; otherwise, images are numbered. An image that
    cannot be used does not stop the others; the exit code is then 3.
    """
    from mappable.exchange.poses import Poses, poses_of_estimates
    from mappable.exchange.writers import check_outputs, files_of, write_poses
    from mappable.interruption import held_back
    from mappable.localization.feeds import feed
    from mappable.localization.localizer import Localizer
    from mappable.localization.map import open_map
    from mappable.odometry import read_track

    outputs = out or []
    check_new(overwrite, *files_of(outputs))
    opened = open_map(folder, encoder=encoder, device=device, backend=backend)
    check_outputs(outputs, Poses(opened.landmarks.frame, [], opened.landmarks))
    localizer = Localizer(opened)
    track = None if odometry is None else read_track(odometry).flat()
    if state is not None and state.exists():
        localizer.load(state)
    resumed, skipped, trusted, images, saved = localizer.time, 0, 0, 0, time.monotonic()
    failures: list[str] = []
    recorded: list[Estimate] = []
    recorded_images: list[str | Path] = []
    with held_back(say="stopping after this image") as stopped:
        for one in _noted(feed(source, wait, stopped), failures):
            if stopped():
                break
            if resumed is not None and one.time <= resumed:
                skipped += 1
                continue
            last = localizer.time
            if last is not None and last <= one.time < last + every - ROUNDING:
                continue
            images += 1
            motion = None
            if track is not None and last is not None and one.time > last:
                motion = track.between(last, one.time)
            try:
                found = localizer.update(one.image, one.time, motion)
            except MappableError as error:
                failures.append(str(error))
                continue
            trusted += found.trusted
            if outputs:
                recorded.append(found)
                recorded_images.append(one.name if not isinstance(one.image, Path) else one.image)
            typer.echo(_json(found, every_pose) if as_json else _line(found, every_pose))
            if state is not None and time.monotonic() - saved >= SAVE_SECONDS:
                localizer.save(state)
                saved = time.monotonic()
        if state is not None:
            localizer.save(state)
        for sentence in write_poses(outputs, poses_of_estimates(opened.landmarks, recorded, recorded_images)):
            typer.echo(sentence, err=True)
    if skipped:
        typer.echo(f"note: skipped {skipped:,} images that are not later than the saved state", err=True)
    if not images and not skipped:
        raise BadInputError(f"{source[0]}: no images came")
    typer.echo(f"trusted for {trusted:,} of {images:,} images; frame {opened.landmarks.frame.name}", err=True)
    report_failures(failures)


def _noted(images: Iterator["FeedImage"], failures: list[str]) -> Iterator["FeedImage"]:
    """The images. If the source fails after some of them, note why and end: what came before counts."""
    count = 0
    try:
        for one in images:
            count += 1
            yield one
    except BadInputError as error:
        if not count:
            raise
        failures.append(str(error))


def _line(found: "Estimate", every_pose: bool) -> str:
    where = ""
    if found.trusted or every_pose:
        where = " ".join(f"{value:.2f}" for value in found.position)
        where += "" if found.heading is None else f" heading {found.heading:.2f} rad"
        where = f"  {where}"
    return f"{found.time:.3f}  {found.state}{where}  {found.reason or 'trusted'}"


def _json(found: "Estimate", every_pose: bool) -> str:
    values = asdict(found)
    if not found.trusted and not every_pose:
        values |= dict.fromkeys(POSE)
    return json.dumps(values)
