"""A convolution with its ReLU and max-pooling: step by step, or in one kernel on a GPU.

What lies between the convolutions is a third of the work of a VGG on a GPU, for every step reads and writes all maps
anew. In bfloat16 they go together: the ReLU within the convolution, and backwards the pooling, the ReLU and the sum for
the bias in one pass. Both ways compute the same, but for what is not a number; in bfloat16 they round at different
places.
"""

import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mappable.features.embedding import has_bfloat16

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
    plain = layer.bias is not None and layer.groups == 1 and torch.get_autocast_dtype("cuda") == torch.bfloat16
    return power_of_two and plain and _can_fuse(maps.device)


@cache
def _can_fuse(device: torch.device) -> bool:
    """True if the device has bfloat16 and cuDNN, and Triton can compile for it, which a trial shows."""
    if torch.version.hip is not None or not has_bfloat16(device) or find_spec("triton") is None:
        return False
    from mappable.features import kernels

    try:
        with torch.cuda.device(device):
            kernels.pool(torch.zeros(1, 64, 2, 2, dtype=torch.bfloat16, device=device))
    except Exception as error:  # whatever it is that a compiler lacks
        warnings.warn(f"Triton does not work here, so that convolutions take longer: {error}", stacklevel=2)
        return False
    return True


class _Fused(torch.autograd.Function):
    """Convolution, ReLU and perhaps pooling in bfloat16, channels last; parameters may have any type."""

    @staticmethod
    def forward(context: Any, maps: Tensor, weight: Tensor, bias: Tensor, layer: nn.Conv2d, pool: bool) -> Tensor:
        from mappable.features import kernels

        lacking = -weight.shape[1] % ALIGNED
        inputs, weights = (_filled(_half(tensor), lacking) for tensor in (maps, weight))
        strides = (layer.stride, layer.padding, layer.dilation)
        biases = bias.to(torch.bfloat16)
        activations: Tensor = torch.ops.aten.cudnn_convolution_relu(inputs, weights, biases, *strides, 1)
        context.save_for_backward(inputs, weights, activations)
        context.strides, context.pool, context.channels, context.kind = strides, pool, weight.shape[1], weight.dtype
        with torch.cuda.device_of(activations):  # type: ignore[no-untyped-call]
            return kernels.pool(activations) if pool else activations

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from mappable.features import kernels

        inputs, weights, activations = context.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        before_relu = kernels.pool_backward if context.pool else kernels.relu_backward
        with torch.cuda.device_of(gradient):  # type: ignore[no-untyped-call]
            gradient, of_bias = before_relu(gradient, activations)
        wanted = (*context.needs_input_grad[:2], False)
        of_maps, of_weight, _ = torch.ops.aten.convolution_backward(
            gradient, inputs, weights, None, *context.strides, False, (0, 0), 1, wanted
        )
        of_maps, of_weight = (None if one is None else one[:, : context.channels] for one in (of_maps, of_weight))
        of_weight = None if of_weight is None else of_weight.to(context.kind)
        return of_maps, of_weight, of_bias.to(context.kind), None, None


def _half(tensor: Tensor) -> Tensor:
    return tensor.to(torch.bfloat16, memory_format=torch.channels_last)


def _filled(tensor: Tensor, channels: int) -> Tensor:
    """The tensor (n, c, height, width) with that many more channels, of zeros."""
    return nn.functional.pad(tensor, (0, 0, 0, 0, 0, channels)) if channels else tensor
