"""NetVLAD against explicit loops in float64, and the rule that initializes it."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from mappable.arrays import Floats
from mappable.features.encoder import Encoder
from mappable.features.netvlad import NetVLAD


def random_layer(channels: int = 5, clusters: int = 3, seed: int = 0) -> NetVLAD:
    layer = NetVLAD(channels, clusters)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return layer


def slow_netvlad(local: Floats, assignment: Floats, centers: Floats) -> Floats:
    """Section 2.3 location by location, for local descriptors (locations, channels) of one image."""
    clusters, channels = centers.shape
    sums = np.zeros((clusters, channels))
    for location in range(len(local)):
        x = local[location] / math.sqrt(sum(value**2 for value in local[location]))
        scores = [sum(assignment[k][c] * x[c] for c in range(channels)) for k in range(clusters)]
        total = sum(math.exp(score) for score in scores)
        for k in range(clusters):
            for c in range(channels):
                sums[k, c] += math.exp(scores[k]) / total * (x[c] - centers[k][c])
    for k in range(clusters):
        sums[k] /= math.sqrt(sum(value**2 for value in sums[k]))
    return sums.ravel() / math.sqrt(sum(value**2 for value in sums.ravel()))


def in_float64(layer: NetVLAD) -> tuple[Floats, Floats]:
    return layer.assignment.detach().double().numpy(), layer.centres.detach().double().numpy()


def test_descriptors_are_those_of_explicit_loops() -> None:
    layer = random_layer()
    maps = torch.randn(2, 5, 4, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        descriptors = layer(maps)
    for number, image in enumerate(maps.double().numpy()):
        local = image.transpose(1, 2, 0).reshape(-1, 5)
        expected = slow_netvlad(
            local,
            *(values.detach().double().numpy() for values in (layer.assignment, layer.centres)),
        )
        np.testing.assert_allclose(descriptors[number].numpy(), expected, atol=2e-7)


@pytest.mark.medium
def test_an_encoder_with_vgg16_agrees_with_float64_arithmetic() -> None:
    encoder = Encoder.create(weights="random", size=(48, 32), clusters=4)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 48, 3), dtype=np.uint8)
    encoder.initialize(pixels)
    descriptor = encoder.embed(pixels[:1], precision="float32")[0]
    normalized = (pixels[:1] / 255 - np.array([0.485, 0.456, 0.406])) / np.array(
        [0.229, 0.224, 0.225]
    )
    layer = encoder.aggregator
    backbone = encoder.backbone.double()
    with torch.no_grad():
        maps = backbone.upper(
            backbone.lower(torch.from_numpy(normalized.transpose(0, 3, 1, 2)))
        ).numpy()
    local = maps[0].transpose(1, 2, 0).reshape(-1, 512)
    np.testing.assert_allclose(descriptor, slow_netvlad(local, *in_float64(layer)), atol=1e-5)


def test_gradients_are_those_of_finite_differences() -> None:
    layer = random_layer()
    maps = torch.randn(1, 5, 2, 2, generator=torch.Generator().manual_seed(2))
    direction = torch.randn(15, generator=torch.Generator().manual_seed(3))
    for parameter in layer.parameters():
        (gradient,) = torch.autograd.grad(layer(maps)[0] @ direction, parameter)
        step = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(4))
        with torch.no_grad():
            parameter += 1e-3 * step
            ahead = layer(maps)[0] @ direction
            parameter -= 2e-3 * step
            behind = layer(maps)[0] @ direction
            parameter += 1e-3 * step
        assert ((ahead - behind) / 2e-3).item() == pytest.approx(
            (gradient * step).sum().item(), rel=0.02, abs=1e-3
        )


def test_initialization_makes_the_second_cluster_a_hundredth_of_the_first() -> None:
    generator = torch.Generator().manual_seed(0)
    middles = nn.functional.normalize(torch.randn(4, 6, generator=generator))
    local = nn.functional.normalize(
        middles.repeat(50, 1) + 0.2 * torch.randn(200, 6, generator=generator)
    )
    layer = NetVLAD(6, 4)
    layer.initialize(local, seed=0)
    centers, assignment = layer.centres.detach(), layer.assignment.detach()
    alpha = assignment.norm(dim=1)
    torch.testing.assert_close(alpha, alpha[:1].expand(4))
    torch.testing.assert_close(assignment / alpha[:, None], nn.functional.normalize(centers))
    assert (centers.norm(dim=1) < 0.999).all()  # means of unit vectors, not brought to length one
    ratios = []
    for x in local.double():
        second, first = sorted((assignment.double() @ x).tolist())[-2:]
        # The logarithm of what softmax gives the second, over what it gives the first.
        ratios.append(second - first)
    assert math.exp(np.mean(ratios)) == pytest.approx(0.01, rel=1e-4)
