"""Build a map with an encoder of others: an ONNX file, or a model of torch.hub.

python foreign_encoder.py [ENCODER PLACES]    such as hub:gmberton/MegaLoc:get_trained_model and a converted folder
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from drawn import draw_walks, write_photos

import mappable

MODEL = """
import torch

dependencies = ["torch"]


def coarse():
    return torch.nn.Sequential(torch.nn.AvgPool2d(16), torch.nn.Flatten())  # the descriptor is a tiny image
"""


def main(encoder: str, places: mappable.Places) -> None:
    # A hub model is code of others, which can do on this machine whatever you can. Read it before you trust it.
    foreign = mappable.open_encoder(encoder, trust_code=True)
    width, height = foreign.about.size
    print(f"the encoder takes images of {width}x{height} pixels, and gives {foreign.dimensions} numbers per image")
    built = mappable.build_map(places, encoder=foreign)
    queries = places[places.queries()]
    found = built.locate_all(queries)
    errors = np.linalg.norm([one.coordinates for one in found] - queries.positions, axis=1)
    print(f"{len(built)} landmarks; {sum(one.confident for one in found)} of {len(found)} test images confident")
    print(f"median error {np.median(errors):.2f} {queries.unit}, largest {errors.max():.2f} {queries.unit}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], mappable.load_places(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "hubconf.py").write_text(MODEL)
            write_photos(Path(folder) / "photos")
            main(f"hub:{folder}:coarse", draw_walks()[0].replace(root=Path(folder) / "photos"))
