"""Geometric residuals: loops, mappable features, and the paper's literal form beside the normalised one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mappable.learning.losses.residuals import literal_residuals, normalised_residuals

SIZES = st.floats(0.01, 100)


def test_two_anchors_by_hand() -> None:
    positive, squared_metres = torch.tensor([[0.5, 1.0], [2.0, 0.0]]), torch.tensor([[25.0, 25.0], [0.0, 100.0]])
    # F² = 2 stands for 10 m: a squared feature distance of 0.5 for 5 m, 1 for 7.07 m.
    assert normalised_residuals(positive, squared_metres, 2.0, 10.0).tolist() == [[0.0, 0.25], [1.0, -1.0]]
    assert literal_residuals(positive, squared_metres, 2.0, 10.0).tolist() == [[0.0, -25.0], [-100.0, 100.0]]


def test_they_are_those_of_a_loop(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    positive, squared_metres = (torch.rand(3, 4, generator=generator, dtype=dtype) * size for size in (2, 100))
    found = (
        normalised_residuals(positive, squared_metres, 0.6, 10.0),
        literal_residuals(positive, squared_metres, 0.6, 10.0),
    )
    for row in range(3):
        for column in range(4):
            feature, metres = positive[row, column].item(), squared_metres[row, column].item()
            assert found[0][row, column].item() == pytest.approx(feature / 0.6 - metres / 100, rel=1e-5, abs=1e-6)
            assert found[1][row, column].item() == pytest.approx(metres - 100 / 0.6 * feature, rel=1e-5, abs=1e-4)


@given(metres=st.floats(0, 100), scale=SIZES, radius=SIZES)
def test_mappable_features_have_none(metres: float, scale: float, radius: float) -> None:
    squared_metres = torch.tensor([metres**2]).double()
    features = scale * squared_metres / radius**2
    relative = squared_metres / radius**2
    assert torch.all(normalised_residuals(features, squared_metres, scale, radius).abs() <= 1e-14 * relative)
    assert torch.all(literal_residuals(features, squared_metres, scale, radius).abs() <= 1e-14 * squared_metres)


@given(feature=st.floats(0, 4), metres=st.floats(0, 100), scale=SIZES, radius=SIZES)
def test_the_literal_form_is_the_normalised_one_times_minus_the_squared_radius(
    feature: float, metres: float, scale: float, radius: float
) -> None:
    options = torch.tensor([feature]).double(), torch.tensor([metres**2]).double(), scale, radius
    size = radius**2 / scale * feature + metres**2
    literal, normalised = literal_residuals(*options).item(), normalised_residuals(*options).item()
    assert literal == pytest.approx(-(radius**2) * normalised, abs=1e-14 * size)
