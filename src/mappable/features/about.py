"""The description in an encoder file: how the encoder was made, which images it takes, what its distances mean."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mappable.places.images import Fit, Size

Channels = tuple[float, float, float]  # red, green, blue


def version_of_mappable() -> str:
    """The installed version; "" if the source is used without an installation."""
    try:
        return version("mappable")
    except PackageNotFoundError:
        return ""


@dataclass(frozen=True, kw_only=True)
class About:
    """The description that is stored with an encoder's weights.

    - `weights`: the weight set from which training started, or "random".
    - `size`: (width, height) of the images. `mean` and `std` normalize RGB in [0, 1] as the weight
      set expects.
    - `dimensions`: numbers in a descriptor after the reduction; None if it keeps all numbers of the
      aggregator.
    - `model`: configuration of a backbone that is a vision model of transformers.
    - `init_source`: images that gave the clusters: "train", or a folder; "" if there are no
      clusters yet.
    - `positive_radius` and `negative_radius`: in `unit`. `feature_scale_squared`: the paper's F².
      All of them are unknown before training.
    - `proportional`: whether a geometric loss made squared feature distances follow squared
      distances in the world.
    - `data`: fingerprint of the training images. `sequences`: the sequences of the training images.
    - `foreign`: name, code version and license of an encoder that is not ours; {} for ours.
    - `version`: version of mappable.
    """

    backbone: str = "vgg16"
    clusters: int = 64
    dimensions: int | None = None
    weights: str
    size: Size
    fit: Fit
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    model: Mapping[str, Any] | None = None
    init_source: str = ""
    unit: str = ""
    positive_radius: float | None = None
    negative_radius: float | None = None
    feature_scale_squared: float | None = None
    proportional: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    data: str = ""
    sequences: tuple[str, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    version: str = field(default_factory=version_of_mappable)

    @property
    def squared_distance_per_squared_feature(self) -> float | None:
        """The paper's lambda = r1² / F²: squared distance in `unit` per squared feature distance.

        None if training did not make the two proportional.
        """
        if (
            not self.proportional
            or self.positive_radius is None
            or self.feature_scale_squared is None
        ):
            return None
        return self.positive_radius**2 / self.feature_scale_squared

    def architecture(self) -> dict[str, Any]:
        """The fields on which the descriptor of an image depends, in addition to the weights."""
        names = ("backbone", "clusters", "dimensions", "size", "fit", "mean", "std")
        found = {name: getattr(self, name) for name in names}
        if self.model is not None:
            # Wherever the model came from.
            found |= {"backbone": "transformers", "model": self.model}
        return found

    def to_json(self) -> dict[str, Any]:
        """All fields and lambda, as JSON values."""
        return asdict(self) | {
            "squared_distance_per_squared_feature": self.squared_distance_per_squared_feature
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "About":
        """Inverse of `to_json`. Raises KeyError, TypeError or ValueError for other values."""
        known = {field.name: values[field.name] for field in fields(cls)}
        width, height = (int(side) for side in known["size"])
        mean, std = (tuple(float(value) for value in known[name]) for name in ("mean", "std"))
        if len(mean) != 3 or len(std) != 3:
            raise ValueError("mean and std must have three values")
        foreign = {
            name: str(known["foreign"][name])
            for name in ("name", "code", "license")
            if known["foreign"]
        }
        return cls(
            **known
            | {
                "size": (width, height),
                "mean": mean,
                "std": std,
                "sequences": tuple(known["sequences"]),
                "foreign": foreign,
            }
        )
