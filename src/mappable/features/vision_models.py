"""Vision models of the library transformers as backbones: `transformers:facebook/dinov2-small`, or a local folder.

Only configurations (JSON) and safetensors are read. Code that a model brings along never runs.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError, install_extra, shown
from mappable.features.about import Channels
from mappable.features.backbones import Backbone
from mappable.places.images import Size

PREFIX = "transformers:"
PRETRAINED = "pretrained"  # name of a model's own weights, in place of a weight set
# Implementations of attention; any other name can be code on transformers' hub.
BUILT_IN = (None, "eager", "sdpa")
# Keys that name a further model.
FETCHED = ("backbone", "use_pretrained_backbone", "use_timm_backbone")
LOCAL_FACTS = (
    "_name_or_path",
    "architectures",
    "auto_map",
    "dtype",
    "torch_dtype",
    "transformers_version",
)


@dataclass(frozen=True)
class PretrainedModel:
    """The configuration of a model as JSON values, its tensors, and the normalization of its
    images.
    """

    configuration: dict[str, Any]
    tensors: dict[str, Tensor]
    mean: Channels
    std: Channels


class VisionModel(Backbone):
    """A vision model without its class and register tokens. `lower` is the whole model, so
    `trainable` can freeze it.

    Dropout and batch normalization always work as in use: the same image gives the same descriptor
    in any batch.
    """

    recordable = False  # some models read numbers from the GPU

    def __init__(self, configuration: Mapping[str, Any], name: str = "the model") -> None:
        super().__init__()
        with _one_sentence(name):
            from transformers import AutoConfig, AutoModel

            refuse_downloads(configuration, name)
            values = dict(configuration)
            chosen = AutoConfig.for_model(values.pop("model_type"), **values)
            model = AutoModel.from_config(chosen, trust_remote_code=False)
        if model.main_input_name != "pixel_values":
            raise BadInputError(
                f"{name}: is a {chosen.model_type} model, expected a vision model, such as dinov2"
            )
        self.model: nn.Module = model.float().eval()
        sizes = getattr(chosen, "hidden_sizes", None)
        self.channels = int(sizes[-1] if sizes else chosen.hidden_size)
        patch = getattr(chosen, "patch_size", 1)
        self.stride = int(patch if isinstance(patch, int) else patch[0])
        self.options = {"interpolate_pos_encoding"} & signature(model.forward).parameters.keys()

    def train(self, mode: bool = True) -> "VisionModel":
        """Keep the model as in use."""
        return super().train(False)

    def check(self, size: Size, name: str) -> None:
        """Raise if images of this size do not give a map of local descriptors."""
        width, height = size
        if width % self.stride or height % self.stride:
            near = "x".join(str(max(1, round(side / self.stride)) * self.stride) for side in size)
            raise BadInputError(
                f"size is {width}x{height}, expected multiples of {self.stride} pixels for {name},"
                f" such as {near}"
            )
        with torch.no_grad(), _one_sentence(name):
            maps = self.lower(torch.zeros(1, 3, height, width))
        if maps.ndim != 4 or maps.shape[1] != self.channels:
            shape = " x ".join(map(str, maps.shape))
            raise BadInputError(
                f"{name}: gives {shape} numbers per image, expected a map of local descriptors"
            )

    def lower(self, images: Tensor) -> Tensor:
        """Maps (n, channels, rows, columns) for normalized images (n, 3, height, width)."""
        output = self.model(
            pixel_values=images, **dict.fromkeys(self.options, True)
        ).last_hidden_state
        if output.ndim == 4:
            maps: Tensor = output
            return maps
        rows, columns = images.shape[2] // self.stride, images.shape[3] // self.stride
        # Class and register tokens come first.
        patches = output[:, output.shape[1] - rows * columns :]
        return patches.transpose(1, 2).unflatten(2, (rows, columns))  # type: ignore[no-any-return]

    def upper(self, activations: Tensor) -> Tensor:
        """The maps themselves."""
        return activations


def fetch_model(name: str) -> PretrainedModel:
    """Read a pretrained model from a local folder, from the cache of transformers, or from its hub."""
    if not Path(name).is_dir() and name.count("/") != 1:
        raise BadInputError(
            f"{name}: no such folder with a model of transformers; a model on its hub is OWNER/NAME"
        )
    with _one_sentence(name):
        from transformers import AutoConfig, AutoModel
        from transformers.utils import cached_file

        chosen = AutoConfig.from_pretrained(name, trust_remote_code=False)
        refuse_downloads(vars(chosen), name)  # its JSON lacks a few of its values
        configuration = {
            key: value
            for key, value in json.loads(chosen.to_json_string(use_diff=False)).items()
            if key not in LOCAL_FACTS
        }
        with torch.device("meta"):
            # Raises for a model of another kind, before its weights are read.
            VisionModel(configuration, name)
        file = cached_file(
            name, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False
        )
        if file is None:
            raise BadInputError(
                f"{name}: has no preprocessor_config.json, which says how to normalize images"
            )
        mean, std = _normalization(json.loads(Path(file).read_text("utf-8")), name)
        model = AutoModel.from_pretrained(
            name, config=chosen, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
    tensors = {f"model.{key}": value for key, value in model.state_dict().items()}
    return PretrainedModel(configuration, tensors, mean, std)


def refuse_downloads(configuration: Any, name: str) -> None:
    """Raise if a configuration lets transformers fetch code or other models. Anybody can have
    written it.
    """
    if isinstance(configuration, list | tuple):
        configuration = dict(enumerate(configuration))
    elif hasattr(configuration, "to_dict"):  # a part of a configuration that transformers has read
        configuration = vars(configuration)
    if not isinstance(configuration, Mapping):
        return
    for key, value in configuration.items():
        asked = str(key).removesuffix("_internal")
        if (
            (asked.endswith("_implementation") and value not in BUILT_IN)
            or (asked in FETCHED and value)
            or (asked == "model_type" and str(value).startswith("timm"))
        ):
            raise BadInputError(
                f"{name}: its configuration has {key} {shown(value)}, which would fetch more than"
                " weights"
            )
        refuse_downloads(value, name)


def _normalization(values: Mapping[str, Any], name: str) -> tuple[Channels, Channels]:
    """Mean and standard deviation of RGB in [0, 1]."""
    if not values.get("do_normalize", True):
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    found = [[float(value) for value in values.get(key, ())] for key in ("image_mean", "image_std")]
    if any(len(value) != 3 for value in found) or 0 in found[1]:
        raise BadInputError(
            f"{name}: preprocessor_config.json must give three numbers image_mean and image_std"
        )
    (red, green, blue), (red_std, green_std, blue_std) = found
    return (red, green, blue), (red_std, green_std, blue_std)


@contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    """Context that turns errors of transformers about a model into one sentence."""
    if find_spec("transformers") is None:
        raise BadInputError(f"{name}: needs transformers; {install_extra('transformers')}")
    try:
        yield
    except BadInputError:
        raise
    except MemoryError:
        raise
    # Transformers and the libraries below it promise no closed set of errors.
    except Exception as error:
        reason = " ".join(str(error).split()).split(". ")[0][:200]
        raise BadInputError(
            f"{name}: transformers cannot open it as a vision model ({reason})"
        ) from None
