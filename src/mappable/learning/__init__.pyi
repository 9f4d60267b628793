from mappable.learning.losses.loss import LOSS_NAMES as LOSS_NAMES
from mappable.learning.losses.loss import Loss as Loss
from mappable.learning.settings import Settings as Settings
from mappable.learning.settings import load_settings as load_settings
from mappable.learning.trainer import TrainingStopped as TrainingStopped
from mappable.learning.trainer import train as train
