"""The losses of the paper, one idea a file; `Loss` puts them together by name."""

from mappable.learning.losses.combination import LOSS_NAMES as LOSS_NAMES
from mappable.learning.losses.combination import Loss as Loss
from mappable.learning.losses.combination import Terms as Terms
