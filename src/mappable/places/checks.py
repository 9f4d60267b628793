"""Checks of a table: what looks wrong, and the option of `mappable convert` that helps."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Ints, Pixels, evenly
from mappable.places.angles import wrap
from mappable.places.notes import Findings, Note
from mappable.places.pixels import IMAGES_PER_BLOCK
from mappable.places.routes import JITTER, steps
from mappable.places.survey import OVERLAPPING, Survey, survey
from mappable.places.table import Places

# The command that converted the images, plus one option.
AGAIN = "mappable convert READER ROOT OUT --overwrite"
FEWEST = 10  # places; fewer say nothing about what is usual
JUMP = 10  # times the usual step; a place that is farther from both neighbors jumps away and back
# Times the usual distance to the nearest place; a place that is farther from all others is alone.
ISOLATION = 50
TURNED = 0.02  # radians; a camera that turns more from one image to the next does not stand still
REPEATED = 0.05  # share of images without motion that is worth a warning
PROGRESS = 10  # images after which noise of positions hardly counts
FROZEN = 0.3  # gray levels; a smaller mean difference from the image before is none
MOST_IMAGES = 4000  # images that are compared with the one before; a larger set is compared in part
SAMPLE = 48  # images in which a border, or images upside down, are looked for
STEADY = 2.0  # gray levels; a pixel with a smaller standard deviation over all images is constant
THIN_BORDER = 0.02  # share of the width or height; a thinner border does no harm
# Gray levels of dark images, difference that counts, share of the images.
DARK, BRIGHTER, MOST = 50.0, 15.0, 0.95


def check(places: Places, again: str = AGAIN) -> tuple[Note, ...]:
    """Warnings about positions and visits. `again` is the command that converts the images once
    more.
    """
    findings = Findings()
    frames = sorted(set(places.frame))
    if len(frames) > 1:
        names = ", ".join(frames[:3]) + ", …" * (len(frames) > 3)
        separate = f"places are in {len(frames)} frames ({names}), and are never compared"
        findings.say(
            f"{separate}; if they share a world, convert them in its frame: {again} --like PLACES"
        )
    drop = f"drop them: {again} --drop-outliers"
    isolated = dict(_isolated(places))
    gaps = (
        f"{places.place_id[row]}: {gap:,.1f} {places.frames[places.frame[row]].unit}"
        for row, gap in isolated.items()
    )
    findings.note(
        f"places are far from all others; such places become landmarks first, so {drop}", gaps
    )
    jumps = (str(places.place_id[row]) for row in _jumps(places) if row not in isolated)
    findings.note(f"positions jump away and back; {drop}", jumps)
    to_locate = set(places.role) == {"query"} or set(places.split) == {"test"}
    # What makes maps bad does not matter for images to locate.
    for frame in [] if to_locate else frames:
        in_frame = places[places.frame == frame]
        if len(in_frame) >= FEWEST:
            _check_visits(survey(in_frame), again, findings)
    return findings.notes


def outlier_rows(places: Places) -> Ints:
    """The rows of places at which a position jumps away and back, and of places far from all
    others.
    """
    return np.array(sorted({*dict(_isolated(places)), *_jumps(places)}), dtype=np.int64)


def _jumps(places: Places) -> Iterator[int]:
    for rows in places.sequences().values():
        positions = places.positions[rows]
        moved = steps(positions)
        if len(rows) >= FEWEST and moved.any():
            nearer = np.minimum(moved[:-1], moved[1:])
            past = np.linalg.norm(positions[2:] - positions[:-2], axis=1)
            away = (nearer > JUMP * np.median(moved[moved > 0])) & (past < nearer)
            yield from rows[1:-1][away].tolist()


def _isolated(places: Places) -> Iterator[tuple[int, float]]:
    """Places that are far from all others of their frame: row, and distance to the nearest."""
    for name in places.frames:
        rows = np.flatnonzero(places.frame == name)
        if len(rows) >= FEWEST:
            positions = places.positions[rows]
            nearest: Floats = KDTree(positions).query(positions, k=2)[0][:, 1]
            if nearest.any():
                alone = nearest > ISOLATION * np.median(nearest[nearest > 0])
                yield from zip(rows[alone].tolist(), nearest[alone].tolist(), strict=True)


# Visits


def _check_visits(seen: Survey, again: str, findings: Findings) -> None:
    """Note what is odd about the visits of one frame."""
    places, unit = seen.places, seen.unit
    if len(seen.visits) == 1 and seen.laps < OVERLAPPING:
        single = (
            f"all images are of one visit ({next(iter(seen.visits))!r}), so training cannot learn"
            " what changes"
        )
        remedy = (
            "visit the route again, put both visits into one folder, and run: mappable start FOLDER"
        )
        findings.say(f"{single}; for a map, {remedy}")
    if len(seen.visits) > 1:
        shares = {
            name: np.mean(seen.overlap[rows] > 0)
            for name, rows in seen.visits.items()
            if len(rows) >= FEWEST
        }
        alone = [
            f"{name}: {100 * share:.0f} % of {len(seen.visits[name]):,} places"
            for name, share in shares.items()
            if share < OVERLAPPING
        ]
        look = "look at them: mappable places show PLACES --out map.png --color overlap"
        findings.note(
            f"visits hardly overlap others (within {seen.positive_radius:g} {unit}); {look}", alone
        )
    still = motionless(places)
    if np.mean(still) >= REPEATED:
        repeats = (
            f"{np.count_nonzero(still):,} of {len(places):,} images have the position and direction"
        )
        spacing = seen.spacing / 2 or JITTER
        findings.say(
            f"{repeats} of the image before them; keep one image per position: {again} --spacing"
            f" {spacing:.2g}"
        )
    spacing = min(seen.spacing, _progress(seen))
    if seen.accuracy > spacing:
        rough = (
            f"positions disagree by about {seen.accuracy:.2g} {unit}, more than the {spacing:.2g}"
            f" {unit}"
        )
        findings.say(
            f"{rough} between images; keep fewer images: {again} --spacing {seen.accuracy:.2g}"
        )


def motionless(places: Places) -> Bools:
    """Mask of the images without motion since the image before; a camera that turns moves.

    Several directions at one position are views of the place, not repeats.
    """
    still = np.zeros(len(places), dtype=bool)
    for rows in places.sequences().values():
        turned = np.abs(np.nan_to_num(wrap(np.diff(places.yaw[rows]))))
        still[rows[1:]] = (steps(places.positions[rows]) < JITTER) & (turned < TURNED)
    return still


def _progress(seen: Survey) -> float:
    """The median way along the route from image to image; noise makes the step between positions
    longer than that.
    """
    positions = seen.places.positions
    ways = [
        positions[rows[PROGRESS:]] - positions[rows[:-PROGRESS]] for rows in seen.visits.values()
    ]
    lengths = np.linalg.norm(np.concatenate(ways), axis=1) / PROGRESS
    return float(np.median(lengths)) if len(lengths) else seen.spacing


# Images


def check_images(
    places: Places, load: Callable[[Places], Pixels], again: str = AGAIN
) -> tuple[Note, ...]:
    """Warnings about images: a border, upside down, or like the image before. `load` gives pixels
    of places.
    """
    findings = Findings()
    if len(places) >= FEWEST:
        _check_look(_gray(load(places[evenly(len(places), SAMPLE)])), again, findings)
    sequences = places.sequences()
    for rows in sequences.values():
        rows = rows[: max(2, MOST_IMAGES // len(sequences))]
        for start in range(0, len(rows) - 1, IMAGES_PER_BLOCK):
            block = rows[start : start + IMAGES_PER_BLOCK + 1]
            changed = np.abs(np.diff(_gray(load(places[block])), axis=0)).mean(axis=(1, 2))
            twins = places.place_id[block[1:][changed < FROZEN]]
            findings.note(
                "images look like the image before them; if the camera froze, leave them out", twins
            )
    return findings.notes


def _gray(pixels: Pixels) -> Floats:
    gray: Floats = pixels.mean(axis=3)
    return gray


def _check_look(gray: Floats, again: str, findings: Findings) -> None:
    """Note a constant border of images (n, height, width), or images upside down."""
    steady = gray.std(axis=0) <= STEADY
    rows, columns = (steady.mean(axis=axis) > 0.99 for axis in (1, 0))
    borders = [
        int(np.argmin(line)) / len(line) for line in (columns, rows, columns[::-1], rows[::-1])
    ]
    if steady.mean() <= 0.5 and max(borders) >= THIN_BORDER:  # else a camera that never moves
        cut = ",".join(f"{np.ceil(100 * border):g}" for border in borders)
        same = "all images have the same border; if it is not a part of the scene, cut it off"
        findings.say(f"{same}: {again} --crop-border {cut}")
    bright = gray[gray.mean(axis=(1, 2)) > DARK]
    third = gray.shape[1] // 3
    upside_down = (
        bright[:, -third:].mean(axis=(1, 2)) - bright[:, :third].mean(axis=(1, 2)) > BRIGHTER
    )
    if len(bright) >= FEWEST and upside_down.mean() >= MOST:
        share = f"{upside_down.sum():,} of {len(bright):,} images are brighter below than above"
        findings.say(f"{share}; if they are upside down, turn them: {again} --rotate 180")
