"""`mappable map`: build, show, change and verify maps of landmarks."""

from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import (
    AsJson,
    DescriptorsFile,
    Device,
    EncoderFile,
    Fingerprint,
    MapFolder,
    OnlySplit,
    OverwriteFiles,
    Table,
    TrustCode,
    check_new,
    encoder_or_descriptors,
    load_some_places,
    packed_or_files,
    warn_if_paths_changed,
)
from mappable.cli.map_build import build
from mappable.cli.output import print_map, print_record
from mappable.errors import BadInputError

app = typer.Typer(
    name="map", help="Build, show, change and verify maps of landmarks.", no_args_is_help=True
)
app.command()(build)


@app.command()
def show(
    folder: MapFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Also write the landmarks' descriptors for hloc: one HDF5 group per image path,"
                " float32, unit length."
            ),
            metavar="FILE.h5",
        ),
    ] = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Show the landmarks, the encoder and the calibration of a map, with warnings about them."""
    from mappable.maps.landmarks import Landmarks

    if out is None:
        print_map(Landmarks.open(folder), as_json)
        return
    from mappable.exchange.hloc import write_landmarks
    from mappable.features.export import check_hloc

    check_hloc(out)
    check_new(overwrite, out)
    opened = Landmarks.verify(folder)
    write_landmarks(out, opened)
    print_map(opened, as_json)
    typer.echo(
        f"{len(opened):,} descriptors of {opened.store.dimensions:,} numbers written to {out}",
        err=True,
    )


@app.command()
def add(
    folder: MapFolder,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="PLACES",
            help=(
                "Folder written by `mappable convert`, a table of places, or another map to merge."
            ),
        ),
    ],
    split: OnlySplit = None,
    sequence: Annotated[
        str | None, typer.Option(help="Use only the places of this sequence (default: all).")
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(
            help="Add one place per METRES along each sequence (default: all places).",
            metavar="METRES",
        ),
    ] = None,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Add landmarks at known positions, for example in a new wing of a building; no training is
    needed.

    PLACES can be another map with the same encoder and frame: all of its landmarks are added, and
    it does not change. The calibration does not change: it is still that of the earlier landmarks.
    If the command is killed, the map stays as it was.
    """
    from mappable.localization.build import choose
    from mappable.maps.folder import MAP
    from mappable.maps.landmarks import Landmarks

    opened = Landmarks.verify(folder)
    if (table / MAP).is_file():
        merged = opened.merge(Landmarks.verify(table))
        print_map(merged.save(folder), as_json)
        warn_if_paths_changed(opened, merged)
        return
    # The notes describe the whole collection.
    table_places = load_some_places(table).replace(notes=())
    filters = {
        name: value
        for name, value in (("split", split), ("sequence", sequence))
        if value is not None
    }
    places = table_places.decoded_as(opened.places.decoding).where(**filters)
    if not len(places):
        wanted = ", ".join(f"{name} {value!r}" for name, value in filters.items())
        raise BadInputError(
            f"{table}: no place has {wanted}; `mappable places show` lists the names"
        )
    places = places[choose(places, spacing=spacing, every=spacing is None)]
    loaded = encoder_or_descriptors(
        opened,
        table_places,
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        trust_code=trust_code,
    )
    grown = opened.add(
        places, loaded.embed(packed_or_files(table, places, loaded)), loaded.fingerprint
    )
    print_map(grown.save(folder), as_json)
    warn_if_paths_changed(opened, grown)


@app.command()
def calibrate(
    folder: MapFolder,
    table: Table,
    split: OnlySplit = None,
    coverage: Annotated[
        float, typer.Option(help="Share of intervals that contain the true distance, from 0 to 1.")
    ] = 0.9,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Calibrate a map on another drive at known positions: intervals and `confident` then fit such
    drives.

    The landmarks do not change.
    """
    from mappable.localization.fitting import calibrate as fit
    from mappable.maps.landmarks import Landmarks

    opened = Landmarks.verify(folder)
    places = load_some_places(table).replace(notes=()).decoded_as(opened.places.decoding)
    loaded = encoder_or_descriptors(
        opened,
        places,
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        trust_code=trust_code,
    )
    drive = places if split is None else places.where(split=split)
    described = loaded.embed(packed_or_files(table, drive, loaded))
    print_map(
        opened.with_calibration(fit(opened, (drive, described), coverage=coverage)).save(folder),
        as_json,
    )


@app.command()
def remove(
    folder: MapFolder,
    place_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...", help="Ids of the landmarks to remove, as `locate` prints them."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Remove landmarks by their ids."""
    from mappable.maps.landmarks import Landmarks

    print_map(Landmarks.verify(folder).remove(place_ids).save(folder), as_json)


@app.command()
def verify(folder: MapFolder, as_json: AsJson = False) -> None:
    """Read all files of a map, and check that they are undamaged."""
    from mappable.maps.landmarks import Landmarks

    verified = Landmarks.verify(folder)
    size = sum(file.length for file in verified.files.values())
    facts = {
        "map": str(folder),
        "landmarks": len(verified),
        "files": len(verified.files),
        "bytes": size,
    }
    print_record(facts, as_json)
    typer.echo("undamaged", err=as_json)


@app.command()
def upload(
    folder: MapFolder,
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI",
            help="Milvus server, http://HOST:PORT, or a file of milvus-lite, FILE.db.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Move the descriptors of a map to Milvus, which then searches; all commands use the map as
    before.

    The folder keeps everything else. An upload that was interrupted continues if you run the
    command again, and no landmark is stored twice. If the server needs a token, set the environment
    variable MAPPABLE_MILVUS_TOKEN.
    """
    from mappable.maps.landmarks import Landmarks
    from mappable.maps.milvus import checked_uri

    uri = checked_uri(uri)  # before all descriptors are read
    print_map(Landmarks.verify(folder).upload(uri).save(folder), as_json)
