"""Localization in metres, with intervals, refined positions, whole drives, and images that are not on the map."""

from mappable.evaluation.protocol import Drawing, Protocol
from mappable.evaluation.protocols.localization.compute import Localization, depends, rows, score
from mappable.evaluation.protocols.localization.report import draw_localization, draw_rejection, sections

DRAWINGS = (
    Drawing("localization", "Distances and intervals as the map states them, against the truth.", draw_localization),
    Drawing("rejection", "Precision and recall, for all thresholds of the feature distance.", draw_rejection),
)
PROTOCOL = Protocol(
    "localization", Localization, rows, score, sections, DRAWINGS, depends=depends, version=3, of_a_map=True
)
