"""The table of formats: a file's suffix chooses how positions are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappable.errors import BadInputError, listed, shown
from mappable.exchange.colmap import check_words, write_colmap
from mappable.exchange.geographic import check_georeferenced, write_geojson, write_kml
from mappable.exchange.hloc import check_pairs, write_pairs
from mappable.exchange.kapture import check_commas, files_of_kapture, write_kapture
from mappable.exchange.mcap import check_mcap, write_mcap
from mappable.exchange.poses import Poses
from mappable.exchange.rerun import check_rerun, write_rerun
from mappable.exchange.tables import check_drive, write_csv, write_json, write_trajectory


@dataclass(frozen=True)
class Writer:
    """A format: `write` returns the number of written positions; `check` says before the work why
    it cannot write.
    """

    write: Callable[[Path, Poses], int]
    check: Callable[[Poses], str | None] = lambda poses: None


WRITERS = {
    ".csv": Writer(write_csv),
    ".json": Writer(write_json),
    ".tum": Writer(write_trajectory, check_drive),
    ".geojson": Writer(write_geojson, check_georeferenced),
    ".kml": Writer(write_kml, check_georeferenced),
    ".mcap": Writer(write_mcap, check_mcap),
    ".rrd": Writer(write_rerun, check_rerun),
    ".kapture": Writer(write_kapture, check_commas),
    ".colmap": Writer(write_colmap, check_words),
    ".pairs": Writer(write_pairs, check_pairs),
}


def files_of(outputs: Sequence[Path]) -> list[Path]:
    """The files that `write_poses` writes; a folder of kapture has several."""
    each = [files_of_kapture(file) if file.suffix == ".kapture" else [file] for file in outputs]
    return [file for files in each for file in files]


def check_outputs(outputs: Sequence[Path], poses: Poses) -> None:
    """Raise if an output cannot be written. Before images are located, `poses` has no poses."""
    for file in outputs:
        if file.suffix not in WRITERS:
            raise BadInputError(
                f"{file}: the suffix is {shown(file.suffix)}, expected one of: {listed(WRITERS)}"
            )
        if problem := WRITERS[file.suffix].check(poses):
            raise BadInputError(f"{file}: {problem}")
    if len({file.resolve() for file in outputs}) < len(outputs):
        raise BadInputError("--out names the same file twice; name different files")


def write_poses(outputs: Sequence[Path], poses: Poses) -> list[str]:
    """Write each output in the format of its suffix; return one sentence per output."""
    written = [WRITERS[file.suffix].write(file, poses) for file in outputs]
    return [
        f"{count:,} of {len(poses):,} positions written to {file}"
        for file, count in zip(outputs, written, strict=True)
    ]
