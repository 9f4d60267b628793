"""Map recovery: the trajectory of a drive from feature distances alone."""

from mappable.evaluation.protocol import Drawing, Protocol
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery, depends, rows, score
from mappable.evaluation.protocols.map_recovery.report import draw, sections

CAPTION = "Measured, completed and true distance matrices; the recovered route and the true route."
DRAWING = Drawing("map-recovery", CAPTION, draw)
PROTOCOL = Protocol("map-recovery", MapRecovery, rows, score, sections, (DRAWING,), depends=depends, version=5)
