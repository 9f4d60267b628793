"""All settings of a training run, with their meaning, and how to load them.

`load_settings` merges them in that order; what comes out is checked and does not change any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Any, Literal, Self, get_type_hints

import yaml
from pydantic import BaseModel, ModelWrapValidatorHandler, ValidationError, model_validator

from mappable.errors import BadInputError
from mappable.learning.losses import LOSS_NAMES, Loss
from mappable.learning.setting_kinds import (
    Angle,
    Count,
    CountOrZero,
    ImageSize,
    LossName,
    NotNegative,
    Positive,
    Seed,
    Share,
    Text,
    Truth,
    kind_text,
)
from mappable.learning.setting_layers import preset_names as preset_names
from mappable.learning.setting_layers import read_file, read_overrides, read_preset
from mappable.places.images import Fit

# What the settings are called in the paper and elsewhere.
SYNONYMS = {
    "r1": "positive_radius",
    "r2": "negative_radius",
    "alpha": "margin",
    "beta": "second_margin",
    "gamma": "geometric_weight",
    "delta": "huber_delta",
    "f2": "feature_scale_squared",
    "lr": "learning_rate",
    "batch": "anchors",
}


class WrongSettingsError(BadInputError):
    """Settings that cannot be used; whoever read them knows where those of the `names` come from."""

    def __init__(self, names: Sequence[str], problem: str) -> None:
        super().__init__(names, problem)
        self.names = names
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class Settings(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True):
    """Everything that decides what a training run does, apart from its data. Frozen; unknown names are refused."""

    # What is near and what is far
    positive_radius: Positive
    """Images at most this far from the anchor are its positives (the paper's r1), in the unit of the places."""
    negative_radius: Positive
    """Images at least this far from the anchor are negatives (the paper's r2), in the unit of the places."""
    yaw_limit: Angle | None = None
    """Positives must look the same way: their yaw differs by less than this from the anchor's, in radians."""

    # The loss
    loss: LossName = "triplet+huber"
    """A visual loss (`triplet`, `quadruplet`, `lazy-triplet`, `lazy-quadruplet`), a geometric one (`distance`,
    `huber`), or both, such as `lazy-quadruplet+huber`."""
    margin: NotNegative = 0.1
    """Margin of the hinge between positive and negatives (alpha), a squared feature distance."""
    second_margin: NotNegative = 0.2
    """Margin of the second hinge, of negatives and other negative in quadruplets (beta), a squared feature distance."""
    geometric_weight: NotNegative = 0.5
    """Weight of the geometric term beside a visual one (gamma)."""
    feature_scale_squared: Positive | Literal["measure"] = "measure"
    """The squared feature distance that stands for the positive radius (F²); `measure` takes the largest between
    positives before training."""
    huber_delta: Positive = 1.0
    """Residuals above it count linearly, those below squared (delta); 1 is where the normalised ones rarely get."""
    normalised: Truth = True
    """Divide distances by positive radius and feature scale and take the mean over positives; false is the paper's
    literal form, squared metres and a sum."""
    second_hinge: Literal["features", "residuals"] = "features"
    """What the second hinge of quadruplets with a geometric term compares: `residuals` as in the released code."""

    geometric_pairs: Literal["anchor", "all"] = "anchor"
    """Whose distances the geometric term compares: `anchor` with each positive, as in the paper, or `all` pairs of
    anchor and positives."""

    # The tuples
    anchors: Count = 2
    """Anchors, and so tuples, of one step."""
    positives: Count = 6
    """Positives of an anchor."""
    positives_from: Literal["all", "other-runs"] = "all"
    """Where positives are drawn from: `all` images that are near, or those of `other-runs` than the anchor's (other
    sequences), where there are any."""
    negatives: CountOrZero = 6
    """Negatives of an anchor, the hard ones and the other negative of quadruplets included."""
    hard_negatives: CountOrZero = 3
    """How many of the negatives are the nearest by feature; the rest is drawn at random."""
    cache_every: Count = 1000
    """Iterations between two refreshes of the features that hard negatives are looked for in."""
    cache_size: Count | Literal["all"] = 4000
    """Training images among which hard negatives are looked for, besides the anchors themselves; `all` of them."""

    # Changes of the images
    mirrored: Share = 0.0
    """Share of the tuples whose images are all mirrored: twice as many places to learn from, equally far apart."""
    light: Share = 0.0
    """How much contrast, brightness and colour of each image are changed: by factors from exp(-light) to exp(light)."""

    # How long and how fast
    iterations: CountOrZero | None = None
    """Steps of training; 0 for the encoder as it is before. Give either iterations or epochs."""
    epochs: Positive | None = None
    """How often every image is an anchor; 0.5 is half of them once. Give either iterations or epochs."""
    averaging: Share = 0.0
    """Above 0, the encoder is in the end a mean of its weights after all steps, in which each counts this many times
    what the one after it counts (the first 1 / (1 - averaging) count the same); 0 for the weights of the last step."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam with its customary decay rates 0.9 and 0.999, or SGD with momentum."""
    learning_rate: Positive = 1e-6
    """Learning rate, the same in all steps."""
    momentum: Share = 0.9
    """Momentum of SGD; Adam has none."""
    weight_decay: NotNegative = 0.0
    """Weight decay; with SGD 0.001 is customary."""
    trainable: Literal["all", "conv5"] = "all"
    """`conv5` freezes what lies below the last block of the backbone and computes its output once: for a laptop."""

    # The network
    weights: Text = "vgg16-v1"
    """The weights to start from: `vgg16-v1`, `vgg16-caffe` (the paper's), or `random`."""
    weights_file: Text | None = None
    """A file with these weights, if they are not to be fetched."""
    backbone: Text = "vgg16"
    """The network that turns pixels into local features."""
    aggregator: Text = "netvlad"
    """The layer that turns local features into one descriptor."""
    clusters: Count = 64
    """Clusters of the aggregator; a descriptor has 512 numbers for each."""
    size: ImageSize = (240, 180)
    """Width and height in pixels that images are brought to."""
    fit: Fit = "crop"
    """How an image of another shape is brought to the size: by cropping, by bars, or by stretching."""
    init_source: Text = "train"
    """Whose images give the first clusters: `train`, or the folder of another converted set (the paper: Pittsburgh)."""
    init_images: Count = 500
    """Images that give the first clusters."""
    init_locations: Count = 100
    """Local features taken from each of these images, at random."""
    whitening: Count | None = None
    """Dimensions that descriptors are reduced to by PCA-whitening after training."""

    # Watching and saving
    landmarks: Count = 200
    """Landmarks of the monitor, chosen among the training places."""
    monitor_queries: CountOrZero = 500
    """Queries of the monitor: the share of them that finds a landmark within the positive radius; 0 for no monitor."""
    monitor_every: CountOrZero = 0
    """Iterations between two looks at the monitor; 0 for only before and after training."""
    checkpoint_every: Count = 200
    """Iterations between two checkpoints."""
    checkpoint_seconds: NotNegative = 10.0
    """Seconds between two checkpoints, at least: one that would come sooner is left out."""

    # The machine
    micro_batch: Count | None = None
    """Anchors of one pass with gradients, if all anchors of a step at once take too much memory: same gradients."""
    batch_size: Count | None = None
    """Images of one pass without gradients; chosen by the device if not given."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the backbone; `auto` takes bfloat16 where the device computes with it."""
    seed: Seed = 0
    """What all random choices follow from; every loss has the same anchors and positives by the same seed."""

    def build_loss(self, feature_scale_squared: float) -> Loss:
        """The loss, with a feature scale that is a number by now."""
        options = [one.name for one in fields(Loss) if one.name not in ("name", "feature_scale_squared")]
        named = {name: getattr(self, name) for name in options}
        return Loss(self.loss, feature_scale_squared=feature_scale_squared, **named)

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_sentence(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        """The first thing that is wrong, with the most telling first: what was mistyped is also missing."""
        try:
            settings = check(values)
        except ValidationError as error:
            found = error.errors(include_url=False)
            first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
            name = str(first["loc"][0])
            raise WrongSettingsError([name], _sentence(first["type"], name, values.get(name))) from None
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        """Refuse values that are each right, but not beside each other."""
        if self.positive_radius >= self.negative_radius:
            raise WrongSettingsError(
                ["positive_radius", "negative_radius"],
                f"positive_radius is {self.positive_radius:g}, but should be smaller than negative_radius, which is "
                f"{self.negative_radius:g}",
            )
        if (self.iterations is None) == (self.epochs is None):
            both = "neither is" if self.iterations is None else "both are"
            raise WrongSettingsError(["iterations", "epochs"], f"give either iterations or epochs; {both} given")
        if self.micro_batch is not None and self.micro_batch > self.anchors:
            raise WrongSettingsError(
                ["micro_batch", "anchors"],
                f"micro_batch is {self.micro_batch}, but should be at most anchors, which is {self.anchors}",
            )
        if self.trainable != "all" and (self.mirrored or self.light):
            raise WrongSettingsError(
                ["mirrored", "light", "trainable"],
                f"images cannot be changed (mirrored is {self.mirrored:g}, light {self.light:g}) where trainable is "
                f"{self.trainable}, which sees each of them only once; set both to 0",
            )
        if self.clusters > self.init_images * self.init_locations:
            raise WrongSettingsError(
                ["clusters", "init_images", "init_locations"],
                f"clusters is {self.clusters}, but should be at most init_images times init_locations, which is "
                f"{self.init_images * self.init_locations}",
            )
        try:
            self.build_loss(1.0 if self.feature_scale_squared == "measure" else self.feature_scale_squared)
        except BadInputError as error:
            of_tuples = ["second_hinge", "normalised", "negatives", "hard_negatives"] if self.loss in LOSS_NAMES else []
            raise WrongSettingsError(["loss", *of_tuples], str(error)) from None


def load_settings(
    preset: str | None = None,
    file: Path | str | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
) -> Settings:
    """The settings of a preset, over them those of a YAML file, over them single ones: a mapping, or "key=value" texts.

    >>> load_settings("street", overrides=["epochs=2"]).iterations is None
    True
    """
    layers = [] if preset is None else [read_preset(preset)]
    layers += [] if file is None else [read_file(Path(file))]
    layers += [read_overrides(overrides)]
    merged: dict[str, Any] = {}
    for layer in layers:
        values = {name: given.value for name, given in layer.items()}
        for name, other in (("iterations", "epochs"), ("epochs", "iterations")):
            if values.get(name) is not None:
                merged.pop(other, None)  # a budget given later is meant instead, not as well
        merged |= values
    try:
        return Settings.model_validate(merged)
    except WrongSettingsError as error:
        sources = [layer[name].source for layer in reversed(layers) for name in error.names if name in layer]
        source = f"{sources[0]}: " if sources and sources[0] else ""
        raise BadInputError(f"{source}{error}") from None


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a result or a run says of its settings; those that its version knew nothing of are what it did."""
    known = Settings.model_fields.items()
    return {name: None if field.is_required() else field.default for name, field in known} | dict(values)


def settings_to_yaml(settings: Settings) -> str:
    """All settings as a YAML file that `load_settings` reads back to the same."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def value_text(value: Any) -> str:
    """A value as one would write it: 1e-6, 240x180, none, true."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return f"{value:.4g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _kind(name: str) -> str:
    return kind_text(get_type_hints(Settings, include_extras=True)[name])


def _sentence(problem: str, name: str, value: Any) -> str:
    if problem == "extra_forbidden":
        known = list(Settings.model_fields)
        words = [word for word in (*SYNONYMS, *known) if len(word) > 3 or word == name.lower()]
        near = get_close_matches(name.lower(), words, n=1)
        hint = f"did you mean {SYNONYMS.get(near[0], near[0])!r}?" if near else f"there are {', '.join(known)}"
        return f"there is no setting {name!r}; {hint}"
    if problem == "missing":
        return f"{name} is not set; set it, or name one of the presets {', '.join(preset_names())}"
    return f"{name} is {_shown(value)}, but should be {_kind(name)}"


def _shown(value: Any) -> str:
    """A value for a sentence: as people write it, and never long."""
    short = Repr()
    short.maxlevel, short.maxlist, short.maxstring, short.maxother, short.maxlong = 1, 4, 60, 60, 60
    return value_text(value) if value is None or isinstance(value, bool) else short.repr(value)
