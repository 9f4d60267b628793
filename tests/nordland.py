"""The set of Nordland, with the settings of its study."""

from dataclasses import replace
from pathlib import Path

from mappable.evaluation.sets import find_set

SETTINGS = Path(__file__).parents[1] / "studies/nordland/nordland.yaml"
NORDLAND = replace(find_set("nordland"), settings=SETTINGS)
