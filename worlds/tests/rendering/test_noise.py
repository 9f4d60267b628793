"""Textures depend on these numbers: they must never change."""

import torch

from mappable_worlds.rendering.noise import cell_noise


def test_cell_noise_is_what_it_was() -> None:
    seeds = torch.tensor([0, 1, 2**31 - 1], dtype=torch.int32)
    values = cell_noise(seeds, torch.tensor([5, -7, 123456], dtype=torch.int32), 3)
    assert values.tolist() == [0.5209226012229919, 0.9352629780769348, 0.37470948696136475]
