"""`mappable embed ENCODER PLACES OUT`: compute descriptors of images, for NumPy or for hloc."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from mappable.cli.common import (
    AsJson,
    BackendOption,
    Device,
    EncoderSource,
    OnlySplit,
    Overwrite,
    Table,
    TrustCode,
    check_new,
    print_json,
)
from mappable.errors import BadInputError


def embed(
    source: EncoderSource,
    table: Table,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to write; with --format hloc, a file with the suffix .h5.")
    ],
    file_format: Annotated[
        Literal["npy", "hloc"],
        typer.Option(
            "--format", help="npy: descriptors.npy and places.parquet in the same order; hloc: one HDF5 file."
        ),
    ] = "npy",
    split: OnlySplit = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Images per batch (default: 256 on a GPU, else 32).", min=1)
    ] = None,
    device: Device = "auto",
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        typer.Option(help="Precision of the convolutions; auto: bfloat16 if the device supports it. Not for .onnx."),
    ] = "auto",
    backend: BackendOption = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Use a Ray cluster: local (this machine), ray://HOST:10001 or HOST:6379. OUT gets Parquet shards. "
            "All machines must see the encoder, the images and OUT under the same paths.",
            metavar="CLUSTER",
        ),
    ] = None,
    trust_code: TrustCode = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compute the descriptors of images: one vector of unit length per image.

    Reads packed pixels if PLACES has them in the encoder's size, else the image files. If ENCODER is a map
    of raw images, images with one channel are decoded like those of the map.

    With --on, the workers of a Ray cluster read the image files, and each writes shards of about 1,024 images. If
    workers or machines fail, others do their work. The same command continues a job that was stopped.
    """
    from mappable.features.export import (
        ABOUT,
        DESCRIPTORS,
        check_folder,
        check_hloc,
        write_descriptors,
        write_hloc,
        write_sharded,
    )
    from mappable.maps.encoders import decoding_of, find_encoder, open_encoder
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places

    (check_hloc if file_format == "hloc" else check_folder)(out)
    if on and file_format == "hloc":
        raise BadInputError("--on writes Parquet shards, not hloc's file: give --on or --format hloc")
    check_new(overwrite, *([out] if file_format == "hloc" else [out / DESCRIPTORS, out / ABOUT]))
    places = load_places(table).decoded_as(decoding_of(source))
    if split is not None:
        listed = ", ".join(sorted(name or "none" for name in set(places.split)))
        places = places.where(split=split)
        if not len(places):
            raise BadInputError(f"{table}: no place has the split {split!r}; the splits of the table are: {listed}")
    encoder = open_encoder(source, device, backend, trust_code=trust_code)
    images = None if on else find_packed(table, places, encoder.about.size, encoder.about.fit)
    start, fingerprint = time.perf_counter(), encoder.fingerprint
    if on:
        from mappable.features.on_ray import embed_on_ray

        shards, computed = embed_on_ray(
            on, encoder, find_encoder(source), places, out,
            device=device, batch_size=batch_size, precision=precision, backend=backend, trust_code=trust_code,
        )  # fmt: skip
        rate = len(places) / (time.perf_counter() - start)
        write_sharded(out, places, shards, encoder.about, fingerprint, encoder.dimensions, computed)
    else:
        descriptors = encoder.embed(places if images is None else images, batch_size=batch_size, precision=precision)
        rate = len(places) / (time.perf_counter() - start)
        if file_format == "hloc":
            write_hloc(out, places, descriptors)
        else:
            write_descriptors(out, places, descriptors, encoder.about, fingerprint, encoder.actual_precision(precision))
    if as_json:
        facts = {"descriptors": len(places), "dimensions": encoder.dimensions, "encoder": fingerprint}
        print_json(facts | {"packed": images is not None, "device": str(encoder.device), "images_per_second": rate})
        return
    typer.echo(f"{len(places):,} descriptors of {encoder.dimensions:,} numbers, computed by encoder {fingerprint}")
    typer.echo(
        f"from {'image files' if images is None else 'packed pixels'} on {on or encoder.device}, {rate:,.1f} images/s"
    )
    typer.echo(f"written to {out}")
