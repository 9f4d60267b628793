"""Mappable learns image features whose distances are metres.

The names below are the public interface; everything else may change. They are loaded when first used, so that
`import mappable` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mappable.errors import BadImageError as BadImageError
    from mappable.errors import BadInputError as BadInputError
    from mappable.errors import MappableError as MappableError
    from mappable.evaluation.evaluate import evaluate_map as evaluate_map
    from mappable.evaluation.result import Result as Result
    from mappable.features.about import About as About
    from mappable.features.encoder import Encoder as Encoder
    from mappable.features.fast_encoder import FastEncoder as FastEncoder
    from mappable.learning.losses import LOSS_NAMES as LOSS_NAMES
    from mappable.learning.losses import Loss as Loss
    from mappable.learning.settings import Settings as Settings
    from mappable.learning.settings import load_settings as load_settings
    from mappable.learning.trainer import TrainingStopped as TrainingStopped
    from mappable.learning.trainer import train as train
    from mappable.maps.build import build_map as build_map
    from mappable.maps.calibrate import calibrate as calibrate
    from mappable.maps.calibration import Calibration as Calibration
    from mappable.maps.densify import Densified as Densified
    from mappable.maps.densify import densify as densify
    from mappable.maps.landmarks import greedy_landmarks as greedy_landmarks
    from mappable.maps.landmarks import sequential_landmarks as sequential_landmarks
    from mappable.maps.locate import Locator as Locator
    from mappable.maps.location import Location as Location
    from mappable.maps.map import Map as Map
    from mappable.maps.ranging import ranges_between as ranges_between
    from mappable.maps.reliability import draw_reliability as draw_reliability
    from mappable.maps.sequence import locate_sequence as locate_sequence
    from mappable.places.cache import PackedImages as PackedImages
    from mappable.places.cache import find_pack as find_pack
    from mappable.places.conversion import convert as convert
    from mappable.places.files import load_places as load_places
    from mappable.places.files import save_places as save_places
    from mappable.places.frames import Frame as Frame
    from mappable.places.images import load_image as load_image
    from mappable.places.joining import concatenate as concatenate
    from mappable.places.joining import in_frames as in_frames
    from mappable.places.neighbours import Neighbours as Neighbours
    from mappable.places.neighbours import neighbours as neighbours
    from mappable.places.notes import Note as Note
    from mappable.places.packing import pack_images as pack_images
    from mappable.places.picture import draw_map as draw_map
    from mappable.places.readers import read_places as read_places
    from mappable.places.readers import reader_names as reader_names
    from mappable.places.routes import crop_by_length as crop_by_length
    from mappable.places.routes import distance_along as distance_along
    from mappable.places.summary import summarize as summarize
    from mappable.places.table import NO_TIME as NO_TIME
    from mappable.places.table import Places as Places
    from mappable.recovery.anchored.pipeline import recover_anchored as recover_anchored
    from mappable.recovery.hints import Anchors as Anchors
    from mappable.recovery.hints import Odometry as Odometry
    from mappable.recovery.hints import Turns as Turns
    from mappable.recovery.ranges import Ranges as Ranges
    from mappable.recovery.result import Recovered as Recovered
    from mappable.recovery.unanchored.pipeline import recover as recover
    from mappable.worlds.simulation import Simulated as Simulated
    from mappable.worlds.simulation import simulate as simulate
    from mappable.worlds.simulation import write_simulated as write_simulated

_HOMES = {
    "mappable.errors": ("BadImageError", "BadInputError", "MappableError"),
    "mappable.evaluation.evaluate": ("evaluate_map",),
    "mappable.evaluation.result": ("Result",),
    "mappable.features.about": ("About",),
    "mappable.features.encoder": ("Encoder",),
    "mappable.features.fast_encoder": ("FastEncoder",),
    "mappable.learning.losses": ("LOSS_NAMES", "Loss"),
    "mappable.learning.settings": ("Settings", "load_settings"),
    "mappable.learning.trainer": ("TrainingStopped", "train"),
    "mappable.maps.build": ("build_map",),
    "mappable.maps.calibrate": ("calibrate",),
    "mappable.maps.calibration": ("Calibration",),
    "mappable.maps.densify": ("Densified", "densify"),
    "mappable.maps.landmarks": ("greedy_landmarks", "sequential_landmarks"),
    "mappable.maps.locate": ("Locator",),
    "mappable.maps.location": ("Location",),
    "mappable.maps.map": ("Map",),
    "mappable.maps.ranging": ("ranges_between",),
    "mappable.maps.reliability": ("draw_reliability",),
    "mappable.maps.sequence": ("locate_sequence",),
    "mappable.places.cache": ("PackedImages", "find_pack"),
    "mappable.places.conversion": ("convert",),
    "mappable.places.files": ("load_places", "save_places"),
    "mappable.places.frames": ("Frame",),
    "mappable.places.images": ("load_image",),
    "mappable.places.joining": ("concatenate", "in_frames"),
    "mappable.places.neighbours": ("Neighbours", "neighbours"),
    "mappable.places.notes": ("Note",),
    "mappable.places.packing": ("pack_images",),
    "mappable.places.picture": ("draw_map",),
    "mappable.places.readers": ("read_places", "reader_names"),
    "mappable.places.routes": ("crop_by_length", "distance_along"),
    "mappable.places.summary": ("summarize",),
    "mappable.places.table": ("NO_TIME", "Places"),
    "mappable.worlds.simulation": ("Simulated", "simulate", "write_simulated"),
    "mappable.recovery.anchored.pipeline": ("recover_anchored",),
    "mappable.recovery.hints": ("Anchors", "Odometry", "Turns"),
    "mappable.recovery.unanchored.pipeline": ("recover",),
    "mappable.recovery.ranges": ("Ranges",),
    "mappable.recovery.result": ("Recovered",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


if not TYPE_CHECKING:  # a type checker must see that other names do not exist

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("importlib.metadata").version("mappable")
        if name not in _HOME:
            raise AttributeError(f"module 'mappable' has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)


__version__: str


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
