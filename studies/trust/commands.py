"""Every command that writes files: its arguments on the made-up set, and what counts as a good result.

`look` describes a result by our own readers, as text: a kill must leave the text of before or the
text of after.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trust.tiny import STUDY, use_own_cache, use_small_backbone, use_tiny_demo

ABSENT = "absent"
Look = Callable[[Path], dict[str, str]]


@dataclass(frozen=True)
class Command:
    """A command that writes. Its arguments are relative to the work folder; `{base}` is the folder
    of the made-up set.

    An argument `@FILE` stands for the text of that file.
    `copies` are copied from the base before it runs. `look` tells what is there, part by part.
    `twin` has arguments of a second process that works on the same result, if not the same ones.
    `settles` is False for a command that refuses to run twice, such as `map add` of the same
    images.
    """

    name: str
    arguments: str
    look: Look
    copies: tuple[str, ...] = ()
    twin: str = ""
    settles: bool = True
    setup: Callable[[Path], None] = field(default=use_small_backbone)

    def words(self, base: Path, *, twin: bool = False) -> list[object]:
        chosen = self.twin or self.arguments if twin else self.arguments
        words = [word.replace("{base}", str(base)) for word in chosen.split()]
        return [Path(word[1:]).read_text() if word.startswith("@") else word for word in words]

    def prepare(self, base: Path, work: Path) -> None:
        """Make the work folder as it is before the command."""
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        for name in self.copies:
            (shutil.copytree if (base / name).is_dir() else shutil.copy)(base / name, work / name)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def files(*names: str) -> Look:
    """The bytes of files that are written as a whole."""

    def look(work: Path) -> dict[str, str]:
        return {
            name: sha((work / name).read_bytes()) if (work / name).exists() else ABSENT
            for name in names
        }

    return look


def table(work: Path) -> dict[str, str]:
    """The table of a set, and its packed pixels by their checksums."""
    from mappable.places.cache import find_pack
    from mappable.places.files import load_places

    if not (work / "set/places.parquet").exists():
        return {"set": ABSENT}
    places = load_places(work / "set")
    pack = find_pack(work / "set", (64, 48))
    if pack.damaged():
        raise RuntimeError(f"packed pixels do not match their checksums: {pack.damaged()[:3]}")
    rows = zip(places.path, places.x, places.split, places.sequence, strict=True)
    return {"set": sha(repr(list(rows)).encode() + pack.load(places).tobytes())}


def run_folder(work: Path) -> dict[str, str]:
    """The encoder of a training run."""
    from mappable.features.encoder import Encoder

    file = work / "model/encoder.safetensors"
    return {"encoder": Encoder.load(file).fingerprint if file.exists() else ABSENT}


def described(work: Path) -> dict[str, str]:
    """The folder of `embed`: descriptors with the places of the same rows."""
    import numpy as np

    from mappable.features.descriptors import read_descriptors
    from mappable.features.export import DESCRIPTORS

    if not (work / "descriptors" / DESCRIPTORS).exists():
        return {"descriptors": ABSENT}
    loaded = read_descriptors(work / "descriptors")
    rows = [*zip(loaded.places.path, loaded.places.split, strict=True)]
    return {"descriptors": sha(repr(rows).encode() + np.asarray(loaded.descriptors).tobytes())}


def landmarks(work: Path, name: str = "map") -> dict[str, str]:
    """A map that passes `map verify`."""
    import numpy as np

    from mappable.maps.landmarks import Landmarks

    if not (work / name / "map.json").exists():
        return {"map": ABSENT}
    opened = Landmarks.verify(work / name)
    rows = [*zip(opened.places.place_id, opened.places.x, opened.places.y, strict=True)]
    return {
        "map": sha(
            repr(rows).encode() + np.asarray(opened.store.take(np.arange(len(rows)))).tobytes()
        )
    }


def cached_weights(work: Path) -> dict[str, str]:
    """The set of weights in the cache."""
    from mappable.features.weight_files import digest
    from mappable.features.weights import cached_file, find_cached

    os.environ["MAPPABLE_CACHE"] = str(work / "cache")
    if not cached_file("vgg16-caffe").exists():
        return {"weights": ABSENT}
    found = find_cached("vgg16-caffe")
    return {"weights": "damaged" if found is None else digest(found.tensors)}


def scores(folder: str) -> Look:
    """The results below a folder, with their arrays, and the report."""

    def look(work: Path) -> dict[str, str]:
        from mappable.evaluation.result import RESULT, Accuracy, Result

        seen = {}
        for file in sorted((work / folder).rglob(RESULT)):
            result = Result.load(file.parent)
            found = result.get(Accuracy)
            assert found is not None
            seen[file.parent.name] = sha(
                repr(result.ids.tolist()).encode() + found.errors.tobytes()
            )
        report = work / folder / "report.json"
        seen["report"] = (
            str(len(json.loads(report.read_text())["sections"])) if report.exists() else ABSENT
        )
        page = work / folder / "report.html"
        seen["page"] = (
            "</html>" if page.exists() and "</html>" in page.read_text()[-20:] else ABSENT
        )
        return seen

    return look


def study(work: Path) -> dict[str, str]:
    """A study: its table and pixels, its encoders, its results."""
    from mappable.features.encoder import Encoder
    from mappable.places.cache import find_pack
    from mappable.places.files import load_places

    seen = scores("out")(work)
    for file in sorted((work / "out/models").glob("*/encoder.safetensors")):
        seen[f"encoder {file.parent.name}"] = Encoder.load(file).fingerprint
    if (work / "out/places/places.parquet").exists():
        places = load_places(work / "out/places")
        seen["places"] = sha(repr(places.path.tolist()).encode())
        if (work / "out/report.html").exists():
            assert not find_pack(work / "out/places", (64, 48)).damaged()
    if (work / "out/map/map.json").exists():
        seen |= landmarks(work, "out/map")
    return seen


def one_file(name: str, arguments: str, file: str) -> Command:
    """A command that replaces a file of the base."""
    return Command(name, f"{arguments} --overwrite", files(file), (file,))


RECOVERED = tuple(
    f"recovered/{name}" for name in ("positions.csv", "trajectory.txt", "summary.json")
)
TRAIN = "train {base}/set model --settings {base}/train.yaml --device cpu"
WEDNESDAY, ADD_THURSDAY = "{base}/images/wednesday", "map add map {base}/set --sequence thursday"
REPRODUCE = " ".join(
    (
        "reproduce nordland out --images {base}/frames --rows off-the-shelf,triplet+huber",
        "--protocols table1 --device cpu",
        *(f"--set {change}" for change in STUDY),
    )
)
COMMANDS = {
    command.name: command
    for command in (
        Command("convert", "convert manifest {base}/images set --size 64x48", table),
        Command(
            "convert --overwrite",
            "convert manifest {base}/images/half.csv set --size 64x48 --overwrite",
            table,
            ("set",),
        ),
        Command("places split", "places split set --calibration thursday", table, ("set",)),
        one_file("places show --out", "places show {base}/set --out places.png", "places.png"),
        Command("simulate", "simulate street-v1-3d set --every 60 --size 64x48", table),
        Command(
            "weights",
            "encoders vgg16-caffe --file {base}/new.safetensors",
            cached_weights,
            ("cache",),
            setup=use_own_cache,
        ),
        Command("train", TRAIN, run_folder),
        Command("train --overwrite", f"{TRAIN} --overwrite", run_folder, ("model",)),
        Command(
            "embed",
            "embed {base}/model {base}/set descriptors --overwrite",
            described,
            ("descriptors",),
        ),
        one_file("embed to hloc", "embed {base}/model {base}/set embedded.h5", "embedded.h5"),
        Command(
            "map build",
            "map build {base}/set map --encoder {base}/model --landmarks 60 --overwrite",
            landmarks,
            ("map",),
        ),
        Command(
            "map add",
            ADD_THURSDAY,
            landmarks,
            ("map",),
            "map add map {base}/set --sequence wednesday",
            settles=False,
        ),
        Command(
            "map remove",
            "map remove big-map monday/00020.png",
            lambda work: landmarks(work, "big-map"),
            ("big-map",),
            "map add big-map {base}/set --sequence wednesday",
            settles=False,
        ),
        Command(
            "map add a map",
            "map add map {base}/other-map",
            landmarks,
            ("map",),
            ADD_THURSDAY,
            settles=False,
        ),
        Command(
            "densify",
            f"densify map {WEDNESDAY} --sequence --within 50",
            landmarks,
            ("map",),
            ADD_THURSDAY,
            settles=False,
        ),
        Command(
            "recover",
            "recover {base}/ranges/ranges.csv recovered --overwrite",
            files(*RECOVERED),
            ("recovered",),
        ),
        Command(
            "recover of images",
            f"recover {{base}}/big-map {WEDNESDAY} recovered --overwrite",
            files(*RECOVERED, "recovered/recovery.png"),
            ("recovered",),
        ),
        Command(
            "locate",
            f"locate {{base}}/big-map {WEDNESDAY} --sequence --out located.csv --out located.tum"
            " --overwrite",
            files("located.csv", "located.tum"),
            ("located.csv", "located.tum"),
        ),
        one_file("map show", "map show {base}/big-map --out landmarks.h5", "landmarks.h5"),
        Command(
            "evaluate",
            "evaluate {base}/big-map {base}/set result --protocols table1 --overwrite",
            scores("result"),
            ("result",),
        ),
        one_file("export", "export {base}/other-model encoder.onnx", "encoder.onnx"),
        Command("reproduce", REPRODUCE, study),
        Command("demo", "demo out --every 60", study, setup=use_tiny_demo),
    )
}
