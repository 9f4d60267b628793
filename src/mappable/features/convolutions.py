"""A convolution with its sum, ReLU and max-pooling: in single steps, or fused on a GPU.

The operations between convolutions are a third of the work of a VGG on a GPU, because each reads
and writes all maps. In bfloat16 they are fused. Sum and ReLU are part of the convolution. The
backward pass does pooling, ReLU and the sum for the bias together. Fused and single steps compute
the same, except for NaN. In bfloat16 they round at different places.
"""

import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mappable.features.embedding import has_bfloat16

CHANNEL_MULTIPLE = 8  # tensor cores take 8 channels at once; zero channels fill up the rest


def convolve(
    maps: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None, pool: bool = False
) -> Tensor:
    """ReLU of the convolution `layer` of maps (n, channels, height, width), in which `plus` is
    added before the ReLU.

    With `pool`, also 2 x 2 max-pooling.
    """
    if _can_fuse_layer(maps, layer):
        tensors = (maps, layer.weight, layer.bias, plus)
        result: Tensor = _Fused.apply(*tensors, layer, pool)  # type: ignore[no-untyped-call]
        return result
    activations = layer(maps)
    activations = (activations if plus is None else activations.add_(plus)).relu_()
    return nn.functional.max_pool2d(activations, 2) if pool else activations


def _can_fuse_layer(maps: Tensor, layer: nn.Conv2d) -> bool:
    if maps.device.type != "cuda" or not torch.is_autocast_enabled("cuda"):
        return False
    power_of_two = layer.out_channels & (layer.out_channels - 1) == 0  # Triton's blocks must be
    plain = (
        layer.bias is not None
        and layer.groups == 1
        and torch.get_autocast_dtype("cuda") == torch.bfloat16
    )
    return power_of_two and plain and _can_fuse(maps.device)


@cache
def _can_fuse(device: torch.device) -> bool:
    """True if the device has bfloat16 and cuDNN, and Triton can compile for it. A trial run checks
    Triton.
    """
    if torch.version.hip is not None or not has_bfloat16(device) or find_spec("triton") is None:
        return False
    from mappable.features import kernels

    try:
        with torch.cuda.device(device):
            kernels.pool(torch.zeros(1, 64, 2, 2, dtype=torch.bfloat16, device=device))
    except Exception as error:  # a compiler can fail in any way
        warnings.warn(
            f"Triton does not work on this machine; convolutions take longer: {error}", stacklevel=2
        )
        return False
    return True


class _Fused(torch.autograd.Function):
    """Convolution, optional sum, ReLU and optional pooling in bfloat16, channels last. Parameters
    may have any type.
    """

    @staticmethod
    def forward(
        context: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor,
        plus: Tensor | None,
        layer: nn.Conv2d,
        pool: bool,
    ) -> Tensor:
        from mappable.features import kernels

        missing = -weight.shape[1] % CHANNEL_MULTIPLE
        inputs, weights = (_padded(_bfloat16(tensor), missing) for tensor in (maps, weight))
        strides = (layer.stride, layer.padding, layer.dilation)
        biases = bias.to(torch.bfloat16)
        activations: Tensor
        if plus is None:
            activations = torch.ops.aten.cudnn_convolution_relu(
                inputs, weights, biases, *strides, 1
            )
        else:
            operands = (inputs, weights, _bfloat16(plus), 1.0, biases)
            activations = torch.ops.aten.cudnn_convolution_add_relu(*operands, *strides, 1)
        context.save_for_backward(inputs, weights, activations)
        context.strides, context.pool, context.channels, context.kind = (
            strides,
            pool,
            weight.shape[1],
            weight.dtype,
        )
        with torch.cuda.device_of(activations):  # type: ignore[no-untyped-call]
            return kernels.pool(activations) if pool else activations

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from mappable.features import kernels

        inputs, weights, activations = context.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        backward = kernels.pool_backward if context.pool else kernels.relu_backward
        with torch.cuda.device_of(gradient):  # type: ignore[no-untyped-call]
            gradient, of_bias = backward(gradient, activations)
        needed = (*context.needs_input_grad[:2], False)
        of_maps, of_weight, _ = torch.ops.aten.convolution_backward(
            gradient, inputs, weights, None, *context.strides, False, (0, 0), 1, needed
        )
        of_maps, of_weight = (
            None if one is None else one[:, : context.channels] for one in (of_maps, of_weight)
        )
        of_weight = None if of_weight is None else of_weight.to(context.kind)
        of_plus = gradient if context.needs_input_grad[3] else None
        return of_maps, of_weight, of_bias.to(context.kind), of_plus, None, None


def _bfloat16(tensor: Tensor) -> Tensor:
    return tensor.to(torch.bfloat16, memory_format=torch.channels_last)


def _padded(tensor: Tensor, channels: int) -> Tensor:
    """The tensor (n, c, height, width) with `channels` more channels of zeros."""
    return nn.functional.pad(tensor, (0, 0, 0, 0, 0, channels)) if channels else tensor
