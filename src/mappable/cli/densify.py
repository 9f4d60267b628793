"""`mappable densify MAP IMAGES...`: images without positions become landmarks, where the map knows where they are."""

from typing import Annotated

import typer

from mappable.cli.common import (
    AsJson,
    Device,
    EncoderFile,
    ImagePaths,
    MapFolder,
    Together,
    end_with,
    packed,
    print_json,
    warn_of_new_paths,
)


def densify(
    folder: MapFolder,
    images: ImagePaths,
    sequence: Together = False,
    within: Annotated[
        float | None,
        typer.Option(
            help="Add only images whose position has at most this standard deviation (default: the spacing of the "
            "landmarks).",
            metavar="METRES",
        ),
    ] = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Add images without positions to a map, where the map is confident of their estimated positions.

    They are marked as estimated; landmarks whose positions were measured stay as they are. If it is killed, the map
    stays as it was.
    """
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map
    from mappable.maps.queries import densify_images
    from mappable.places.unposed import find_images

    opened = Map.verify(folder)
    places = find_images(images, opened.places.decoding)
    loaded = encoder_of(opened, encoder, device)
    pixels = packed(images[0], places, loaded) if len(images) == 1 else None
    placed = densify_images(opened, loaded, places, pixels, sequence=sequence, within=within)
    saved = placed.map.save(folder) if placed.added else opened
    left_out, estimated = dict(placed.left_out.most_common()), int(saved.estimated.sum())
    if as_json:
        counts = {"images": len(places), "added": placed.added, "landmarks": len(saved), "estimated": estimated}
        print_json(counts | {"left_out": left_out, "unreadable": list(placed.bad)})
    else:
        typer.echo(f"{placed.added:,} of {len(places):,} images added")
        for reason, count in left_out.items():
            typer.echo(f"{count:,} left out: {reason}")
        typer.echo(f"{folder}: {len(saved):,} landmarks, {estimated:,} of them at estimated positions")
    warn_of_new_paths(opened, saved)
    end_with(placed.bad)
