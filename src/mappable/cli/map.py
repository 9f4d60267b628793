"""`mappable map`: build a map of landmarks, look at it, change it, check it, and hand it on."""

from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import (
    AsJson,
    Device,
    EncoderFile,
    MapFolder,
    OfSplit,
    Overwrite,
    Seed,
    Split,
    Table,
    check_new,
    images_of,
    print_json,
    queries_of,
    some_places,
    warn_of_new_paths,
)
from mappable.cli.map_build import build
from mappable.cli.output import print_map
from mappable.errors import BadInputError

app = typer.Typer(help="Build, show, change, check and export maps of landmarks.", no_args_is_help=True)
app.command()(build)


@app.command()
def show(folder: MapFolder, as_json: AsJson = False) -> None:
    """Show what a map holds: landmarks, encoder, calibration, and what to know about them."""
    from mappable.maps.map import Map

    print_map(Map.open(folder), as_json)


@app.command()
def add(
    folder: MapFolder,
    table: Table,
    split: OfSplit = None,
    sequence: Annotated[str | None, typer.Option(help="Use only the places of this sequence.")] = None,
    condition: Annotated[str | None, typer.Option(help="Use only the places of this condition.")] = None,
    landmarks: Annotated[
        int | None, typer.Option(help="Add at most N of them, spread far apart.", metavar="N", min=1)
    ] = None,
    spacing: Annotated[
        float | None, typer.Option(help="Or: add one per METRES along each sequence.", metavar="METRES")
    ] = None,
    encoder: EncoderFile = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Add landmarks at known positions, such as those of a new wing; nothing is trained again.

    If it is killed, the map stays as it was. The calibration stays too, and is that of the landmarks before.
    """
    from mappable.maps.build import choose
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map
    from mappable.places.files import load_places

    if landmarks is not None and spacing is not None:
        raise BadInputError("--landmarks and --spacing exclude each other: give one of them")
    opened = Map.verify(folder)
    wanted = {"split": split, "sequence": sequence, "condition": condition}
    places = load_places(table).replace(notes=())  # which are about the whole collection
    places = places.decoded_as(opened.places.decoding)
    places = places.where(**{name: value for name, value in wanted.items() if value is not None})
    if not len(places):
        asked = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value is not None)
        raise BadInputError(f"{table}: no place has {asked}" if asked else f"{table}: names no place")
    every = landmarks is None and spacing is None
    places = places[choose(places, landmarks=landmarks, spacing=spacing, every=every, seed=seed)]
    loaded = encoder_of(opened, encoder, device)
    grown = opened.add(places, loaded.embed(images_of(table, places, loaded)), loaded.fingerprint)
    print_map(grown.save(folder), as_json)
    warn_of_new_paths(opened, grown)


@app.command()
def remove(
    folder: MapFolder,
    place_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of the landmarks to remove.")],
    as_json: AsJson = False,
) -> None:
    """Remove landmarks by their ids."""
    from mappable.maps.map import Map

    print_map(Map.verify(folder).remove(place_ids).save(folder), as_json)


@app.command()
def merge(
    folder: MapFolder,
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="Map whose landmarks are added; it stays as it is.")],
    as_json: AsJson = False,
) -> None:
    """Add the landmarks of another map of the same encoder and frame."""
    from mappable.maps.map import Map

    opened = Map.verify(folder)
    merged = opened.merge(Map.verify(other))
    print_map(merged.save(folder), as_json)
    warn_of_new_paths(opened, merged)


@app.command()
def verify(folder: MapFolder, as_json: AsJson = False) -> None:
    """Read all files of a map, and check that they are what was written."""
    from mappable.maps.map import Map

    verified = Map.verify(folder)
    size = sum(file.length for file in verified.files.values())
    if as_json:
        print_json({"map": str(folder), "landmarks": len(verified), "files": len(verified.files), "bytes": size})
        return
    typer.echo(f"{folder}: sound, {len(verified):,} landmarks in {len(verified.files)} files of {size / 1e6:,.1f} MB")


@app.command()
def reliability(
    folder: MapFolder,
    table: Table,
    out: Annotated[Path, typer.Argument(metavar="OUT.png", help="Picture to write (.png, .svg or .pdf).")],
    split: Annotated[Split | None, typer.Option(help="Locate the places of this split (default: the queries).")] = None,
    elsewhere: Annotated[
        Path | None, typer.Option(help="Places that are not on the map, drawn as well.", metavar="PLACES")
    ] = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
) -> None:
    """Draw how reliable the map's intervals and confidence are, on images whose positions are known."""
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map
    from mappable.maps.reliability import draw_reliability
    from mappable.places.files import load_places

    check_new(overwrite, out)
    opened = Map.open(folder)
    places = queries_of(table) if split is None else load_places(table).where(split=split)
    if not len(places):
        raise BadInputError(f"{table}: no place has the split {split!r}")
    if set(places.frame) != {opened.frame.name}:
        raise BadInputError(f"{table}: is in frame {places.frame[0]!r}, but the map is in frame {opened.frame.name!r}")
    loaded, raw = encoder_of(opened, encoder, device), opened.places.decoding
    absent = None if elsewhere is None else loaded.embed(images_of(elsewhere, some_places(elsewhere), loaded, raw))
    draw_reliability(
        out,
        opened,
        loaded.embed(images_of(table, places, loaded, raw)),
        places.positions,
        encoder=loaded.fingerprint,
        conditions=places.condition,
        elsewhere=absent,
    )
    typer.echo(f"written to {out}")


@app.command()
def export(
    folder: MapFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT.h5", help="File to write; its name ends in .h5.")],
    overwrite: Overwrite = False,
) -> None:
    """Write the landmarks' descriptors for hloc: HDF5 by image path, float32 and of length one."""
    from mappable.features.export import check_hloc
    from mappable.maps.export import export_landmarks
    from mappable.maps.map import Map

    check_hloc(out)
    check_new(overwrite, out)
    opened = Map.verify(folder)
    export_landmarks(out, opened)
    typer.echo(f"{len(opened):,} descriptors of {opened.store.dimensions:,} numbers written to {out}")
