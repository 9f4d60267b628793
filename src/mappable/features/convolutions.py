"""A convolution with its ReLU and max-pooling: step by step, or on a GPU in one go.

What lies between the convolutions is a third of the work of a VGG on a GPU, for every step reads and writes all maps
anew. In bfloat16 they go together: the ReLU within the convolution, and backwards the pooling, the ReLU and the sum for
the bias in one pass. Both ways compute the same; in bfloat16 they round at different places.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

ALIGNED = 8  # channels that tensor cores take at once; fewer are filled up with zeros


def convolve(maps: Tensor, layer: nn.Conv2d, *, pool: bool = False) -> Tensor:
    """ReLU of the convolution `layer` of maps (n, channels, height, width); with `pool` the largest of each 2 x 2."""
    if _fuses(maps, layer):
        result: Tensor = _Fused.apply(maps, layer.weight, layer.bias, layer, pool)  # type: ignore[no-untyped-call]
        return result
    activations = layer(maps).relu_()
    return nn.functional.max_pool2d(activations, 2) if pool else activations


def _fuses(maps: Tensor, layer: nn.Conv2d) -> bool:
    if maps.device.type != "cuda" or not torch.is_autocast_enabled("cuda"):
        return False
    power_of_two = layer.out_channels & (layer.out_channels - 1) == 0  # as Triton's blocks are
    return power_of_two and layer.bias is not None and layer.groups == 1 and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


class _Fused(torch.autograd.Function):
    """Convolution, ReLU and perhaps pooling in bfloat16, channels last; parameters may have any type."""

    @staticmethod
    def forward(context: Any, maps: Tensor, weight: Tensor, bias: Tensor, layer: nn.Conv2d, pool: bool) -> Tensor:
        from mappable.features import kernels

        lacking = -weight.shape[1] % ALIGNED
        inputs, weights = (_filled(_half(tensor), lacking) for tensor in (maps, weight))
        strides = (layer.stride, layer.padding, layer.dilation)
        activations: Tensor = torch.ops.aten.cudnn_convolution_relu(inputs, weights, _half(bias), *strides, 1)
        context.save_for_backward(inputs, weights, activations)
        context.strides, context.pool, context.channels, context.kind = strides, pool, weight.shape[1], weight.dtype
        return kernels.pool(activations) if pool else activations

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from mappable.features import kernels

        inputs, weights, activations = context.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        before_relu = kernels.pool_backward if context.pool else kernels.relu_backward
        gradient, of_bias = before_relu(gradient, activations)
        of_maps, of_weight, _ = torch.ops.aten.convolution_backward(
            gradient,
            inputs,
            weights,
            None,
            *context.strides,
            False,
            (0, 0),
            1,
            (context.needs_input_grad[0], True, False),
        )
        if of_maps is not None:
            of_maps = of_maps[:, : context.channels]
        return of_maps, of_weight[:, : context.channels].to(context.kind), of_bias.to(context.kind), None, None


def _half(tensor: Tensor) -> Tensor:
    if tensor.ndim != 4:
        return tensor.to(torch.bfloat16)
    return tensor.to(torch.bfloat16, memory_format=torch.channels_last)


def _filled(tensor: Tensor, channels: int) -> Tensor:
    """The tensor (n, c, height, width) with that many more channels, of zeros."""
    return nn.functional.pad(tensor, (0, 0, 0, 0, 0, channels)) if channels else tensor
