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
    Seed,
    Table,
    TrustCode,
    check_new,
    encoder_or_descriptors,
    load_some_places,
    packed_or_files,
    print_json,
    warn_if_paths_changed,
)
from mappable.cli.estimate import estimate
from mappable.cli.map_build import build
from mappable.cli.output import print_map
from mappable.errors import BadInputError

app = typer.Typer(help="Build, show, change and verify maps of landmarks.", no_args_is_help=True)
app.command()(build)
app.command()(estimate)


@app.command()
def show(
    folder: MapFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write the landmarks' descriptors for hloc: one HDF5 group per image path, float32, unit length.",
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
    typer.echo(f"{len(opened):,} descriptors of {opened.store.dimensions:,} numbers written to {out}", err=True)


@app.command()
def add(
    folder: MapFolder,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="PLACES", help="Folder written by `mappable convert`, a table of places, or another map to merge."
        ),
    ],
    split: OnlySplit = None,
    sequence: Annotated[str | None, typer.Option(help="Use only the places of this sequence (default: all).")] = None,
    condition: Annotated[str | None, typer.Option(help="Use only the places of this condition (default: all).")] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(help="Number of places to add, spread far apart (default: all places).", metavar="N", min=1),
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(help="Instead of --landmarks: add one place per METRES along each sequence.", metavar="METRES"),
    ] = None,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Add landmarks at known positions, for example in a new wing of a building; no training is needed.

    PLACES can be another map with the same encoder and frame: all of its landmarks are added, and it does not change.
    The calibration does not change: it is still that of the earlier landmarks. If the command is killed, the map stays
    as it was.
    """
    from mappable.localization.build import choose
    from mappable.maps.folder import MAP
    from mappable.maps.landmarks import Landmarks

    if landmarks is not None and spacing is not None:
        raise BadInputError("--landmarks and --spacing exclude each other: give one of them")
    opened = Landmarks.verify(folder)
    if (table / MAP).is_file():
        merged = opened.merge(Landmarks.verify(table))
        print_map(merged.save(folder), as_json)
        warn_if_paths_changed(opened, merged)
        return
    filters = {"split": split, "sequence": sequence, "condition": condition}
    table_places = load_some_places(table).replace(notes=())  # the notes describe the whole collection
    places = table_places.decoded_as(opened.places.decoding)
    places = places.where(**{name: value for name, value in filters.items() if value is not None})
    if not len(places):
        given = ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)
        raise BadInputError(f"{table}: no place has {given}; `mappable places show` lists the names")
    every = landmarks is None and spacing is None
    places = places[choose(places, landmarks=landmarks, spacing=spacing, every=every, seed=seed)]
    loaded = encoder_or_descriptors(
        opened,
        table_places,
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        trust_code=trust_code,
    )
    grown = opened.add(places, loaded.embed(packed_or_files(table, places, loaded)), loaded.fingerprint)
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
    """Calibrate a map on another drive at known positions: intervals and `confident` then fit such drives.

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
    print_map(opened.with_calibration(fit(opened, (drive, described), coverage=coverage)).save(folder), as_json)


@app.command()
def remove(
    folder: MapFolder,
    place_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids of the landmarks to remove, as `locate` prints them.")
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
    if as_json:
        print_json({"map": str(folder), "landmarks": len(verified), "files": len(verified.files), "bytes": size})
        return
    files = f"{len(verified.files)} files of {size / 1e6:,.1f} MB together"
    typer.echo(f"{folder}: undamaged; {len(verified):,} landmarks in {files}")


@app.command()
def upload(
    folder: MapFolder,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Milvus server, http://HOST:PORT, or a file of milvus-lite, FILE.db.")
    ],
    as_json: AsJson = False,
) -> None:
    """Move the descriptors of a map to Milvus, which then searches; all commands use the map as before.

    The folder keeps everything else. An upload that was interrupted continues if you run the command again, and no
    landmark is stored twice. If the server needs a token, set the environment variable MAPPABLE_MILVUS_TOKEN.
    """
    from mappable.maps.landmarks import Landmarks
    from mappable.maps.milvus import checked_uri

    uri = checked_uri(uri)  # before all descriptors are read
    print_map(Landmarks.verify(folder).upload(uri).save(folder), as_json)
