"""`mappable embed ENCODER PLACES OUT`: compute descriptors of images, for NumPy or for hloc."""

import shutil
import time
from pathlib import Path
from typing import Annotated

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
)
from mappable.cli.output import print_record
from mappable.errors import BadInputError


def embed(
    source: EncoderSource,
    table: Table,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help=(
                "Folder for descriptors.npy and places.parquet in the same order; or FILE.h5, one"
                " HDF5 file for hloc."
            ),
        ),
    ],
    split: OnlySplit = None,
    device: Device = "auto",
    backend: BackendOption = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Use a Ray cluster: local (this machine), ray://HOST:10001 or HOST:6379. "
            "All machines must see the encoder, the images and OUT under the same paths.",
            metavar="CLUSTER",
        ),
    ] = None,
    trust_code: TrustCode = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compute the descriptors of images: one vector of unit length per image.

    Reads packed pixels if PLACES has them in the encoder's size, else the image files. If ENCODER
    is a map of raw images, images with one channel are decoded like those of the map.

    With --on, the workers of a Ray cluster read the image files, and each writes shards of about
    1,024 images. If workers or machines fail, others do their work. The same command continues a
    job that was stopped.
    """
    from mappable.features.export import (
        ABOUT,
        DESCRIPTORS,
        check_folder,
        check_hloc,
        write_descriptors,
        write_hloc,
    )
    from mappable.maps.encoders import decoding_of, find_encoder, open_encoder
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places

    for_hloc = out.suffix == ".h5"
    (check_hloc if for_hloc else check_folder)(out)
    if on and for_hloc:
        raise BadInputError(f"{out}: --on writes no hloc file: give a folder, or leave --on out")
    check_new(overwrite, *([out] if for_hloc else [out / DESCRIPTORS, out / ABOUT]))
    places = load_places(table).decoded_as(decoding_of(source))
    if split is not None:
        listed = ", ".join(sorted(name or "none" for name in set(places.split)))
        places = places.where(split=split)
        if not len(places):
            raise BadInputError(
                f"{table}: no place has the split {split!r}; the splits of the table are: {listed}"
            )
    encoder = open_encoder(source, device, backend, trust_code=trust_code)
    images = None if on else find_packed(table, places, encoder.about.size, encoder.about.fit)
    start, fingerprint = time.perf_counter(), encoder.fingerprint
    if on:
        from mappable.features.on_ray import embed_on_ray

        descriptors, computed = embed_on_ray(
            on,
            encoder,
            find_encoder(source),
            places,
            out,
            device=device,
            backend=backend,
            trust_code=trust_code,
        )
    else:
        descriptors = encoder.embed(places if images is None else images)
        computed = encoder.actual_precision("auto")
    facts = {
        "descriptors": len(places),
        "dimensions": encoder.dimensions,
        "encoder": fingerprint,
        "packed": images is not None,
        "device": on or str(encoder.device),
        "images_per_second": len(places) / (time.perf_counter() - start),
        "out": str(out),
    }
    if for_hloc:
        write_hloc(out, places, descriptors)
    else:
        write_descriptors(out, places, descriptors, encoder.about, fingerprint, computed)
    for shards in out.glob("shards-*") if on else ():
        shutil.rmtree(shards)
    print_record(facts, as_json)
