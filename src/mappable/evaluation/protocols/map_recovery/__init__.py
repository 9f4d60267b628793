"""Map recovery: the trajectory of a drive from feature distances alone."""

from mappable.evaluation.protocol import Drawing, Protocol
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery, depends, rows, score
from mappable.evaluation.protocols.map_recovery.report import draw, sections

PROTOCOL = Protocol(
    name="map-recovery",
    summary="the trajectory of a sequence from feature distances alone",
    kind=MapRecovery,
    rows=rows,
    score=score,
    sections=sections,
    drawings=(
        Drawing(
            "map-recovery",
            "Matrices that were measured, completed and true; the recovered route and the true one.",
            draw,
        ),
    ),
    depends=depends,
    version=2,
)
