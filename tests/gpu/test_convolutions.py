"""The fused convolutions compute what the single steps do, and the kernels exactly that."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="no Triton here")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
SHAPES = [(2, 64, 5, 7), (3, 128, 6, 4), (1, 512, 9, 9), (2, 1024, 3, 5), (40, 64, 91, 61)]


def half_maps(*shape: int) -> torch.Tensor:
    return (
        torch.randn(*shape, device="cuda").bfloat16().contiguous(memory_format=torch.channels_last)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_relu_goes_backwards_with_the_sum_for_the_bias(shape: tuple[int, ...]) -> None:
    from mappable.features import kernels

    torch.manual_seed(0)
    output, gradient = half_maps(*shape).relu(), half_maps(*shape)
    result, total = kernels.relu_backward(gradient, output)
    expected = torch.where(output > 0, gradient, 0)
    assert torch.equal(result, expected)
    torch.testing.assert_close(total, expected.float().sum((0, 2, 3)), atol=1e-2, rtol=1e-4)
    assert torch.equal(total, kernels.relu_backward(gradient, output)[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_pooling_takes_the_first_of_the_largest_as_torch_does(shape: tuple[int, ...]) -> None:
    from mappable.features import kernels

    torch.manual_seed(0)
    maps = half_maps(*shape)
    ties = (4 * maps).round() / 4  # many
    before = ties.clone().requires_grad_()
    pooled = nn.functional.max_pool2d(before.relu(), 2)
    assert torch.equal(kernels.pool(ties.relu()), pooled)
    gradient = torch.randn_like(pooled)
    pooled.backward(gradient)
    result, total = kernels.pool_backward(gradient, ties.relu())
    assert before.grad is not None
    assert torch.equal(result, before.grad)
    torch.testing.assert_close(total, before.grad.float().sum((0, 2, 3)), atol=1e-2, rtol=1e-4)


def gradients(network: nn.Module, pixels: torch.Tensor, half: bool) -> list[torch.Tensor]:
    from mappable.features.embedding import backbone_precision

    with backbone_precision("cuda", "bfloat16" if half else "float32"):
        descriptors = network(pixels)
        (descriptors[0] - descriptors[1:]).square().sum().backward()
    found = [
        parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None
    ]
    network.zero_grad()
    return [descriptors.detach(), *found]


@pytest.mark.parametrize("backbone", ["vgg16", "resnet50", "resnet50_keras"])
def test_fused_steps_are_as_near_to_float32_as_single_ones_in_bfloat16(
    backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mappable.features import convolutions
    from mappable.features.encoder import Encoder

    torch.manual_seed(0)
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=8, backbone=backbone).to(
        "cuda"
    )
    pixels = torch.randint(0, 256, (6, 48, 64, 3), dtype=torch.uint8, device="cuda")
    encoder.initialize(pixels.cpu().numpy(), most=6, locations=12)
    exact = gradients(encoder, pixels, half=False)
    fused = gradients(encoder, pixels, half=True)
    assert all(
        torch.equal(one, again)
        for one, again in zip(fused, gradients(encoder, pixels, half=True), strict=True)
    )
    monkeypatch.setattr(convolutions, "_can_fuse", lambda device: False)
    single = gradients(encoder, pixels, half=True)

    def error(found: list[torch.Tensor]) -> list[float]:
        return [
            float((one - right).norm() / right.norm())
            for one, right in zip(found, exact, strict=True)
        ]

    deepest = 0.3 if backbone == "vgg16" else 0.7  # ResNet-50 has 40 layers, and random weights
    assert max(error(fused)) < deepest
    assert sum(error(fused)) < 1.1 * sum(error(single))


def test_a_sum_is_part_of_the_convolution() -> None:
    from mappable.features.convolutions import convolve

    torch.manual_seed(0)
    layer = nn.Conv2d(64, 256, 1).to("cuda")
    maps, plus = half_maps(3, 64, 6, 7).requires_grad_(), half_maps(3, 256, 6, 7).requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        found = convolve(maps, layer, plus=plus)
    expected = (layer(maps.float()) + plus.float()).relu()
    torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0.02)
    gradient = torch.randn_like(found)
    leaves = (maps, plus, layer.weight, layer.bias)
    ours = torch.autograd.grad(found, leaves, gradient)
    theirs = torch.autograd.grad(expected, leaves, gradient.float())
    for one, right in zip(ours, theirs, strict=True):
        assert (one.float() - right.float()).norm() < 0.1 * right.norm()
    assert torch.equal(ours[1], torch.where(found > 0, gradient, 0))
