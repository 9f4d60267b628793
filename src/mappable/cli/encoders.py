"""`mappable encoders [ENCODER...]`: list what encoders can be made of, or show size, license and speed of encoders."""

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mappable.cli.common import ENCODER_HELP, AsJson, BackendOption, Device, TrustCode, print_json
from mappable.cli.output import print_table

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder

KINDS = {
    "encoder.safetensors": "trained by `mappable train`; also the folder of a training run or a map",
    "NAME.onnx": "written by `mappable export`",
    "NAME.onnx with NAME.yaml": "any ONNX file; the YAML file describes its images",
    "NAME": "an encoder of others, from the table below",
    "hub:OWNER/REPO:ENTRY": "any torch.hub model; also hub:OWNER/REPO@COMMIT:ENTRY and hub:/FOLDER:ENTRY",
    "--descriptors FILE": "descriptors of any other program",
}
QUERIES, WARM_UP = 20, 3  # images that are described for a time


def encoders(
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="ENCODER...", help=f"Encoders to show. {ENCODER_HELP}")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--time",
            help="Measure the time to describe one image, as the median of 20 images. Without ENCODER, measure all "
            "backbones on images of 240x180 pixels.",
        ),
    ] = False,
    device: Device = "auto",
    backend: BackendOption = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """List weight sets, backbones, aggregators, kinds of encoders and encoders by name; or show the given encoders.

    `mappable weights` fetches weight sets. The page docs/encoders.md explains encoders of others.
    """
    if not sources:
        _list_parts(device, measure, as_json)
        return
    from mappable.maps.encoders import open_encoder

    facts = []
    for source in sources:
        encoder = open_encoder(source, device, backend, trust_code=trust_code)
        facts.append(_facts(source, encoder) | ({"milliseconds": _milliseconds(encoder)} if measure else {}))
    if as_json:
        print_json(facts)
        return
    headings = [*("encoder", "fingerprint", "dimensions", "image", "MB", "license", "device"), *(["ms"] * measure)]
    rows = [[f"{one:,.1f}" if isinstance(one, float) else str(one) for one in row.values()] for row in facts]
    print_table(headings, rows, numbers=("dimensions", "MB", "ms"))


def _list_parts(device: str, measure: bool, as_json: bool) -> None:
    from mappable.features.aggregators import aggregator_names
    from mappable.features.foreign.named import ENCODERS
    from mappable.features.weights import WEIGHT_SETS, cached_file

    backbones = _backbones(device, measure)
    sizes = {name: cached_file(name).stat().st_size if cached_file(name).exists() else None for name in WEIGHT_SETS}
    if as_json:
        sets = [
            {"name": name, "summary": one.summary, "license": one.license, "bytes": sizes[name]}
            for name, one in WEIGHT_SETS.items()
        ]
        parts = {"weights": sets, "backbones": backbones, "aggregators": aggregator_names()}
        named = [asdict(encoder) | {"name": name} for name, encoder in ENCODERS.items()]
        print_json(parts | {"kinds": KINDS, "named": named})
        return
    typer.echo("weight sets (mappable weights SET fetches one):")
    for name, one in WEIGHT_SETS.items():
        size = sizes[name]
        cached = "not in the cache" if size is None else f"{size / 1e6:.1f} MB in the cache"
        typer.echo(f"  {name}: {one.summary}; license: {one.license}; {cached}")
    headings = ["backbone", "MB", *(f"numbers, {name}" for name in aggregator_names()), *(["ms"] * measure)]
    rows = [
        [one["name"], f"{one['megabytes']:.1f}", *(f"{count:,}" for count in one["dimensions"].values())]
        + ([f"{one['milliseconds']:.1f}"] if measure else [])
        for one in backbones
    ]
    print_table(headings, rows, numbers=headings[1:])
    typer.echo("transformers:NAME is a backbone too: a vision model of transformers; `dimensions` shortens descriptors")
    typer.echo("encoders, and descriptors in place of an encoder:")
    for name, meaning in KINDS.items():
        typer.echo(f"  {name}: {meaning}")
    headings = ["name", "image", "numbers", "license", "needs", "run by us"]
    rows = [
        [name, f"{one.side}x{one.side}", f"{one.dimensions:,}", one.license, " ".join(one.needs), "no"]
        for name, one in ENCODERS.items()
    ]
    print_table(headings, rows, numbers=("numbers",))
    typer.echo(best_sentence())


def best_sentence() -> str:
    """One sentence about the best encoder by name that this machine can fetch."""
    from mappable.features.foreign.named import best_at_hand

    best = best_at_hand()
    if best is None:
        return "No encoder by name is in the cache, and GitHub cannot be reached."
    return f"Best for unseen places, of those that this machine can fetch: --encoder {best} (not run by us)"


def _backbones(device: str, measure: bool) -> list[dict[str, Any]]:
    """Size, length of descriptors with 64 clusters and, if asked for, speed of each backbone, with random weights."""
    from dataclasses import replace

    import torch

    from mappable.features.aggregators import aggregator_names, find_aggregator
    from mappable.features.backbones import backbone_names
    from mappable.features.devices import find_device
    from mappable.features.encoder import RANDOM_WEIGHTS, Encoder

    facts = []
    for name in backbone_names():
        with nullcontext() if measure else torch.device("meta"):  # without memory, if only sizes are needed
            encoder = Encoder.create(weights=RANDOM_WEIGHTS, backbone=name)
            dimensions = {
                kind: find_aggregator(kind)(encoder.backbone.channels, encoder.about.clusters).dimensions
                for kind in aggregator_names()
            }
        size = sum(tensor.nbytes for tensor in encoder.backbone.parameters())
        one = {"name": name, "megabytes": size / 1e6, "dimensions": dimensions}
        if measure:
            encoder.about = replace(encoder.about, init_source=RANDOM_WEIGHTS)
            one["milliseconds"] = _milliseconds(encoder.to(find_device(device)))
        facts.append(one)
    return facts


def _facts(source: str, encoder: "ImageEncoder") -> dict[str, Any]:
    from mappable.features.foreign.encoder import ForeignEncoder
    from mappable.maps.encoders import find_encoder

    foreign = isinstance(encoder, ForeignEncoder)
    size = encoder.weight_bytes if isinstance(encoder, ForeignEncoder) else Path(find_encoder(source)).stat().st_size
    width, height = encoder.about.size
    return {
        "encoder": source,
        "fingerprint": encoder.fingerprint,
        "dimensions": encoder.dimensions,
        "image": f"{width}x{height}",
        "megabytes": size / 1e6,
        "license": encoder.about.foreign["license"] if foreign else f"yours; started from {encoder.about.weights}",
        "device": str(encoder.device),
    }


def _milliseconds(encoder: "ImageEncoder") -> float:
    """Median time to describe one image that is already decoded."""
    import time

    import numpy as np

    width, height = encoder.about.size
    images = np.random.default_rng(0).integers(0, 256, (1, height, width, 3), dtype=np.uint8)
    describe, seconds = encoder.for_queries(), []
    for _ in range(WARM_UP + QUERIES):
        start = time.perf_counter()
        describe(images)
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds[WARM_UP:]))
