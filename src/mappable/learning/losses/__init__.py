"""The losses of the paper: `terms` has the formulas, `Loss` combines them by name."""

from mappable.learning.losses.loss import LOSS_NAMES as LOSS_NAMES
from mappable.learning.losses.loss import Loss as Loss
from mappable.learning.losses.loss import Terms as Terms
