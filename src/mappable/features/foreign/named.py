"""Encoders of others by name, such as `megaloc`: torch.hub models, pinned to a commit of their code.

Nobody in the project has run them: GitHub and the addresses of their weights were not reachable.
Commits are those at which a public archive stored their `hubconf.py`; sizes, lengths and licenses
are what their authors state.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappable.features.fetching import is_reachable
from mappable.features.foreign.description import Description, check_description
from mappable.features.foreign.hub import GITHUB, folder_of


@dataclass(frozen=True)
class NamedEncoder:
    """A published encoder. `needs` are Python packages of its code beside torch."""

    hub: str  # OWNER/REPO@COMMIT:ENTRY
    side: int  # width and height of images, in pixels
    dimensions: int
    license: str
    needs: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str | int], ...] = ()
    output: int | None = None  # number of the descriptor, if the model returns several values

    def description(self, name: str) -> Description:
        """The description that `hub` opens."""
        values: dict[str, Any] = {"hub": self.hub, "size": (self.side, self.side), "fit": "stretch"}
        values |= {"license": self.license, "arguments": dict(self.arguments), "normalize": True}
        return check_description(
            values if self.output is None else values | {"output": self.output}, name
        )

    def is_at_hand(self) -> bool:
        """True if its code is in the cache, or can be fetched now."""
        repository, _, rest = self.hub.partition("@")
        return folder_of(repository, rest.partition(":")[0]).is_dir() or is_reachable(GITHUB)


DINOV2 = "facebookresearch/dinov2@027a9ac3ac5ac2efcaeef5281519a37996a22af4"
ENCODERS: dict[str, NamedEncoder] = {  # the best one for unseen places first
    "megaloc": NamedEncoder(
        "gmberton/MegaLoc@e31e8e01de41042c9109c7e41c36a1493e22f269:get_trained_model",
        322,
        8448,
        "MIT",
        ("torchvision", "huggingface_hub"),
    ),
    "boq": NamedEncoder(
        "amaralibey/Bag-of-Queries@1a17a4d89506440e974c745baa584b47b40d6072:get_trained_boq",
        322,
        12288,
        "MIT",
        ("torchvision",),
        (("backbone_name", "dinov2"), ("output_dim", 12288)),
        output=0,
    ),
    "salad": NamedEncoder(
        "serizba/salad@07d713f542641faeecae14e305f19a79466f4211:dinov2_salad",
        322,
        8448,
        "GPL-3.0",
        ("pytorch_lightning",),
    ),
    "eigenplaces": NamedEncoder(
        "gmberton/EigenPlaces@92d54ea9b66b4a1e43f12230f7daa35b0d5b6a27:get_trained_model",
        512,
        2048,
        "MIT",
        ("torchvision",),
        (("backbone", "ResNet50"), ("fc_output_dim", 2048)),
    ),
    "dinov2-large": NamedEncoder(f"{DINOV2}:dinov2_vitl14", 224, 1024, "Apache-2.0"),
    "dinov2-base": NamedEncoder(f"{DINOV2}:dinov2_vitb14", 224, 768, "Apache-2.0"),
    "dinov2-small": NamedEncoder(f"{DINOV2}:dinov2_vits14", 224, 384, "Apache-2.0"),
}


def find_named(source: Path | str) -> NamedEncoder | None:
    """The encoder of this name; None if there is no such name, or if a file has it."""
    return None if Path(source).exists() else ENCODERS.get(str(source))


def best_at_hand() -> str | None:
    """The first encoder whose code is in the cache or can be fetched now; None without one."""
    return next((name for name, encoder in ENCODERS.items() if encoder.is_at_hand()), None)
