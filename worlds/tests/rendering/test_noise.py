"""Textures depend on these numbers: they must never change."""

import torch

from mappable_worlds.rendering.noise import cell, cell_noise, cloudy


def test_cell_noise_is_what_it_was() -> None:
    seeds = torch.tensor([0, 1, 2**31 - 1], dtype=torch.int32)
    values = cell_noise(seeds, torch.tensor([5, -7, 123456], dtype=torch.int32), 3)
    assert values.tolist() == [0.5209226012229919, 0.9352629780769348, 0.37470948696136475]


def test_cell_noise_is_flat_and_independent() -> None:
    columns = torch.arange(300, dtype=torch.int32)
    values = cell_noise(torch.tensor(9, dtype=torch.int32), columns[None], columns[:, None])
    assert values.min() >= 0
    assert values.max() < 1
    counts = torch.histc(values, 10, 0, 1)
    assert ((counts / 9000 - 1).abs() < 0.05).all()
    for first, second in ((values[:, 1:], values[:, :-1]), (values[1:], values[:-1])):
        together = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]
        assert together.abs() < 0.02


def test_cells_of_negative_positions_count_down() -> None:
    assert cell(torch.tensor([-1.5, -0.5, 0.5])).tolist() == [-2, -1, 0]


def test_cloudy_is_smooth_and_repeats() -> None:
    u = torch.linspace(0, 8, 5000)
    v = torch.full_like(u, 2.5)
    values = cloudy(u, v)
    assert values.diff().abs().max() < 0.2
    assert (cloudy(u + 8, v - 16) - values).abs().mean() < 1e-3
    assert values.std() > 0.15
