"""Localization in metres: refined positions, intervals, whole drives, and images that are not on the map."""

from mappable.evaluation.protocol import Drawing, Protocol
from mappable.evaluation.protocols.localization.compute import Localization, depends, rows, score
from mappable.evaluation.protocols.localization.report import draw_localization, draw_rejection, sections

DRAWINGS = (
    Drawing("localization", "Distances and intervals that the map states, against the true ones.", draw_localization),
    Drawing("rejection", "Precision and recall over all thresholds of the feature distance.", draw_rejection),
)
PROTOCOL = Protocol(
    "localization", Localization, rows, score, sections, DRAWINGS, depends=depends, version=3, of_a_map=True
)
