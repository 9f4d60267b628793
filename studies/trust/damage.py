"""Damage every file format of ours: flip a bit, cut the end, zero a block, swap two files.

A reader must refuse the damaged file with one sentence, or return exactly what it returned before.
"""

import random
import shutil
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trust import fuzz
from trust.commands import sha
from trust.counters import Counters
from trust.processes import ask
from trust.tiny import run_here, use_small_backbone, write_by

KINDS = ("flip a bit", "truncate", "zero a block", "swap with another file")
BLOCK = 4096  # bytes of a block of a disk


@dataclass(frozen=True)
class Subject:
    """A file below the base, the folder that is copied for it, and what a reader makes of that
    folder.

    `other` is a file of the same format with other content, for swapping. `mends` is True if the
    reader changes files, because it computes damaged parts again.
    """

    name: str
    folder: str
    file: str  # a pattern
    answer: Callable[[Path, Path], str]
    other: str = ""
    mends: bool = False


def _places(base: Path, work: Path, name: str = "") -> str:
    from mappable.errors import BadInputError
    from mappable.places.files import load_places

    places = load_places(work / name if name else work)
    # Users may edit a CSV file: a warning is enough.
    if any("damaged" in note.text for note in places.notes):
        raise BadInputError("warned")
    return _rows(places)


def _rows(places: Any) -> str:
    columns = [
        getattr(places, name)
        for name in ("path", "x", "y", "yaw", "time", "sequence", "condition", "split")
    ]
    return sha(
        repr([column.tolist() for column in columns]).encode() + repr(places.frames).encode()
    )


def _pixels(base: Path, work: Path) -> str:
    """What `embed`, `map build` and `train` read of a pack; without a pack they decode the files."""
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places
    from mappable.places.images import load_image

    places = load_places(work)
    images = find_packed(work, places, (64, 48), "crop")
    if images is None:
        return sha(np.stack([load_image(file, (64, 48)) for file in places.files]).tobytes())
    return sha(np.ascontiguousarray(images.read(np.arange(len(places)))).tobytes())


def _converted(base: Path, work: Path) -> str:
    from mappable.readers.conversion import convert

    return _rows(convert("manifest", base / "images", work, size=(64, 48)))


def _world(base: Path, work: Path) -> str:
    from mappable.readers.registry import read_places

    return _rows(read_places("simulated", work))


def _encoder(base: Path, work: Path, name: str = "encoder.safetensors") -> str:
    from mappable.maps.encoders import open_encoder
    from mappable.places.files import load_places

    encoder = open_encoder(work / name, "cpu")
    made = encoder.embed(load_places(base / "set")[np.arange(4)])
    return sha(
        np.ascontiguousarray(made).tobytes()
        + encoder.fingerprint.encode()
        + repr(encoder.about).encode()
    )


def _checkpoint(base: Path, work: Path) -> str:
    from mappable.learning.checkpoint import Checkpoint

    found = Checkpoint.load(work / "checkpoint.safetensors")
    tensors = [
        tensor.numpy().tobytes()
        for part in (found.learner, found.tuples)
        for _, tensor in sorted(part.items())
    ]
    return sha(b"".join(tensors) + repr([found.iteration, found.about]).encode())


def _described(base: Path, work: Path) -> str:
    from mappable.features.descriptors import read_descriptors

    found = read_descriptors(work)
    return sha(
        np.ascontiguousarray(found.descriptors).tobytes()
        + repr([found.encoder, found.about]).encode()
    ) + _rows(found.places)


def _hloc(base: Path, work: Path) -> str:
    from mappable.features.descriptors import read_descriptors
    from mappable.maps.landmarks import Landmarks

    found = read_descriptors(work / "landmarks.h5", Landmarks.open(base / "map").places)
    return sha(np.ascontiguousarray(found.descriptors).tobytes())


def _map(base: Path, work: Path) -> str:
    """What `map show` says, and what `locate` says of some images."""
    from mappable.localization.map import Map
    from mappable.maps.encoders import encoder_of
    from mappable.maps.landmarks import Landmarks
    from mappable.places.files import load_places

    opened = Landmarks.open(work)
    encoder = encoder_of(opened, None, "cpu")
    places = load_places(base / "set").where(sequence="wednesday")[np.arange(6)]
    made = encoder.embed(places)
    found = Map(opened).locate_all(made, names=places.place_id.tolist())
    return sha(
        repr(found).encode() + repr(opened.store.nearest(np.asarray(made), 5)).encode()
    ) + _rows(opened.places)


def _index(base: Path, work: Path) -> str:
    from mappable.maps.landmarks import Landmarks

    return sha(repr(Landmarks.open(work).store.nearest(_directions(50, 1), 5)).encode())


def _result(base: Path, work: Path) -> str:
    from mappable.evaluation.result import Result

    with np.printoptions(threshold=10**9):
        return sha(repr(Result.load(work)).encode())


def _report(base: Path, work: Path) -> str:
    from mappable.evaluation.report import failures_of

    return repr(failures_of(work / "report.html"))


def _video(base: Path, work: Path) -> str:
    from mappable.readers.registry import read_places

    return _rows(read_places("video", work))


def _undistorted(base: Path, work: Path) -> str:
    """A raw image, decoded as `locate` does for a map of raw images."""
    from mappable.maps.landmarks import Landmarks

    decoding = Landmarks.open(work).places.decoding
    assert decoding is not None
    return sha(decoding.decode(_raw_image()).tobytes())


def _frozen(base: Path, work: Path) -> str:
    """Activations of frozen layers, as `train` reads them."""
    import torch

    from mappable.features.activations import frozen_activations

    encoder, images = _encoder_and_images(base)
    found = frozen_activations(
        encoder, images, device=torch.device("cpu"), precision="float32", folder=work
    )
    return sha(found.fetch(np.arange(len(images)), "cpu").numpy().tobytes())


def _clusters(base: Path, work: Path) -> str:
    """Clusters, as `train` reads them."""
    from mappable.errors import BadInputError
    from mappable.learning.start import _load

    aggregator = _encoder_and_images(base)[0].aggregator
    if not _load(aggregator, min(work.glob("activations/clusters-*"))):
        raise BadInputError("computed again")
    return sha(b"".join(value.numpy().tobytes() for value in aggregator.state_dict().values()))


def _study_descriptors(base: Path, work: Path) -> str:
    """Descriptors, as `reproduce` and `evaluate` read them."""
    from mappable.evaluation.embedding import load_descriptors

    encoder, images = _encoder_and_images(base)
    found = load_descriptors(
        encoder, images, np.arange(len(images)), "made-up", work, precision="float32"
    )
    return sha(np.ascontiguousarray(found.values).tobytes())


def _encoder_and_images(base: Path) -> Any:
    from mappable.features.encoder import Encoder
    from mappable.places.cache import find_packed
    from mappable.places.files import load_places

    places = load_places(base / "set")
    return Encoder.load(base / "model/encoder.safetensors"), find_packed(
        base / "set", places, (64, 48), "crop"
    )


def _raw_image() -> Any:
    return (np.arange(48 * 64) * 37 % 256).astype(np.uint8).reshape(48, 64)


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("places.parquet", "set", "places.parquet", _places),
        Subject(
            "places.csv",
            "csv",
            "places.csv",
            partial(_places, name="places.csv"),
            "other-csv/places.csv",
        ),
        Subject(
            "places.csv.json",
            "csv",
            "places.csv.json",
            partial(_places, name="places.csv"),
            "set/convert.json",
        ),
        Subject(
            "convert.json", "set", "convert.json", _converted, "other-set/convert.json", mends=True
        ),
        Subject("world.json", "world", "world.json", _world, "set/convert.json"),
        Subject(
            "pack.json",
            "set",
            "pixels/*/pack.json",
            _pixels,
            "other-set/pixels/64x48-crop/pack.json",
        ),
        Subject(
            "index.parquet",
            "set",
            "pixels/*/index.parquet",
            _pixels,
            "other-set/pixels/64x48-crop/index.parquet",
        ),
        Subject(
            "images.npy",
            "set",
            "pixels/*/images.npy",
            _pixels,
            "other-set/pixels/64x48-crop/images.npy",
        ),
        Subject("encoder.safetensors", "model", "encoder.safetensors", _encoder),
        Subject("encoder.onnx", "onnx", "encoder.onnx", partial(_encoder, name="encoder.onnx")),
        Subject("checkpoint.safetensors", "stopped", "checkpoint.safetensors", _checkpoint),
        Subject(
            "descriptors.npy",
            "descriptors",
            "descriptors.npy",
            _described,
            "other-descriptors/descriptors.npy",
        ),
        Subject(
            "descriptors: places.parquet",
            "descriptors",
            "places.parquet",
            _described,
            "other-descriptors/places.parquet",
        ),
        Subject(
            "descriptors.json",
            "descriptors",
            "descriptors.json",
            _described,
            "other-descriptors/descriptors.json",
        ),
        Subject("landmarks.h5", "hloc", "landmarks.h5", _hloc),
        Subject("map.json", "map", "map.json", _map, "other-map/map.json"),
        Subject("map: descriptors", "map", "descriptors-*", _map, "other-map/descriptors-*"),
        Subject("map: landmarks", "dense-map", "landmarks-*", _map, "map/landmarks-*"),
        Subject("map: covariance", "dense-map", "covariance-*", _map),
        Subject("map: encoder", "dense-map", "encoder-*", _map, "other-model/encoder.safetensors"),
        Subject("map: index", "indexed-map", "index-*", _index),
        Subject("result.json", "result", "result.json", _result, "other-result/result.json"),
        Subject("report.json", "result", "report.json", _report, "other-result/report.json"),
        Subject("video.json", "film", "drive-frames/video.json", _video, "set/convert.json"),
        Subject("map: checksums", "map", "checksums-*", _map, "other-map/checksums-*"),
        Subject("map: undistortion", "raw-map", "undistortion-*", _undistorted),
        Subject("clusters", "set", "activations/clusters-*", _clusters),
        Subject("activations", "frozen", "*.bin", _frozen, mends=True),
        Subject("activations: index", "frozen", "*.index", _frozen, mends=True),
        Subject("study: descriptors", "study", "*.npy", _study_descriptors, mends=True),
    )
}


def make_subjects(base: Path) -> None:
    """Write what damage needs beyond `make_base`."""
    if (base / "subjects").exists():
        return
    for words in (
        "simulate street-v1-3d world --every 60 --size 64x48",
        "embed other-model set other-descriptors --split train",
        "evaluate big-map set other-result --protocols table1",
    ):
        write_by(base, words)
    shutil.copytree(base / "map", base / "dense-map")
    write_by(base, "densify dense-map images/wednesday --sequence --within 50")
    train = "train set stopped --settings train.yaml --device cpu --set seed=1"
    run_here(base, base, *train.split(), kill_before=24)
    for name, source in (("onnx", "encoder.onnx"), ("hloc", "landmarks.h5")):
        (base / name).mkdir()
        shutil.copy(base / source, base / name)
    (base / "film").mkdir()
    fuzz.write_video(base, base / "film")
    ask(lambda: (use_small_backbone(base), _video(base, base / "film")))
    for write in (_write_csv, _write_indexed_map, _write_raw_map, _write_descriptors):
        ask(lambda: (use_small_backbone(base), write(base)))  # noqa: B023 - called at once
    (base / "subjects").touch()


def _write_csv(base: Path) -> None:
    from mappable.maps.landmarks import Landmarks
    from mappable.places.files import load_places, save_places

    save_places(Landmarks.open(base / "map").places, base / "landmarks.parquet")
    for source, name in (("set", "csv"), ("other-set", "other-csv")):
        save_places(load_places(base / source), base / name / "places.csv")


def _write_raw_map(base: Path) -> None:
    """A map of raw images, with the table of a lens that mirrors them."""
    from mappable.maps.landmarks import Landmarks
    from mappable.places.decoding import RawDecoding

    height, width = _raw_image().shape
    rows, columns = np.mgrid[:height, :width]
    np.stack([width - 1 - columns, rows]).astype("<f8").tofile(base / "lens.bin")
    opened = Landmarks.open(base / "map")
    raw = opened.places.replace(decoding=RawDecoding("GBRG", str(base / "lens.bin")))
    replace(opened, places=raw, files={}).save(base / "raw-map")


def _write_descriptors(base: Path) -> None:
    _frozen(base, base / "frozen")
    _study_descriptors(base, base / "study")


def _write_indexed_map(base: Path) -> None:
    """A map of 1,200 random descriptors, because an index needs 1,000."""
    from mappable.maps.landmarks import Landmarks
    from mappable.places.frames import Frame
    from mappable.places.table import Places

    count = 1200
    places = Places(
        path=[f"{row}.png" for row in range(count)],
        x=range(count),
        y=[0.0] * count,
        frames=Frame("line"),
    )
    Landmarks.build(places, _directions(count, 0), "made-up").with_index().save(
        base / "indexed-map"
    )


def _directions(count: int, seed: int) -> Any:
    vectors = np.random.default_rng(seed).normal(size=(count, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def damaged(data: bytes, kind: str, draw: random.Random, other: bytes) -> bytes:
    """The data with one damage."""
    if kind == KINDS[0]:
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return bytes(changed)
    if kind == KINDS[1]:
        return data[: draw.randrange(len(data))]
    if kind == KINDS[2]:
        begin = draw.randrange(len(data))
        end = min(len(data), begin + draw.choice([8, 512, BLOCK]))
        return data[:begin] + bytes(end - begin) + data[end:]
    return other


def run_damages(
    base: Path,
    work: Path,
    counters: Counters,
    tries: int,
    names: Iterable[str] = SUBJECTS,
    until: float = float("inf"),
) -> None:
    """Damage each file `tries` times; counters of earlier runs count."""
    for name in names:
        subject = SUBJECTS[name]
        while counters.get(name, "tried") < tries and time.monotonic() < until:
            first = counters.get(name, "tried")
            here = work / "damage" / subject.folder
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(base / subject.folder, here)
            numbers = range(first, min(tries, first + 25))
            for outcome, what in ask(lambda: _try_all(subject, base, here, numbers)):  # noqa: B023 - called at once
                counters.add(name, "tried")
                counters.add(name, outcome)
                if outcome in ("silent", "escaped"):
                    counters.fail(name, f"{outcome}: {what}")
            counters.save()


def _try_all(
    subject: Subject, base: Path, here: Path, numbers: Iterable[int]
) -> list[tuple[str, str]]:
    """Each damage's outcome: refused, no effect, silent or escaped; and what was done."""
    from mappable.errors import MappableError

    use_small_backbone(base)
    warnings.simplefilter("ignore")
    file = next(iter(sorted(here.glob(subject.file))))
    data = file.read_bytes()
    others = sorted(base.glob(subject.other)) if subject.other else []
    other = others[0].read_bytes() if others else b""
    good, outcomes = subject.answer(base, here), []
    for number in numbers:
        draw = random.Random(f"{subject.name} {number}")
        kind = (
            KINDS[0]
            if number % 2
            else draw.choice(KINDS[1:] if number % 50 == 0 and other else KINDS[1:3])
        )
        changed = damaged(data, kind, draw, other)
        if changed == data:
            outcomes.append(("no effect", kind))
            continue
        file.write_bytes(changed)
        what = f"{kind}, damage {number}"
        try:
            outcome = "no effect" if subject.answer(base, here) == good else "silent"
        except MappableError as error:
            outcome = "refused" if "\n" not in str(error) else "escaped"
            what += "" if outcome == "refused" else f": {error}"
        except Exception as error:
            outcome, what = "escaped", f"{what}: {type(error).__name__}: {str(error)[:200]}"
        outcomes.append((outcome, what))
        _restore(file, data, subject, base, here)
    return outcomes


def _restore(file: Path, data: bytes, subject: Subject, base: Path, here: Path) -> None:
    """Undo the damage; the reader may have changed other files, too."""
    if subject.mends:
        shutil.rmtree(here)
        shutil.copytree(base / subject.folder, here)
    else:
        temporary = file.with_name("restored")
        temporary.write_bytes(data)
        temporary.replace(file)
