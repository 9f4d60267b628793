"""All settings of a training run: their meaning, and how to load and check them.

`load_settings` merges a preset, a YAML file and single values, in this order. The result is checked
and frozen.
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
from mappable.features.vision_models import PREFIX, PRETRAINED
from mappable.features.weights import WEIGHT_SETS, check_backbone
from mappable.learning.losses import LOSS_NAMES, Loss
from mappable.learning.setting_kinds import (
    Angle,
    Count,
    CountOrZero,
    ImageSize,
    Layers,
    LossName,
    NotNegative,
    Positive,
    Seed,
    Share,
    Text,
    kind_text,
)
from mappable.learning.setting_layers import preset_names as preset_names
from mappable.learning.setting_layers import read_file, read_overrides, read_preset
from mappable.places.images import Fit

# Names of settings in the paper and elsewhere.
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


# Of all images for the initial clusters; the paper gives no number, NetVLAD takes 50,000.
LOCAL_FEATURES = 120_000
LOCATIONS = 100  # of one image, at most


class WrongSettingsError(BadInputError):
    """Settings that cannot be used. `names` are the settings at fault; `load_settings` adds where
    they come from.
    """

    def __init__(self, names: Sequence[str], problem: str) -> None:
        super().__init__(names, problem)
        self.names = names
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class Settings(
    BaseModel, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
):
    """All settings of a training run, without its data. Settings are frozen, and an unknown name is
    an error.
    """

    # Radii
    positive_radius: Positive
    """Maximum distance from an anchor to its positives (the paper's r1), in the unit of the places.
    """
    negative_radius: Positive
    """Minimum distance from an anchor to its negatives (the paper's r2), in the unit of the places.
    """
    yaw_limit: Angle | None = None
    """A positive's yaw must differ from its anchor's by less than this, in radians; none turns the
    check off.
    """

    # Loss
    loss: LossName = "triplet+huber"
    """A visual loss (`triplet`, `quadruplet`, `lazy-triplet`, `lazy-quadruplet`), a geometric loss
    (`distance`, `huber`), or a combination such as `lazy-quadruplet+huber`.
    """
    margin: NotNegative = 0.1
    """Margin of the hinge between the best positive and the negatives (alpha), as a squared feature
    distance.
    """
    second_margin: NotNegative = 0.2
    """Margin of the second hinge of quadruplets, from the negatives to the other negative (beta),
    as a squared feature distance.
    """
    geometric_weight: NotNegative = 0.5
    """Weight of the geometric term in a combination with a visual term (gamma)."""
    feature_scale_squared: Positive | Literal["measure"] = "measure"
    """Squared feature distance that corresponds to the positive radius (F²). `measure` takes the
    largest one between positives before training.
    """
    huber_delta: Positive = 1.0
    """Residuals above this value count linearly, smaller ones squared (delta). Normalized residuals
    rarely exceed 1.
    """

    # Tuples
    anchors: Count = 2
    """Anchors per step. Each anchor has one tuple."""
    positives: Count = 6
    """Positives per anchor."""
    positives_from: Literal["all", "other-runs"] = "all"
    """Where positives come from: `all` images within the positive radius, or only those of
    `other-runs` (sequences other than the anchor's) if there are any.
    """
    negatives: CountOrZero = 6
    """Negatives per anchor, including the hard ones and the other negative of quadruplets."""
    hard_negatives: CountOrZero = 3
    """Number of negatives that are the nearest by feature distance. The other negatives are random.
    """
    cache_every: Count = 1000
    """Iterations between two refreshes of the feature cache, in which hard negatives are searched.
    """
    cache_size: Count | Literal["all"] = 4000
    """Random training images in the feature cache, in addition to the anchors; `all` caches every
    training image.
    """

    # Augmentation
    mirrored: Share = 0.0
    """Fraction of tuples whose images are all mirrored. Mirroring doubles the places to learn from
    and keeps their distances.
    """
    light: Share = 0.0
    """Strength of random changes to contrast, brightness and color per image: factors from
    exp(-light) to exp(light).
    """

    # Duration and speed
    iterations: CountOrZero | None = None
    """Training steps; 0 gives the encoder before training. Give either iterations or epochs."""
    epochs: Positive | None = None
    """How often every image is an anchor; 0.5 uses half of the images once. Give either iterations
    or epochs.
    """
    averaging: Share = 0.0
    """Decay of an exponential moving average of the weights, which becomes the encoder. The first 1
    / (1 - averaging) steps count equally. 0 turns it off: the encoder has the weights of the last
    step.
    """
    learning_rate: Positive = 1e-6
    """Learning rate of Adam, the same in all steps and for all layers."""
    trainable: Layers = "all"
    """Layers to train: `all`, or `last` for a laptop. `last` freezes the layers below the last
    block of the backbone (conv5 of VGG-16, conv4 of ResNet-50; all of a model of transformers) and
    computes their output once.
    """

    # Keeping what the weights know
    distillation: NotNegative = 0.0
    """Weight of a term that keeps the squared feature distances between anchor and negatives as
    they were before training.
    """

    # Network
    weights: Text = "vgg16-v1"
    """Weights to start from: `vgg16-v1`, `vgg16-caffe` (the paper's), `resnet50-keras`,
    `resnet50-torchvision`, `random`, or `pretrained` (the default) for a model of transformers.
    """
    weights_file: Text | None = None
    """File with these weights, used instead of a download."""
    backbone: Text = "vgg16"
    """Network that turns pixels into local features. By default, that of the weights; it is `vgg16`
    for random ones. Or a vision model of transformers, such as
    `transformers:facebook/dinov2-small`, or `transformers:FOLDER`.
    """
    clusters: Count = 64
    """Clusters of NetVLAD. A descriptor has 512 numbers per cluster with VGG-16, and 1,024 with
    ResNet-50.
    """
    dimensions: Count | None = None
    """Numbers in a descriptor, at most, such as 768: a linear projection reduces what NetVLAD
    gives. It is fitted to training images after training. none keeps all numbers.
    """
    size: ImageSize = (240, 180)
    """Width and height of the network's input images, in pixels."""
    fit: Fit = "crop"
    """How an image with another aspect ratio is made to fit the size: `crop`, `pad` with bars, or
    `stretch`.
    """
    init_source: Text = "train"
    """Images for the initial clusters: `train`, or the folder of another converted set (the paper
    uses Pittsburgh).
    """
    init_images: Count = 500
    """Number of images for the initial clusters, with up to 100 random local features each, 120,000
    in all.
    """

    # Monitor and checkpoints
    landmarks: CountOrZero = 200
    """Landmarks of the monitor, chosen among the training places. It reports the fraction of
    calibration images that find one within the positive radius. 0 turns it off.
    """
    monitor_every: CountOrZero = 0
    """Iterations between two runs of the monitor; 0 runs it only before and after training."""
    checkpoint_every: Count = 200
    """Iterations between two checkpoints, which are at least 10 seconds apart."""

    # Machine
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the backbone; `auto` uses bfloat16 if the device computes with it."""
    seed: Seed = 0
    """Seed of all random choices. With the same seed, every loss gets the same anchors and
    positives.
    """

    def build_loss(self, feature_scale_squared: float) -> Loss:
        """Build the loss with a feature scale that is a number, not `measure`."""
        names = {field.name for field in fields(Loss)} & Settings.model_fields.keys() - {
            "feature_scale_squared"
        }
        options = {name: getattr(self, name) for name in names}
        return Loss(self.loss, feature_scale_squared=feature_scale_squared, **options)

    @model_validator(mode="wrap")
    @classmethod
    def _report_one_problem(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        """Raise for one problem only. Unknown names come first, because a mistyped setting is also
        missing.
        """
        if isinstance(values, Mapping) and str(values.get("backbone")).startswith(PREFIX):
            values = {"weights": PRETRAINED, **values}
        elif isinstance(values, Mapping) and values.get("backbone") is None:
            weights = WEIGHT_SETS.get(str(values.get("weights")), WEIGHT_SETS["vgg16-v1"])
            values = {**values, "backbone": weights.backbone}
        try:
            settings = check(values)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            first = next(
                (problem for problem in problems if problem["type"] == "extra_forbidden"),
                problems[0],
            )
            name = str(first["loc"][0])
            raise WrongSettingsError(
                [name], _problem_text(first["type"], name, values.get(name))
            ) from None
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        """Raise if settings contradict each other, although each is valid alone."""
        if self.positive_radius >= self.negative_radius:
            raise WrongSettingsError(
                ["positive_radius", "negative_radius"],
                f"positive_radius is {self.positive_radius:g}, expected less than negative_radius "
                f"({self.negative_radius:g})",
            )
        if (self.iterations is None) == (self.epochs is None):
            given = "neither is set" if self.iterations is None else "both are set"
            raise WrongSettingsError(
                ["iterations", "epochs"], f"set either iterations or epochs; {given}"
            )
        try:
            check_backbone(self.weights, self.backbone)
        except BadInputError as error:
            raise WrongSettingsError(["backbone", "weights"], str(error)) from None
        for change in ("mirrored", "light"):
            if self.trainable != "all" and getattr(self, change):
                raise WrongSettingsError(
                    [change, "trainable"],
                    f"{change} is {getattr(self, change):g}, expected 0, because trainable"
                    f" {self.trainable} reads every image only once",
                )
        most = self.init_images * locations_per_image(self.init_images)
        if self.clusters > most:
            raise WrongSettingsError(
                ["clusters", "init_images"],
                f"clusters is {self.clusters}, expected at most {most:,}, the local features of"
                " init_images",
            )
        try:
            self.build_loss(
                1.0 if self.feature_scale_squared == "measure" else self.feature_scale_squared
            )
        except BadInputError as error:
            options = ["negatives", "hard_negatives"] if self.loss in LOSS_NAMES else []
            raise WrongSettingsError(["loss", *options], str(error)) from None


def locations_per_image(images: int) -> int:
    """Random local features per image for the initial clusters of `init_images` images."""
    return max(1, min(LOCATIONS, LOCAL_FEATURES // images))


def load_settings(
    preset: str | None = None,
    file: Path | str | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
) -> Settings:
    """Merge a preset, a YAML file and single `overrides`; a later layer replaces the values of an
    earlier one.

    `overrides` is a mapping, or a list of "key=value" texts. A later layer with `trainable: last`
    switches off the `light` and `mirrored` of earlier layers.

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
                merged.pop(other, None)  # a later layer replaces the other kind of budget too
        if values.get("trainable", "all") != "all":
            for change in ("mirrored", "light"):
                # Of an earlier layer: frozen layers read every image only once.
                merged.pop(change, None)
        merged |= values
    try:
        return Settings.model_validate(merged)
    except WrongSettingsError as error:
        sources = [
            layer[name].source
            for layer in reversed(layers)
            for name in error.names
            if name in layer
        ]
        source = f"{sources[0]}: " if sources and sources[0] else ""
        raise BadInputError(f"{source}{error}") from None


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded settings of a result or a run. A setting that its version did not know yet gets the
    default.
    """
    known = Settings.model_fields.items()
    return {name: None if field.is_required() else field.default for name, field in known} | dict(
        values
    )


def settings_to_yaml(settings: Settings) -> str:
    """All settings as YAML text. `load_settings` reads the same settings back."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def value_text(value: Any) -> str:
    """A value in the form that users type: 1e-6, 240x180, none, true."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return f"{value:.4g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _kind(name: str) -> str:
    return kind_text(get_type_hints(Settings, include_extras=True)[name])


def _problem_text(problem: str, name: str, value: Any) -> str:
    if problem == "extra_forbidden":
        known = list(Settings.model_fields)
        words = [word for word in (*SYNONYMS, *known) if len(word) > 3 or word == name.lower()]
        near = get_close_matches(name.lower(), words, n=1)
        hint = (
            f"did you mean {SYNONYMS.get(near[0], near[0])!r}?"
            if near
            else f"the settings are {', '.join(known)}"
        )
        return f"unknown setting {name!r}; {hint}"
    if problem == "missing":
        return (
            f"{name} is not set; set it, or choose one of the presets {', '.join(preset_names())}"
        )
    return f"{name} is {_shortened(value)}, expected {_kind(name)}"


def _shortened(value: Any) -> str:
    """A value for an error message, cut if it is long."""
    short = Repr()
    short.maxlevel, short.maxlist, short.maxstring, short.maxother, short.maxlong = 1, 4, 60, 60, 60
    return value_text(value) if value is None or isinstance(value, bool) else short.repr(value)
