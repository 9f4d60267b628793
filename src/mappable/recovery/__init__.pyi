from mappable.recovery.hints import Anchors as Anchors
from mappable.recovery.hints import Motions as Motions
from mappable.recovery.pipeline import recover as recover
from mappable.recovery.ranges import Ranges as Ranges
from mappable.recovery.result import Recovered as Recovered
