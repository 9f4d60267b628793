from mappable import evaluation as evaluation
from mappable import features as features
from mappable import learning as learning
from mappable import localization as localization
from mappable import maps as maps
from mappable import places as places
from mappable import readers as readers
from mappable import recovery as recovery
from mappable.errors import BadImageError as BadImageError
from mappable.errors import BadInputError as BadInputError
from mappable.errors import MappableError as MappableError
from mappable.evaluation.evaluate import evaluate_map as evaluate_map
from mappable.learning.settings import load_settings as load_settings
from mappable.learning.trainer import train as train
from mappable.localization.build import build_map as build_map
from mappable.localization.localizer import Localizer as Localizer
from mappable.localization.map import Map as Map
from mappable.localization.map import open_map as open_map
from mappable.maps.encoders import open_encoder as open_encoder
from mappable.places.files import load_places as load_places
from mappable.places.table import Places as Places
from mappable.readers.conversion import convert as convert
from mappable.recovery.pipeline import recover as recover

__version__: str
