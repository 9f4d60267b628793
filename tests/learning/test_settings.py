"""Settings: what is taken, what is refused and in which words, how layers merge, and that the documentation is true."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.learning.settings import (
    Settings,
    load_settings,
    settings_to_yaml,
)

PAGE = (Path(__file__).parents[2] / "docs/settings.md").read_text("utf-8")


def settings_of(tmp_path: Path, text: str, preset: str | None = "street") -> Settings:
    file = tmp_path / "mine.yaml"
    file.write_text(text, "utf-8")
    return load_settings(preset, file)


def refusal(*arguments: Any) -> str:
    with pytest.raises(BadInputError) as caught:
        load_settings(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refusal_of_file(tmp_path: Path, text: str) -> str:
    file = tmp_path / "mine.yaml"
    file.write_text(text, "utf-8")
    return refusal("street", file).removeprefix(f"{tmp_path}/")


# How layers merge


def test_a_file_lies_over_the_preset_and_single_values_over_both(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("anchors: 4\nseed: 5\n")
    settings = load_settings("street", file, ["seed=6"])
    assert (settings.positive_radius, settings.anchors, settings.seed) == (10.0, 4, 6)


def test_the_weights_choose_the_backbone() -> None:
    assert load_settings("street").backbone == "vgg16"
    assert load_settings("street", None, ["weights=resnet50-keras"]).backbone == "resnet50_keras"
    assert (
        load_settings("street", None, ["weights=resnet50-torchvision", "backbone=none"]).backbone
        == "resnet50"
    )
    assert (
        load_settings("street", None, ["weights=random", "backbone=resnet50"]).backbone
        == "resnet50"
    )
    problem = refusal("street", None, ["weights=resnet50-keras", "backbone=vgg16"])
    assert problem.startswith(
        "--set: weights resnet50-keras belong to backbone resnet50_keras, but backbone is vgg16"
    )


@pytest.mark.parametrize(("preset", "kept"), [("street", "iterations"), ("oxford", "epochs")])
def test_a_budget_of_a_later_layer_takes_the_place_of_the_other_kind(
    preset: str, kept: str
) -> None:
    assert getattr(load_settings(preset), kept) is not None
    by_epochs = load_settings(preset, None, ["epochs=0.5"])
    assert (by_epochs.iterations, by_epochs.epochs) == (None, 0.5)
    by_iterations = load_settings(preset, None, {"iterations": 7})
    assert (by_iterations.iterations, by_iterations.epochs) == (7, None)
    unchanged = load_settings(
        preset, None, {"iterations": None} if kept == "epochs" else {"epochs": None}
    )
    assert unchanged == load_settings(preset)


# Values as people write them


def test_values_may_be_written_naturally(tmp_path: Path) -> None:
    text = """
# comments are fine
size: 160X120
feature_scale_squared: measure
cache_size: all
yaw_limit: 0.5236 # 30 degrees
learning_rate: 1e-6
iterations: 1e3
geometric_weight: 5
weights_file: ~
averaging:  .5
"""
    settings = settings_of(tmp_path, text)
    assert (settings.size, settings.feature_scale_squared, settings.cache_size) == (
        (160, 120),
        "measure",
        "all",
    )
    assert (settings.yaw_limit, settings.learning_rate, settings.iterations) == (0.5236, 1e-6, 1000)
    assert (settings.geometric_weight, settings.averaging) == (5.0, 0.5)
    assert (settings.dimensions, settings.weights_file) == (None, None)
    assert type(settings.iterations) is int


# What is refused, in which words


WRONG = [
    ("seed: true", "seed is true, expected a whole number from 0 to 4294967295"),
    ("anchors: 2.5", "anchors is 2.5, expected a whole number, 1 or more"),
    ("anchors: 0", "anchors is 0, expected a whole number, 1 or more"),
    ("anchors: many", "anchors is 'many', expected a whole number, 1 or more"),
    ("anchors:", "anchors is none, expected a whole number, 1 or more"),
    ("seed: 1e99", "seed is '1e99', expected a whole number from 0 to 4294967295"),
    ("margin: -1", "margin is -1, expected a number, 0 or more"),
    ("margin: .nan", "margin is nan, expected a number, 0 or more"),
    ("margin: nan", "margin is 'nan', expected a number, 0 or more"),
    ("learning_rate: .inf", "learning_rate is inf, expected a number above 0"),
    ("learning_rate: 1e999", "learning_rate is '1e999', expected a number above 0"),
    ("learning_rate: 0x" + "f" * 300, "learning_rate is "),
    ("averaging: 1", "averaging is 1, expected a number, 0 or more and below 1"),
    ("averaging: [1, 2]", "averaging is [1, 2], expected"),
    ("precision: half", "precision is 'half', expected auto, float32 or bfloat16"),
    ("fit: squeeze", "fit is 'squeeze', expected crop, pad or stretch"),
    (
        "yaw_limit: 30",
        "yaw_limit is 30, expected an angle in radians, above 0 and at most pi (30 degrees are",
    ),
    (
        "feature_scale_squared: guess",
        "feature_scale_squared is 'guess', expected a number above 0, or measure",
    ),
    ("cache_size: 0", "cache_size is 0, expected a whole number, 1 or more, or all"),
    ("cache_size: true", "cache_size is true, expected a whole number, 1 or more, or all"),
    ("size: 160", "size is 160, expected WIDTHxHEIGHT, such as 240x180, each 16 pixels or more"),
    ("size: 160x0", "size is '160x0', expected"),
    ("size: 15x160", "size is '15x160', expected"),
    ("size: 99999x99999", "size is '99999x99999', expected"),
    ("size: [160, 120, 3]", "size is [160, 120, 3], expected"),
    ("weights: 16", "weights is 16, expected text"),
    ("init_source: ' '", "init_source is ' ', expected text"),
    (
        "loss: tripet+huber",
        "unknown loss 'tripet+huber'; did you mean 'triplet+huber'? The losses are triplet, ",
    ),
]


@pytest.mark.parametrize(("line", "sentence"), WRONG)
def test_a_wrong_value_is_named_with_its_line_and_what_is_right(
    tmp_path: Path, line: str, sentence: str
) -> None:
    assert refusal_of_file(tmp_path, f"# mine\n\n{line}\n").startswith(
        f"mine.yaml, line 3: {sentence}"
    )


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["positive_radius=30"], "positive_radius is 30, expected less than negative_radius (25)"),
        (["negative_radius=10"], "positive_radius is 10, expected less than negative_radius (10)"),
        (
            ["clusters=101", "init_images=1"],
            "clusters is 101, expected at most 100, the local features of init_images",
        ),
        (["hard_negatives=7"], "hard_negatives is 7, expected 0 to 6 "),
        (["hard_negatives=6", "loss=quadruplet"], "hard_negatives is 6, expected 0 to 5 "),
        (
            ["negatives=0", "hard_negatives=0"],
            "negatives must be 1 or more for the loss 'triplet+huber', got 0",
        ),
        (
            ["mirrored=0.5", "trainable=last"],
            "mirrored is 0.5, expected 0, because trainable",
        ),
        (["light=0.2", "trainable=last"], "light is 0.2, expected 0, because trainable"),
    ],
)
def test_values_that_do_not_go_together_are_named_with_where_the_last_came_from(
    texts: list[str], sentence: str
) -> None:
    assert refusal("street", None, texts).startswith(f"--set: {sentence}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed: 1\nseed: 2\n", "mine.yaml, line 2: seed occurs twice, first in "),
        ("seed 1\n", "mine.yaml: contains no settings; write one per line, such as `seed: 1`"),
        ("- seed\n", "mine.yaml: contains no settings"),
        ("seed: 1\nanchors 2\n", "mine.yaml, line 3: not YAML (could not find expected ':')"),
        (
            "seed: 1\n  anchors: 2\n",
            "mine.yaml, line 2: not YAML (mapping values are not allowed here)",
        ),
        ("seed: 1\n\tanchors: 2\n", "mine.yaml, line 2: not YAML ("),
        ("seed: 1\nloss: [triplet\n", "mine.yaml, line 3: not YAML ("),
        (
            "seed: 1\nloss: \x07\n",
            "mine.yaml, line 2: not YAML (special characters are not allowed)",
        ),
        ("seed: 1\n---\nseed: 2\n", "mine.yaml, line 2: not YAML (but found another document)"),
        (
            "seed: !!python/object:os.system 1\n",
            "mine.yaml, line 1: not YAML (could not determine a constructor",
        ),
        ("seed: 2026-02-31\n", "mine.yaml: not YAML (day"),
        ("? [seed]\n: 1\n", "mine.yaml, line 1: unknown setting"),
    ],
)
def test_wrong_yaml_is_one_sentence_with_file_and_line(
    tmp_path: Path, text: str, sentence: str
) -> None:
    assert refusal_of_file(tmp_path, text).startswith(sentence)


# Presets, and writing settings down


def test_the_presets_of_the_paper_have_its_values() -> None:
    oxford, cold = load_settings("oxford"), load_settings("cold")
    assert (oxford.positive_radius, oxford.negative_radius, oxford.yaw_limit) == (10, 25, None)
    assert (cold.positive_radius, cold.negative_radius, cold.yaw_limit) == (1, 4, math.radians(30))
    assert (oxford.epochs, oxford.cache_every, oxford.landmarks, oxford.size) == (
        2,
        1000,
        200,
        (240, 180),
    )
    assert (cold.epochs, cold.cache_every, cold.landmarks, cold.size) == (1, 400, 100, (320, 240))
    for paper in (oxford, cold):
        assert (paper.margin, paper.second_margin, paper.geometric_weight) == (0.1, 0.2, 0.5)
        assert (paper.feature_scale_squared, paper.huber_delta) == (2.0, 1.0)
        assert (paper.anchors, paper.positives, paper.negatives, paper.hard_negatives) == (
            2,
            6,
            6,
            3,
        )
        assert (paper.learning_rate, paper.trainable) == (1e-6, "all")


@pytest.mark.medium
@given(
    learning_rate=st.floats(1e-30, 1e3),
    yaw_limit=st.none() | st.floats(1e-3, math.pi),
    cache_size=st.just("all") | st.integers(1, 10**6),
    init_source=st.text("abc 1:#-'\"{[&*!|>%@,é", min_size=1).filter(
        lambda text: text.strip() != ""
    ),
)
def test_any_values_survive_being_written(**values: Any) -> None:
    settings = load_settings("street", None, values)
    assert load_settings(None, None, yaml.safe_load(settings_to_yaml(settings))) == settings


# The documentation


def test_the_examples_of_the_page_of_settings_work(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    settings = settings_of(tmp_path, example)
    assert (settings.epochs, settings.iterations, settings.cache_size) == (3, None, "all")
    (python,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(python)
    for texts in (["yaw_limit=30"], ["positive_radius=30"]):
        assert f"error: {refusal('street', None, texts)}\n" in PAGE
