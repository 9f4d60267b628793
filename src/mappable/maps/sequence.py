"""Localize a drive: a filter over places uses all images together to locate each of them."""

from collections.abc import Sequence

from mappable.arrays import Floats32
from mappable.errors import BadInputError
from mappable.maps.believed import locations_of
from mappable.maps.drive_model import follow
from mappable.maps.locate import CANDIDATES, Locator
from mappable.maps.location import Location
from mappable.maps.looks import look_at


def locate_sequence(
    locator: Locator,
    descriptors: Floats32,
    *,
    encoder: str,
    coverage: float | None = None,
    images: Sequence[str] | None = None,
    candidates: int = CANDIDATES,
) -> list[Location]:
    """Locate the images of one drive by descriptors (n, D), in the order taken; options as in `Locator.locate`.

    Steps may have any length, and may be uneven. Feature distances between the images show how far the camera moved.
    If they show too little, each image is located alone, and `together` is False. Position, interval, `confident` and
    `reason` come from the filter.
    """
    if not len(descriptors):
        raise BadInputError("a sequence needs at least one image")
    locator.map.check_encoder(encoder)
    looks = look_at(locator.map.store, descriptors)
    drive = follow(locator.calibration.drive, locator.layout, looks, descriptors)
    return locations_of(
        locator,
        descriptors,
        looks,
        drive,
        coverage=coverage,
        images=images,
        candidates=candidates,
    )
