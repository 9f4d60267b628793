"""`mappable map`: build a map of landmarks, look at it, change it, check it, and hand it on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mappable.cli.common import (
    ByBackend,
    Device,
    EncoderFile,
    MapFolder,
    OfSplit,
    Seed,
    Split,
    Table,
    packed,
    queries_of,
    warn_of_new_paths,
)
from mappable.cli.output import print_taken
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder
    from mappable.maps.map import Map
    from mappable.places.pixels import Images
    from mappable.places.table import Places

app = typer.Typer(help="Build maps of landmarks, look at them, change, check and export them.", no_args_is_help=True)


@app.command()
def build(
    table: Table,
    out: Annotated[Path, typer.Argument(help="Folder for the map; one that is there is replaced when all is done.")],
    encoder: Annotated[
        Path | None,
        typer.Option(
            help="The file encoder.safetensors or an .onnx file, or the folder of a training run or a map.",
            metavar="FILE",
        ),
    ] = None,
    descriptors: Annotated[
        Path | None,
        typer.Option(
            help="Descriptors made before, instead: a folder made by `mappable embed`, an .npy file with a row for "
            "each place, or hloc's .h5.",
            metavar="FILE",
        ),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Of descriptors that do not say: a name of what made them.", metavar="NAME"),
    ] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            help="Landmarks, chosen to lie far apart (default: as the encoder's settings say, else 200).",
            metavar="N",
            min=1,
        ),
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(help="Or: a landmark each so many metres along each sequence.", metavar="METRES"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Or: all references are landmarks.")] = False,
    elsewhere: Annotated[
        Path | None,
        typer.Option(
            help="Places that are not on the map, by which it learns to reject such images; with --descriptors a "
            "folder made by `mappable embed`.",
            metavar="PLACES",
        ),
    ] = None,
    coverage: Annotated[
        float, typer.Option(help="Share of images whose interval in metres shall hold the truth.")
    ] = 0.9,
    false_accepts: Annotated[
        float, typer.Option(help="Share of images from elsewhere that may pass for images on the map.")
    ] = 0.05,
    storage: Annotated[
        Literal["float32", "float16"], typer.Option(help="Of descriptors; float16 takes half the room.")
    ] = "float32",
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="With an index for quick search (needs FAISS), or without; default: beyond 100,000 landmarks.",
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    backend: ByBackend = None,
) -> None:
    """Build a map: choose landmarks, describe them, and measure on other images what feature distances mean in metres.

    Landmarks are chosen among the split `train` (without splits: the role `reference`, or all but queries). The split
    `calibration` measures; without one, references that are no landmarks do. The map keeps a copy of the encoder: its
    folder is all that `mappable locate` needs.
    """
    from mappable.features.descriptors import read_descriptors
    from mappable.maps.build import Options, build_map, build_map_of
    from mappable.maps.encoders import find_encoder, open_encoder
    from mappable.maps.folder import check_folder

    check_folder(out)
    if sum((landmarks is not None, spacing is not None, every)) > 1:
        raise BadInputError("--landmarks, --spacing and --all exclude each other: give one of them")
    options: Options = {
        "landmarks": landmarks, "spacing": spacing, "every": every, "seed": seed,
        "coverage": coverage, "false_accepts": false_accepts, "storage": storage,
    }  # fmt: skip
    encoder_file = None if encoder is None else find_encoder(encoder)
    places = _some_places(table)
    if descriptors is not None:
        described = read_descriptors(descriptors, places)
        for note in described.notes:
            typer.echo(f"warning: {note}", err=True)
        absent = None if elsewhere is None else read_descriptors(elsewhere)
        _print_taken(described.places)
        built = build_map_of(described, fingerprint, elsewhere=absent, **options)
    elif encoder_file is None:
        raise BadInputError("a map needs an encoder: give --encoder FILE, or --descriptors made before")
    else:
        loaded = open_encoder(encoder_file, device, backend)
        absent_images = None if elsewhere is None else _images(elsewhere, _some_places(elsewhere), loaded)
        _print_taken(places)
        built = build_map(loaded, places, packed(table, places, loaded), elsewhere=absent_images, **options)
    _print((built.with_index(seed) if _wants_index(built, approximate) else built).save(out, encoder_file))
    typer.echo(f"written to {out}")


@app.command()
def show(
    folder: MapFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """What a map holds: landmarks, encoder, calibration, and what to know about them."""
    from mappable.maps.map import Map
    from mappable.maps.summary import summarize_map

    opened = Map.open(folder)
    if as_json:
        typer.echo(json.dumps(summarize_map(opened).to_json(), indent=2))
    else:
        _print(opened)


@app.command()
def add(
    folder: MapFolder,
    table: Table,
    split: OfSplit = None,
    sequence: Annotated[str | None, typer.Option(help="Only the places of this sequence.")] = None,
    condition: Annotated[str | None, typer.Option(help="Only the places of this condition.")] = None,
    landmarks: Annotated[
        int | None, typer.Option(help="Of them only so many, that lie far apart.", metavar="N", min=1)
    ] = None,
    spacing: Annotated[
        float | None, typer.Option(help="Or: only one each so many metres along each sequence.", metavar="METRES")
    ] = None,
    encoder: EncoderFile = None,
    seed: Seed = 0,
    device: Device = "auto",
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
    places = places.where(**{name: value for name, value in wanted.items() if value is not None})
    if not len(places):
        asked = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value is not None)
        raise BadInputError(f"{table}: no place has {asked}" if asked else f"{table}: names no place")
    every = landmarks is None and spacing is None
    places = places[choose(places, landmarks=landmarks, spacing=spacing, every=every, seed=seed)]
    loaded = encoder_of(opened, encoder, device)
    grown = opened.add(places, loaded.embed(_images(table, places, loaded)), loaded.fingerprint)
    _print(grown.save(folder))
    warn_of_new_paths(opened, grown)


@app.command()
def remove(
    folder: MapFolder,
    place_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of the landmarks to remove.")],
) -> None:
    """Remove landmarks by their ids."""
    from mappable.maps.map import Map

    _print(Map.verify(folder).remove(place_ids).save(folder))


@app.command()
def merge(
    folder: MapFolder,
    other: Annotated[Path, typer.Argument(help="The map whose landmarks are added; it stays as it is.")],
) -> None:
    """Add the landmarks of another map of the same encoder and frame."""
    from mappable.maps.map import Map

    opened = Map.verify(folder)
    merged = opened.merge(Map.verify(other))
    _print(merged.save(folder))
    warn_of_new_paths(opened, merged)


@app.command()
def verify(folder: MapFolder) -> None:
    """Read all files of a map, and say whether they are what was written."""
    from mappable.maps.map import Map

    verified = Map.verify(folder)
    size = sum(file.length for file in verified.files.values())
    typer.echo(f"{folder}: sound, {len(verified):,} landmarks in {len(verified.files)} files of {size / 1e6:,.1f} MB")


@app.command()
def reliability(
    folder: MapFolder,
    table: Table,
    out: Annotated[Path, typer.Argument(metavar="OUT.png", help="The picture to write (.png, .svg or .pdf).")],
    split: Annotated[Split | None, typer.Option(help="Locate the places of this split (default: the queries).")] = None,
    elsewhere: Annotated[
        Path | None, typer.Option(help="Places that are not on the map, to show beside them.", metavar="PLACES")
    ] = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
) -> None:
    """Draw how far the map's intervals and its confidence can be trusted, on images of known position."""
    from mappable.files import check_writable
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map
    from mappable.maps.reliability import draw_reliability
    from mappable.places.files import load_places

    check_writable(out)
    opened = Map.open(folder)
    places = queries_of(table) if split is None else load_places(table).where(split=split)
    if not len(places):
        raise BadInputError(f"{table}: no place has the split {split!r}")
    if set(places.frame) != {opened.frame.name}:
        raise BadInputError(f"{table}: is in frame {places.frame[0]!r}, but the map is in frame {opened.frame.name!r}")
    loaded = encoder_of(opened, encoder, device)
    absent = None if elsewhere is None else loaded.embed(_images(elsewhere, _some_places(elsewhere), loaded))
    draw_reliability(
        out,
        opened,
        loaded.embed(_images(table, places, loaded)),
        places.positions,
        encoder=loaded.fingerprint,
        conditions=places.condition,
        elsewhere=absent,
    )
    typer.echo(f"written to {out}")


@app.command()
def export(
    folder: MapFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT.h5", help="The file to write, whose name ends in .h5.")],
) -> None:
    """Write the landmarks' descriptors for hloc: HDF5 by image path, float32 and of length one."""
    from mappable.features.export import check_hloc
    from mappable.maps.export import export_landmarks
    from mappable.maps.map import Map

    check_hloc(out)
    opened = Map.verify(folder)
    export_landmarks(out, opened)
    typer.echo(f"{len(opened):,} descriptors of {opened.store.dimensions:,} numbers written to {out}")


def _some_places(table: Path) -> "Places":
    """The places of a table that must have some."""
    from mappable.places.files import load_places

    places = load_places(table)
    if not len(places):
        raise BadInputError(f"{table}: names no place")
    return places


def _print_taken(places: "Places") -> None:
    references, calibration = places.references(), places.calibration()
    print_taken(places, "building the map from", references=references, calibration=calibration)


def _wants_index(built: "Map", asked: bool | None) -> bool:
    """Whether the map gets an index: as asked, else if it is large and FAISS is there."""
    from importlib.util import find_spec

    from mappable.maps.approximate import WORTHWHILE

    if asked is not None or len(built) <= WORTHWHILE:
        return bool(asked)
    if find_spec("faiss") is None:
        typer.echo("warning: without FAISS the map gets no index, and search in it is exact, but slow", err=True)
        return False
    return True


def _images(table: Path, places: "Places", encoder: "ImageEncoder") -> "Places | Images":
    """The same, or else the places, whose files are decoded then."""
    images = packed(table, places, encoder)
    return places if images is None else images


def _print(shown: "Map") -> None:
    from mappable.maps.summary import summarize_map

    one = summarize_map(shown)
    sides = " x ".join(f"{high - low:,.1f}" for low, high in zip(one.low, one.high, strict=True))
    estimated = f" ({one.estimated:,} at estimated positions)" if one.estimated else ""
    typer.echo(f"{one.landmarks:,} landmarks{estimated}, {one.spacing:.2f} {one.unit} from one to the next")
    typer.echo(f"frame {one.frame}: {sides} {one.unit}")
    kept = "kept with the map" if one.encoder_kept else "not kept with the map"
    typer.echo(f"encoder {one.encoder}, {kept}; {one.descriptor:,} numbers a descriptor, {one.storage}")
    if one.recall:
        recall = ", ".join(f"{name} {100 * share:.1f} %" for name, share in one.recall.items())
        typer.echo(f"search is approximate: {recall}")
    if one.calibration is not None:
        known = one.calibration
        away = f" and {known.elsewhere:,} of elsewhere" if known.elsewhere else ""
        typer.echo(
            f"calibrated on {known.images:,} images{away}: feature distances tell up to {known.reach:.1f} {one.unit}"
        )
        width = f"{100 * known.coverage:g} % intervals of about {known.width:.1f} {one.unit}"
        typer.echo(f"confident of {100 * known.confident:.1f} % of them, with {width}")
        if not known.elsewhere:
            typer.echo("it has seen no images from elsewhere, and may take some for its own: build it with --elsewhere")
    for note in one.notes:
        typer.echo(f"warning: {note}", err=True)
