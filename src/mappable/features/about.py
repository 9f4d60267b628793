"""What an encoder file records: how it was made, which images it takes, what its distances mean."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mappable.places.images import Fit, Size

Channels = tuple[float, float, float]  # red, green, blue


def version_of_mappable() -> str:
    """The installed version; "" where the source is used without being installed."""
    try:
        return version("mappable")
    except PackageNotFoundError:
        return ""


@dataclass(frozen=True, kw_only=True)
class About:
    """The description that travels with an encoder's weights.

    `size` is (width, height); `mean` and `std` normalise RGB in [0, 1] and belong to the set `weights` that training
    began from ("random": none). `init_source` says whose images gave the clusters: "train", or a folder; "" if
    there are none yet. The radii are in `unit`, `feature_scale_squared` is the paper's F²; all are unknown before
    training. `proportional` says whether a geometric loss made squared feature distances follow those in the world.
    `data` is the fingerprint of the training images, `sequences` are those that they are of, `version` is that of
    mappable.
    """

    backbone: str = "vgg16"
    aggregator: str = "netvlad"
    clusters: int = 64
    weights: str
    size: Size
    fit: Fit
    mean: Channels
    std: Channels
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
    version: str = field(default_factory=version_of_mappable)

    @property
    def squared_distance_per_squared_feature(self) -> float | None:
        """The paper's lambda = r1² / F²: squared distance in `unit` for a squared feature distance.

        None where training did not make them proportional.
        """
        if not self.proportional or self.positive_radius is None or self.feature_scale_squared is None:
            return None
        return self.positive_radius**2 / self.feature_scale_squared

    def architecture(self) -> dict[str, Any]:
        """What of it decides on the descriptor of an image, beside the weights."""
        names = ("backbone", "aggregator", "clusters", "size", "fit", "mean", "std")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """All fields and lambda, as JSON can hold them."""
        return asdict(self) | {"squared_distance_per_squared_feature": self.squared_distance_per_squared_feature}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "About":
        """What `to_json` gave; KeyError, TypeError or ValueError if it is something else."""
        values = {"sequences": (), **values}  # which earlier versions did not tell
        known = {one.name: values[one.name] for one in fields(cls)}
        width, height = (int(side) for side in known["size"])
        mean, std = (tuple(float(value) for value in known[name]) for name in ("mean", "std"))
        if len(mean) != 3 or len(std) != 3:
            raise ValueError("mean and std must have three values")
        return cls(
            **known | {"size": (width, height), "mean": mean, "std": std, "sequences": tuple(known["sequences"])}
        )
