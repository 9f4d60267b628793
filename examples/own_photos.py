"""From a folder of photos with GPS to a map, and where a new photo was taken.

python own_photos.py [WALKS NEW.jpg]    WALKS has one folder of photos per walk; the last walk calibrates the map
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from drawn import small_encoder, write_photos

import mappable


def main(walks: Path, photo: Path, out: Path, drawn: bool) -> None:
    places = mappable.convert("photos", walks, out / "places", size=(64, 48) if drawn else None)
    last = sorted(places.sequences())[-1]
    places = places.replace(split=np.where(places.sequence == last, "calibration", "train"))
    print(f"{len(places)} photos of {len(places.sequences())} walks; {last} calibrates the map")

    images = mappable.places.find_pack(out / "places").load(places)
    if drawn:
        encoder = small_encoder(images[places.training()])
    else:
        encoder = mappable.features.Encoder.create(weights="vgg16-v1")  # the first time, this fetches 64 MB
        encoder.initialize(images[places.training()])
    built = mappable.build_map(places, images, encoder=encoder)
    built.save(out / "map")
    print(f"{len(built)} landmarks; `mappable serve` shows the map in {out / 'map'}")

    found = mappable.open_map(out / "map").locate(photo)
    print(f"{photo.name}: {found.latitude:.6f}, {found.longitude:.6f}, nearest photo {found.landmark}")
    print(f"distance to it {found.distance:.1f} m, 90 % interval {found.low:.1f} to {found.high:.1f} m")
    print("confident" if found.confident else f"not confident: {found.reason}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), Path(sys.argv[2]), Path(), drawn=False)
    else:
        with tempfile.TemporaryDirectory() as folder:
            walks, others = Path(folder) / "walks", Path(folder) / "others"
            write_photos(walks)
            (walks / "wednesday").rename(others)  # its photos are new
            main(walks, sorted(others.iterdir())[10], Path(folder), drawn=True)
