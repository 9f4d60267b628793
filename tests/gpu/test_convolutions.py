"""Compiled training and fused descriptions compute what single steps do."""

import pytest
import torch
from torch import Tensor, nn

from mappable.features.convolutions import convolve, halve
from mappable.features.embedding import backbone_precision
from mappable.features.encoder import Encoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
BACKBONES = pytest.mark.parametrize("backbone", ["vgg16", "resnet50_keras"])


@pytest.fixture
def encoder_of() -> object:
    """Make a small encoder on the GPU."""

    def make(backbone: str) -> tuple[Encoder, Tensor]:
        torch.manual_seed(0)
        encoder = Encoder.create(weights="random", size=(64, 48), clusters=8, backbone=backbone).to("cuda")
        pixels = torch.randint(0, 256, (6, 48, 64, 3), dtype=torch.uint8, device="cuda")
        encoder.initialize(pixels.cpu().numpy(), most=6, locations=12)
        return encoder, pixels

    return make


def error(values: list[Tensor], exact: list[Tensor]) -> list[float]:
    return [float((value - right).norm() / right.norm()) for value, right in zip(values, exact, strict=True)]


@BACKBONES
def test_compiled_gradients_are_as_near_to_float32_as_those_of_single_steps(backbone: str, encoder_of: object) -> None:
    encoder, pixels = encoder_of(backbone)  # type: ignore[operator]

    def gradients(network: nn.Module, precision: str) -> list[Tensor]:
        with backbone_precision("cuda", precision):  # type: ignore[arg-type]
            descriptors = network(pixels)
            (descriptors[0] - descriptors[1:]).square().sum().backward()
        values = [parameter.grad.clone() for parameter in encoder.parameters() if parameter.grad is not None]
        encoder.zero_grad()
        return [descriptors.detach(), *values]

    compiled_network = torch.compile(encoder, dynamic=False)
    exact, single = gradients(encoder, "float32"), gradients(encoder, "bfloat16")
    compiled = gradients(compiled_network, "bfloat16")
    again = gradients(compiled_network, "bfloat16")
    torch.compiler.reset()
    assert all(torch.equal(value, same) for value, same in zip(compiled, again, strict=True))
    deepest = 0.3 if backbone == "vgg16" else 0.7  # ResNet-50 has 40 layers, and random weights
    assert max(error(compiled, exact)) < deepest
    assert sum(error(compiled, exact)) < 1.1 * sum(error(single, exact))


@BACKBONES
def test_fused_descriptions_are_as_near_to_float32_as_those_of_single_steps(backbone: str, encoder_of: object) -> None:
    encoder, pixels = encoder_of(backbone)  # type: ignore[operator]
    with torch.no_grad(), backbone_precision("cuda", "float32"):
        exact = encoder(pixels)
    with backbone_precision("cuda", "bfloat16"):
        single = encoder(pixels).detach()
        with torch.no_grad():
            fused = encoder(pixels)
    (of_fused,), (of_single,) = error([fused], [exact]), error([single], [exact])
    assert of_fused < 1.1 * of_single + 1e-3


@pytest.mark.parametrize("size", [(4, 6), (5, 7), (1, 2)])
def test_two_maxima_are_the_pooling_of_torch(size: tuple[int, int]) -> None:
    maps = torch.randn(2, 64, *size, device="cuda").bfloat16().contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        assert halve(maps).equal(nn.functional.max_pool2d(maps, 2)) if min(size) > 1 else halve(maps).numel() == 0


def test_what_lay_in_memory_before_does_not_matter() -> None:
    layer = nn.Conv2d(3, 64, 3, padding=1).to("cuda")
    maps = torch.randn(4, 3, 20, 20, device="cuda").contiguous(memory_format=torch.channels_last)
    for _ in range(3):
        torch.full((64, 64, 20, 20), torch.nan, device="cuda", dtype=torch.bfloat16)  # freed at once
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            assert convolve(maps, layer).isfinite().all()
            assert convolve(maps[:0], layer).shape[0] == 0
