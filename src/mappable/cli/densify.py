"""`mappable densify MAP IMAGES...`: add images without positions as landmarks, if the map locates them confidently."""

from typing import Annotated

import typer

from mappable.cli.common import (
    AsJson,
    AsSequence,
    DescriptorsFile,
    Device,
    EncoderFile,
    Fingerprint,
    ImagePaths,
    MapFolder,
    TrustCode,
    encoder_or_descriptors,
    packed_images,
    report_failures,
    warn_if_paths_changed,
)
from mappable.cli.output import print_record


def densify(
    folder: MapFolder,
    images: ImagePaths,
    sequence: AsSequence = False,
    within: Annotated[
        float | None,
        typer.Option(
            help=(
                "Largest standard deviation of an added image's position (default: the spacing of"
                " the landmarks)."
            ),
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
    """Add images without positions to a map, at positions that the map estimates confidently.

    The map marks their positions as estimated. Landmarks with measured positions do not change. If
    the command is killed, the map stays as it was.
    """
    from mappable.localization.densification import densify_images
    from mappable.localization.map import Map
    from mappable.maps.landmarks import Landmarks
    from mappable.readers.unposed import find_images

    opened = Landmarks.verify(folder)
    places = find_images(images, opened.places.decoding)
    loaded = encoder_or_descriptors(
        opened,
        places,
        encoder=encoder,
        descriptors=descriptors,
        fingerprint=fingerprint,
        device=device,
        trust_code=trust_code,
    )
    pixels = packed_images(images[0], places, loaded) if len(images) == 1 else None
    placed = densify_images(Map(opened, loaded), places, pixels, sequence=sequence, within=within)
    saved = placed.landmarks.save(folder) if placed.added else opened
    counts = {
        "images": len(places),
        "added": placed.added,
        "landmarks": len(saved),
        "estimated": int(saved.estimated.sum()),
        "left_out": dict(placed.left_out.most_common()),
        "unreadable": list(placed.bad),
    }
    print_record(counts, as_json)
    warn_if_paths_changed(opened, saved)
    report_failures(placed.bad)
