"""Check a table of places for what makes maps bad; a warning names the option of `mappable convert` that mends it."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints, Pixels, evenly
from mappable.places.angles import wrap
from mappable.places.notes import Findings, Note
from mappable.places.pixels import IMAGES_PER_BLOCK
from mappable.places.routes import JITTER, steps
from mappable.places.survey import OVERLAPPING, YAW_LIMIT, Survey, survey
from mappable.places.table import NO_TIME, Places

AGAIN = "mappable convert READER ROOT OUT --overwrite"  # as the images were converted, with an option more
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
SAMPLE = 48  # images in which a border, or images upside down, are looked for
FEWEST_IMAGES = 12  # images; smaller sets get no such warning
STEADY = 2.0  # standard deviation over images, in gray levels, up to which a pixel counts as constant
THIN_BORDER = 0.02  # share of the width or height; a thinner border does no harm
DARK, BRIGHTER, DARK_SHARE = 50.0, 15.0, 0.95  # gray levels of dark images; difference that counts; share of images


def check(places: Places, again: str = AGAIN) -> tuple[Note, ...]:
    """Warnings about positions and visits. `again` is the command that converts the images once more."""
    found = Findings()
    used = sorted(set(places.frame))
    if len(used) > 1:
        what = (
            f"places are in {len(used)} frames ({', '.join(used[:3])}{', …' * (len(used) > 3)}), and are never compared"
        )
        found.say(f"{what}; if they share a world, convert them in its frame: {again} --like PLACES")
    _outliers(places, again, found)
    queries = set(places.role) == {"query"} or set(places.split) == {"test"}
    for frame in used if not queries else ():  # what makes maps bad does not matter for images to locate
        here = places[places.frame == frame]
        if len(here) >= 2:
            _visits(survey(here), again, found)
    return found.notes


# Positions


def _outliers(places: Places, again: str, found: Findings) -> None:
    lonely = {str(places.place_id[row]): f"{gap:,.1f} {_unit(places, row)}" for row, gap in _isolated(places)}
    fast = dict(_jumps(places))
    away = [str(places.place_id[row]) for row in _back_and_forth(places)]
    mend = f"drop them: {again} --drop-outliers"
    known = lonely | fast
    found.note(f"positions jump away and back; {mend}", (name for name in away if name not in known))
    fast_text = f"steps are faster than {MAX_SPEED:g} m/s, so the positions jump there; {mend}"
    found.note(fast_text, (f"{name}: {how}" for name, how in fast.items()))
    far = f"places are far from all others; such places become landmarks first, so {mend}"
    found.note(far, (f"{name}: {gap}" for name, gap in lonely.items()))


def _unit(places: Places, row: int) -> str:
    return places.frames[str(places.frame[row])].unit


def outlier_rows(places: Places) -> Ints:
    """The rows of places at which a position jumps away and back, and of places far from all others."""
    return np.array(sorted({*(row for row, _ in _isolated(places)), *_back_and_forth(places)}), dtype=np.int64)


def _back_and_forth(places: Places) -> Iterator[int]:
    """The rows of places at which a position jumps away and back."""
    for rows in places.sequences().values():
        positions = places.positions[rows]
        if len(rows) < FEWEST:
            continue
        moved = steps(positions)
        usual = float(np.median(moved[moved > 0])) if (moved > 0).any() else np.inf
        shorter, past = np.minimum(moved[:-1], moved[1:]), np.linalg.norm(positions[2:] - positions[:-2], axis=1)
        yield from rows[1 + np.flatnonzero((shorter > ISOLATION_FACTOR / 5 * usual) & (past < shorter))].tolist()


def _isolated(places: Places) -> Iterator[tuple[int, float]]:
    """Places that are far from all others of their frame: row, and distance to the nearest."""
    for name in places.frames:
        rows = np.flatnonzero(places.frame == name)
        if len(rows) >= FEWEST:
            positions = places.positions[rows]
            nearest: Floats = KDTree(positions).query(positions, k=2)[0][:, 1]
            limit = ISOLATION_FACTOR * float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else np.inf
            yield from ((int(rows[one]), float(nearest[one])) for one in np.flatnonzero(nearest > limit))


def _jumps(places: Places) -> Iterator[tuple[str, str]]:
    for rows in places.sequences().values():
        if _unit(places, rows[0]) != "m" or (places.time[rows] == NO_TIME).any():
            continue
        seconds, moved = np.diff(places.time[rows]) / 1e9, steps(places.positions[rows])
        for step in np.flatnonzero((seconds > 0) & (moved > MAX_SPEED * seconds)):
            yield str(places.place_id[rows[step + 1]]), f"{moved[step]:,.1f} m in {seconds[step]:.2f} s"


# Visits


def _visits(seen: Survey, again: str, found: Findings) -> None:
    """What is odd about the visits of one frame."""
    places, unit, usual = seen.places, seen.unit, seen.spacing / 2 or JITTER
    if len(seen.visits) == 1 and seen.laps < OVERLAPPING and len(places) >= FEWEST:
        what = f"all images are of one visit ({next(iter(seen.visits))!r}), so training cannot learn what changes"
        remedy = "visit the route again, put both visits into one folder, and run: mappable start FOLDER"
        found.say(f"{what}; for a map, {remedy}")
    shares = {name: float(np.mean(seen.overlap[rows] > 0)) for name, rows in seen.visits.items() if len(rows) >= FEWEST}
    alone = (
        f"{name}: {100 * share:.0f} % of {len(seen.visits[name]):,} places"
        for name, share in shares.items()
        if share < OVERLAPPING and len(seen.visits) > 1
    )
    look = "look at them: mappable places show PLACES --picture map.png --color overlap"
    found.note(f"visits hardly overlap others (within {seen.positive_radius:g} {unit}); {look}", alone)
    standing = standing_rows(places)
    if sum(map(len, standing)) > len(places) / 2:  # most images stand, because the positions are slow
        standing = []
    shared = _repeats(seen, np.concatenate([np.empty(0, dtype=np.int64), *standing]))
    if shared >= STACKED * len(places):
        what = f"{shared:,} of {len(places):,} images have the position and direction of another image of their visit"
        found.say(f"{what}; keep one image per position: {again} --spacing {usual:.2g}")
    ends = (f"{places.place_id[rows[0]]} to {places.place_id[rows[-1]]}: {len(rows):,} images" for rows in standing)
    found.note(f"stretches without motion; keep one image of each: {again} --spacing {usual:.2g}", ends)
    spacing = min(seen.spacing, _progress(seen))
    if seen.accuracy > spacing and len(places) >= FEWEST:
        what = (
            f"positions disagree by about {seen.accuracy:.2g} {unit}, more than the {spacing:.2g} {unit} between images"
        )
        found.say(f"{what}; keep fewer images: {again} --spacing {seen.accuracy:.2g}")


def standing_rows(places: Places) -> list[Ints]:
    """The rows of each stretch of STANDING images or more without motion; a camera that turns moves."""
    stretches = []
    for rows in places.sequences().values():
        turned = np.abs(np.nan_to_num(wrap(np.diff(places.yaw[rows]))))
        still = np.concatenate([[False], (steps(places.positions[rows]) < JITTER) & (turned < TURNED), [False]])
        starts, ends = (np.flatnonzero(np.diff(still.astype(int)) == change) for change in (1, -1))
        stretches += [rows[a : b + 1] for a, b in zip(starts, ends, strict=True) if b - a + 1 >= STANDING]
    return stretches


def _repeats(seen: Survey, standing: Ints) -> int:
    """Images at the position and in the direction of another one, such as by a GPS slower than the camera.

    Several directions at one position are views of the place, not repeats.
    """
    direction = np.nan_to_num(np.floor(seen.places.yaw / YAW_LIMIT), nan=-100.0)
    poses, count = np.column_stack([seen.places.positions, direction]), 0
    for rows in seen.visits.values():
        moving = np.setdiff1d(rows, standing)
        count += len(moving) - len(np.unique(poses[moving], axis=0))
    return count


def _progress(seen: Survey) -> float:
    """The median way along the route from image to image; noise makes the step between positions longer than that."""
    positions = seen.places.positions
    far = [positions[rows[PROGRESS:]] - positions[rows[:-PROGRESS]] for rows in seen.visits.values()]
    lengths = np.linalg.norm(np.concatenate(far), axis=1) / PROGRESS
    return float(np.median(lengths)) if len(lengths) else seen.spacing


# Images


def check_images(places: Places, load: Callable[[Places], Pixels], again: str = AGAIN) -> tuple[Note, ...]:
    """Warnings about images: a border, upside down, or like the image before. `load` gives pixels of places."""
    found, twins = Findings(), []
    if len(places) >= FEWEST_IMAGES:
        _oddities(load(places[evenly(len(places), SAMPLE)]).mean(axis=3, dtype=np.float32), again, found)
    spacing = survey(places).spacing if len(places) > 1 else 0.0
    sequences = places.sequences()
    for rows in sequences.values():
        rows = rows[: max(2, MOST_PIXELS // len(sequences))]
        if len(rows) > 1:
            changed = np.abs(np.diff(_reduced(load, places, rows), axis=0)).mean(axis=(1, 2))
            near = steps(places.positions[rows]) < spacing / 2
            alike = (changed < FROZEN) | ((changed < ALIKE) & near)
            twins += places.place_id[rows[1:][alike]].tolist()
    spaced = f"{again} --spacing {max(spacing / 2, JITTER):.2g}"
    found.note(f"images look like the image before them; keep one image per step: {spaced}", twins)
    return found.notes


def _reduced(load: Callable[[Places], Pixels], places: Places, rows: Ints) -> Floats:
    """Gray images (n, height, width) of rows, reduced to ALIKE_SIDE columns; they are loaded in blocks."""
    parts = []
    for start in range(0, len(rows), IMAGES_PER_BLOCK):
        gray = load(places[rows[start : start + IMAGES_PER_BLOCK]]).mean(axis=3, dtype=np.float32)
        step = max(1, gray.shape[2] // ALIKE_SIDE)
        height, width = gray.shape[1] // step, gray.shape[2] // step
        cut = gray[:, : height * step, : width * step]
        parts.append(cut.reshape(len(gray), height, step, width, step).mean(axis=(2, 4)).astype(np.float64))
    return np.concatenate(parts)


def _oddities(gray: Floats, again: str, found: Findings) -> None:
    """A constant border of some images (n, height, width), or images upside down."""
    steady = gray.std(axis=0) <= STEADY
    rows, columns = (steady.mean(axis=axis) > 0.99 for axis in (1, 0))
    ends = [int(np.argmin(line)) / len(line) for line in (columns, rows, columns[::-1], rows[::-1])]
    if steady.mean() <= 0.5 and max(ends) >= THIN_BORDER:  # else a camera that never moves
        cut = ",".join(f"{np.ceil(100 * end):g}" for end in ends)
        text = "all images have the same border; if it is no part of the scene, cut it off"
        found.say(f"{text}: {again} --crop-border {cut}")
    bright = gray[gray.mean(axis=(1, 2)) > DARK]
    third = gray.shape[1] // 3
    lower = bright[:, -third:].mean(axis=(1, 2)) - bright[:, :third].mean(axis=(1, 2)) > BRIGHTER
    if len(bright) >= FEWEST_IMAGES and lower.mean() >= DARK_SHARE:
        share = f"{lower.sum():,} of {len(lower):,} images are brighter below than above"
        found.say(f"{share}; if they are upside down, turn them: {again} --rotate 180")
