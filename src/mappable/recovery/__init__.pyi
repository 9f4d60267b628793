from mappable.recovery.anchored.pipeline import recover_anchored as recover_anchored
from mappable.recovery.drive import recover_drive as recover_drive
from mappable.recovery.hints import Anchors as Anchors
from mappable.recovery.hints import Odometry as Odometry
from mappable.recovery.hints import Turns as Turns
from mappable.recovery.ranges import Ranges as Ranges
from mappable.recovery.result import Recovered as Recovered
from mappable.recovery.unanchored.pipeline import recover as recover
