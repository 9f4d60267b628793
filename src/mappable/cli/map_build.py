"""`mappable map build PLACES OUT`: choose landmarks, describe them, and calibrate the place model."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import (
    ENCODER_HELP,
    AsJson,
    DescriptorsFile,
    Device,
    Fingerprint,
    Overwrite,
    Table,
    TrustCode,
    check_new,
    load_some_places,
    packed_images,
    packed_or_files,
)
from mappable.cli.estimate import estimate_of, print_estimate
from mappable.cli.output import print_map, print_used_images
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.features.descriptors import Described
    from mappable.maps.landmarks import Landmarks


def build(
    table: Table,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the map.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            help=f"Required unless --descriptors is given. {ENCODER_HELP}",
            metavar="FILE",
        ),
    ] = None,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            help="Choose N landmarks, spread far apart (default: the encoder's setting, else 200).",
            metavar="N",
            min=1,
        ),
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(
            help="Instead of --landmarks: choose one landmark per METRES along each sequence.",
            metavar="METRES",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Instead of --landmarks: make every reference a landmark.")
    ] = False,
    elsewhere: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Places that are not on the map; they teach the map to reject images from"
                " elsewhere. "
                "With --descriptors: a folder written by `mappable embed`."
            ),
            metavar="PLACES",
        ),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate",
            help=(
                "Also estimate what the map will do on another visit: each visit is left out in"
                " turn, and located in "
                "a map of the others. An encoder that `mappable train` made is judged on the images"
                " that it held out."
            ),
        ),
    ] = False,
    device: Device = "auto",
    trust_code: TrustCode = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Build a map: choose landmarks, describe them, and calibrate how far to trust them.

    Landmarks come from the split `train`; without splits, from the role `reference`, or from all
    images but queries. The split `calibration` is a drive that calibrates the map. Without that
    split, its own visits calibrate it.

    The map contains a copy of the encoder: `mappable locate` needs only the folder of the map. Of a
    torch.hub model, the map contains only the name and the commit.
    """
    from mappable.features.descriptors import Described, read_descriptors
    from mappable.localization.build import Options, build_map, build_map_of
    from mappable.localization.map import Map
    from mappable.maps.encoders import find_encoder, open_encoder
    from mappable.maps.folder import MAP, check_folder

    check_folder(out)
    check_new(overwrite, out / MAP)
    if sum((landmarks is not None, spacing is not None, every)) > 1:
        raise BadInputError("--landmarks, --spacing and --all exclude each other: give one of them")
    if encoder is None and descriptors is None:
        raise BadInputError(
            "a map needs an encoder or descriptors: give --encoder FILE or --descriptors FILE"
        )
    encoder_file = None if encoder is None else find_encoder(encoder)
    options: Options = {"landmarks": landmarks, "spacing": spacing, "every": every}
    places = load_some_places(table)
    described = absent = absent_images = None
    if descriptors is not None:
        described = read_descriptors(descriptors, places)
        for note in described.notes:
            typer.echo(f"warning: {note}", err=True)
        absent = None if elsewhere is None else read_descriptors(elsewhere)
        places = described.places
    else:
        loaded = open_encoder(str(encoder_file), device, trust_code=trust_code)
        if elsewhere is not None:
            absent_images = packed_or_files(
                elsewhere, load_some_places(elsewhere), loaded, places.decoding
            )
    used = {"references": places.references(), "calibration": places.calibration()}
    print_used_images(places, "building the map from", **used)
    if described is not None:
        built = Map(
            build_map_of(described, fingerprint, elsewhere=absent, **options).landmarks,
            encoder_file,
        )
    else:
        images = packed_images(table, places, loaded)
        built = build_map(places, images, encoder=loaded, elsewhere=absent_images, **options)
    if _wants_index(built.landmarks):
        built = Map(built.landmarks.with_index(), built.encoder)
    saved = built.save(out)
    expected = None
    if estimate:
        if described is None:
            vectors = loaded.embed(packed_or_files(table, places, loaded))
            described = Described(places, vectors, loaded.fingerprint, loaded.about)
        model = Path(encoder) if encoder is not None and Path(encoder).is_dir() else None
        expected = estimate_of(described, model)
    print_map(
        saved.landmarks, as_json, **({} if expected is None else {"estimate": asdict(expected)})
    )
    if expected is not None and not as_json:
        print_estimate(expected)
    typer.echo(f"written to {out}", err=as_json)


def save_map(described: "Described", out: Path, model: Path, *, overwrite: bool = False) -> bool:
    """Build a map of finished descriptors as `build` does by default, and keep the encoder with it.

    A map that was built of the same images with the same encoder is kept. Return True if a map was
    built.
    """
    from mappable.localization.build import build_map_of, usual_landmarks
    from mappable.localization.map import Map
    from mappable.maps.folder import MAP
    from mappable.maps.landmarks import Landmarks

    if (out / MAP).exists() and not overwrite:
        kept = Landmarks.open(out)
        if kept.encoder == described.encoder and set(kept.places.place_id) <= set(
            described.places.place_id
        ):
            print_map(kept)
            return False
    count = usual_landmarks(described.about, described.places)
    built = build_map_of(described, landmarks=count).landmarks
    print_map(Map(built, model).save(out).landmarks)
    return True


def _wants_index(built: "Landmarks") -> bool:
    """Whether the map gets an index: if it is large and FAISS is installed."""
    from importlib.util import find_spec

    from mappable.maps.approximate import WORTHWHILE

    if len(built) <= WORTHWHILE:
        return False
    if find_spec("faiss") is None:
        typer.echo(
            "warning: FAISS is not installed: the map gets no index, and its exact search is slow",
            err=True,
        )
        return False
    return True
