"""Places away from home: other sets with maps of their own, on which an encoder is scored too."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Ints, evenly
from mappable.errors import BadInputError
from mappable.evaluation.setup import Setup, setup_of
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.places.world_record import RECORD, read_record
from mappable.worlds import find_world

FOLDER = "away"  # folder of drawn worlds, inside the folder of a study
EVERY = 10  # every 10th image of another world is drawn
# Per place; more would take longer than the rest of a study.
MOST_QUERIES, MOST_LANDMARKS = 300, 200


def away_place(given: str, *, radius: float | None = None, unit: str | None = None) -> Setup:
    """The setup of an away place from "FOLDER" or "FOLDER:RADIUS"; the folder is that of a
    converted set.

    Without a RADIUS, it is that of a simulated world, or `radius` if the places have the same
    `unit`.
    """
    folder, own = _split(given)
    places = load_places(folder)
    record = read_record(folder) if (folder / RECORD).is_file() else {}
    own = own or record.get("positive_radius")
    if own is None and places.unit == unit:
        own = radius
    if own is None:
        raise BadInputError(
            f"--away {given}: no radius known in {places.unit}; give it as {given}:RADIUS"
        )
    references, queries = _rows(places, own)
    if not len(references) or not len(queries):
        raise BadInputError(
            f"--away {given}: no queries; a set needs two sequences, or splits or roles"
        )
    queries = queries[evenly(len(queries), MOST_QUERIES)]
    role = np.where(np.isin(np.arange(len(places)), queries), "query", "reference").astype(object)
    kept = np.sort(np.concatenate([references, queries]))
    landmarks = min(MOST_LANDMARKS, record.get("landmarks", MOST_LANDMARKS))
    made = setup_of(
        folder.resolve().name,
        places.replace(role=role, split="")[kept],
        positive_radius=own,
        negative_radius=record.get("negative_radius", 2.5 * own),
        landmarks=landmarks,
    )
    return replace(made, counts=())


def drawn(world: str, out: Path, every: int) -> str:
    """The folder of a world, drawn into `out` with one image in ten, or fewer with `every`."""
    folder = out / FOLDER / world
    found = find_world(world)
    if found.find_drawn(folder, every=EVERY * every) is None:
        found.draw(folder, every=EVERY * every, overwrite=True)
    return str(folder)


def _split(given: str) -> tuple[Path, float | None]:
    folder, _, number = given.rpartition(":")
    try:
        radius = float(number)
    except ValueError:
        return Path(given), None
    if not folder or not 0 < radius < np.inf:
        raise BadInputError(
            f"--away is {given!r}, expected FOLDER or FOLDER:RADIUS with a radius above 0"
        )
    return Path(folder), radius


def _rows(places: Places, radius: float) -> tuple[Ints, Ints]:
    """References and queries: by splits and roles if these cover the same places, else by sequence."""
    references, queries = places.references(), places.queries()
    if len(references) and len(queries):
        apart = KDTree(places.positions[references]).query(places.positions[queries])[0]
        if np.mean(np.asarray(apart) <= radius) >= 0.5:
            return references, queries
    tested = queries if len(queries) else np.arange(len(places))
    first, *others = [tested[rows] for rows in places[tested].sequences().values()]
    return first, np.concatenate([first[:0], *others])
