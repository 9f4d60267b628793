"""Check a table of places for what makes maps bad; each warning names the command that mends it."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints, Pixels
from mappable.places.angles import wrap
from mappable.places.mending import find_oddities, sample_rows
from mappable.places.notes import Note, warn
from mappable.places.pixels import IMAGES_PER_BLOCK
from mappable.places.routes import JITTER, steps
from mappable.places.survey import OVERLAPPING, Survey, survey
from mappable.places.table import NO_TIME, Places

MAX_SPEED = 70.0  # metres per second; a faster step between two images is a jump of the position
ISOLATION_FACTOR = 50  # a place is isolated if its nearest place is farther than 50 times the median such distance
FEWEST = 10  # places; fewer say nothing about what is usual
TURNED = 0.02  # radians; a camera that turns more from one image to the next does not stand still
STANDING = 5  # images at one position in a row that count as a motionless stretch
PROGRESS = 10  # images after which noise of positions hardly counts
STACKED = 0.2  # share of images that may have the position of another image of their visit
ALIKE = 1.5  # gray levels; mean difference of two images in a row that counts as none
FROZEN = 0.3  # the same, if the camera moved in between
ALIKE_SIDE = 32  # pixels; width to which images are reduced before they are compared
MOST_PIXELS = 4000  # images that are compared; a larger set is compared in part


def check(places: Places, table: Path | str = "PLACES") -> tuple[Note, ...]:
    """Warnings about positions and visits. `table` is the name of the table in the commands that mend them."""
    name = shlex.quote(str(table))
    surveys = []
    for frame in places.frames:
        here = places[places.frame == frame]
        if len(here) >= 2:
            surveys.append(survey(here))
    return (
        *_frames(places, name),
        *_outliers(places, name),
        *(note for one in surveys for finder in FINDERS for note in finder(one, name)),
    )


def check_images(places: Places, load: Callable[[Places], Pixels], table: Path | str) -> tuple[Note, ...]:
    """Warnings about images: a border, upside down, or like the image before. `load` gives pixels of places."""
    name = shlex.quote(str(table))
    notes, twins = [*find_oddities(load(places[sample_rows(len(places))]))], []
    spacing = survey(places).spacing if len(places) > 1 else 0.0
    for rows in places.sequences().values():
        rows = rows[:MOST_PIXELS]
        if len(rows) > 1:
            changed = np.abs(np.diff(_reduced(load, places, rows), axis=0)).mean(axis=(1, 2))
            near = steps(places.positions[rows]) < spacing / 2
            alike = (changed < FROZEN) | ((changed < ALIKE) & near)
            twins += [str(places.place_id[rows[number + 1]]) for number in np.flatnonzero(alike)]
    notes += warn(
        f"images look like the image before them; keep one image per step: {_thin(name, max(spacing / 2, JITTER))}",
        twins,
    )
    return tuple(notes)


def standing_rows(places: Places) -> list[Ints]:
    """The rows of each stretch of STANDING images or more without motion; a camera that turns moves."""
    found = []
    for rows in places.sequences().values():
        turned = np.abs(np.nan_to_num(wrap(np.diff(places.yaw[rows]))))
        still = np.concatenate([[False], (steps(places.positions[rows]) < JITTER) & (turned < TURNED), [False]])
        starts, ends = (np.flatnonzero(np.diff(still.astype(int)) == change) for change in (1, -1))
        found += [rows[a : b + 1] for a, b in zip(starts, ends, strict=True) if b - a + 1 >= STANDING]
    return found


def outlier_rows(places: Places) -> Ints:
    """The rows of places at which a position jumps away and back, and of places far from all others."""
    rows = {*(int(row) for row, _ in isolated(places)), *_back_and_forth(places)}
    return np.array(sorted(rows), dtype=np.int64)


def _back_and_forth(places: Places) -> Iterator[int]:
    """The rows of places at which a position jumps away and back."""
    for own in places.sequences().values():
        at = places.positions[own]
        if len(own) < FEWEST:
            continue
        moved = steps(at)
        usual = float(np.median(moved[moved > 0])) if (moved > 0).any() else 0.0
        there, past = moved[:-1], np.linalg.norm(at[2:] - at[:-2], axis=1)
        back = (np.minimum(there, moved[1:]) > ISOLATION_FACTOR / 5 * usual) & (past < np.minimum(there, moved[1:]))
        if usual:
            yield from own[1 + np.flatnonzero(back)].tolist()


def isolated(places: Places) -> list[tuple[int, float]]:
    """Places that are far from all others of their frame: row, and distance to the nearest."""
    found = []
    for name in places.frames:
        rows = np.flatnonzero(places.frame == name)
        if len(rows) < FEWEST:
            continue
        positions = places.positions[rows]
        nearest: Floats = KDTree(positions).query(positions, k=2)[0][:, 1]
        limit = ISOLATION_FACTOR * float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else np.inf
        found += [(int(row), float(gap)) for row, gap in zip(rows, nearest, strict=True) if gap > limit]
    return found


def _thin(name: str, spacing: float) -> str:
    """The command that thins a table to the `spacing`."""
    return f"mappable places mend {name} --spacing {spacing:.2g}"


def _frames(places: Places, name: str) -> tuple[Note, ...]:
    used = sorted(set(places.frame))
    if len(used) < 2:
        return ()
    what = f"places are in {len(used)} frames ({', '.join(used[:3])}{', …' * (len(used) > 3)}), and are never compared"
    return (
        Note(f"{what}; if all are one frame, join them: mappable places mend {name} --frame {shlex.quote(used[0])}"),
    )


def _outliers(places: Places, name: str) -> tuple[Note, ...]:
    mend = f"drop them: mappable places mend {name} --drop-outliers"
    lonely = []
    for row, gap in isolated(places):
        lonely.append(f"{places.place_id[row]}: {gap:,.1f} {places.frames[str(places.frame[row])].unit}")
    fast = [line for frame in places.frames for line in _jumps(places[places.frame == frame], frame)]
    known = {line.rpartition(": ")[0] for line in lonely + fast}
    away = [str(places.place_id[row]) for row in _back_and_forth(places) if str(places.place_id[row]) not in known]
    return (
        warn(f"positions jump away and back; {mend}", away)
        + warn(f"steps are faster than {MAX_SPEED:g} m/s, so the positions jump there; {mend}", fast)
        + warn(f"places are far from all others; such places become landmarks first, so {mend}", lonely)
    )


def _jumps(places: Places, frame: str) -> Iterator[str]:
    if places.frames[frame].unit != "m":
        return
    positions = places.positions
    for rows in places.sequences().values():
        if (places.time[rows] == NO_TIME).any():
            continue
        seconds = np.diff(places.time[rows]) / 1e9
        moved = steps(positions[rows])
        for step in np.flatnonzero((seconds > 0) & (moved > MAX_SPEED * seconds)):
            after = places.place_id[rows[step + 1]]
            yield f"{after}: {moved[step]:,.1f} m in {seconds[step]:.2f} s"


def _one_visit(one: Survey, name: str) -> tuple[Note, ...]:
    if len(one.visits) > 1 or one.laps >= OVERLAPPING or len(one.places) < FEWEST:
        return ()
    what = f"all images are of one visit ({next(iter(one.visits))!r}), so training cannot learn what changes"
    return (Note(f"{what}; visit the route again, put both visits into one folder, and run: mappable start FOLDER"),)


def _apart(one: Survey, name: str) -> tuple[Note, ...]:
    if len(one.visits) < 2:
        return ()
    alone = [
        f"{visit}: {100 * np.mean(one.overlap[rows] > 0):.0f} % of {len(rows):,} places"
        for visit, rows in one.visits.items()
        if len(rows) >= FEWEST and np.mean(one.overlap[rows] > 0) < OVERLAPPING
    ]
    look = f"look at them: mappable places show {name} --picture map.png --color overlap"
    return warn(f"visits hardly overlap others (within {one.positive_radius:g} {one.unit}); {look}", alone)


def _stacked(one: Survey, name: str) -> tuple[Note, ...]:
    """Several images at one position, such as by a GPS slower than the camera; without motionless stretches."""
    places, standing = one.places, {int(row) for rows in _stretches(one) for row in rows}
    shared = 0
    for rows in one.visits.values():
        moving = rows[[int(row) not in standing for row in rows]]
        shared += len(moving) - len(np.unique(places.positions[moving], axis=0))
    if shared < STACKED * len(places):
        return ()
    what = f"{shared:,} of {len(places):,} images have the position of another image of their visit"
    return (Note(f"{what}; keep one image per position: {_thin(name, one.spacing / 2 or JITTER)}"),)


def _stretches(one: Survey) -> list[Ints]:
    """The rows of each motionless stretch; none if most images stand, because then the positions are slow."""
    found = standing_rows(one.places)
    return [] if sum(map(len, found)) > len(one.places) / 2 else found


def _standing(one: Survey, name: str) -> tuple[Note, ...]:
    stretches = [
        f"{one.places.place_id[rows[0]]} to {one.places.place_id[rows[-1]]}: {len(rows):,} images"
        for rows in _stretches(one)
    ]
    return warn(
        f"stretches without motion; keep one image of each: {_thin(name, one.spacing / 2 or JITTER)}", stretches
    )


def _rough(one: Survey, name: str) -> tuple[Note, ...]:
    spacing = min(one.spacing, _progress(one))
    if one.accuracy <= spacing or len(one.places) < FEWEST:
        return ()
    what = f"positions disagree by about {one.accuracy:.2g} {one.unit}, more than the {spacing:.2g} {one.unit}"
    return (Note(f"{what} between images; keep fewer images: {_thin(name, one.accuracy)}"),)


def _progress(one: Survey) -> float:
    """The median way along the route from image to image; noise makes the step between positions longer than that."""
    at = one.places.positions
    far = [np.linalg.norm(at[own[PROGRESS:]] - at[own[:-PROGRESS]], axis=1) for own in one.visits.values()]
    lengths = np.concatenate(far) / PROGRESS
    return float(np.median(lengths)) if len(lengths) else one.spacing


FINDERS = (_one_visit, _apart, _stacked, _standing, _rough)


def _reduced(load: Callable[[Places], Pixels], places: Places, rows: Ints) -> Floats:
    """Gray images (n, height, width) of rows, reduced to ALIKE_SIDE columns; they are loaded in blocks."""
    parts = []
    for start in range(0, len(rows), IMAGES_PER_BLOCK):
        gray = load(places[rows[start : start + IMAGES_PER_BLOCK]]).mean(axis=3, dtype=np.float32)
        step = max(1, gray.shape[2] // ALIKE_SIDE)
        height, width = gray.shape[1] // step, gray.shape[2] // step
        cut = gray[:, : height * step, : width * step]
        parts.append(cut.reshape(len(gray), height, step, width, step).mean(axis=(2, 4)).astype(np.float64))
    return np.concatenate(parts) if parts else np.empty((0, 1, 1))
