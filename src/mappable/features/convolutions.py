"""A convolution with its sum and ReLU, which cuDNN computes together where no gradient is needed.

The operations between convolutions are a third of the work of a VGG on a GPU, because each reads and writes all maps.
Training compiles the network for the same reason (`learning.learner`).
"""

import torch
from torch import Tensor, nn

CHANNEL_MULTIPLE = 8  # tensor cores take 8 channels at once; zero channels fill up the rest


def convolve(maps: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> Tensor:
    """ReLU of the convolution of maps (n, channels, height, width), to which `plus` is added before."""
    weight, bias = layer.weight, layer.bias
    in_bfloat16 = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
    if maps.is_cuda and in_bfloat16:
        maps, weight = _filled_up(maps), _filled_up(weight)
        if not torch.is_grad_enabled() and torch.version.hip is None and bias is not None and len(maps):
            return _fused(maps, weight, bias, layer, plus)
    activations: Tensor = layer._conv_forward(maps, weight, bias)
    return (activations if plus is None else activations.add_(plus)).relu_()


def halve(maps: Tensor) -> Tensor:
    """2 x 2 max-pooling of maps (n, channels, height, width). An odd last row or column is ignored.

    Without gradients on a GPU, it avoids PyTorch's pooling, which also finds where the maxima are.
    """
    if torch.is_grad_enabled() or not maps.is_cuda:
        return nn.functional.max_pool2d(maps, 2)
    height, width = maps.shape[2] // 2 * 2, maps.shape[3] // 2 * 2
    rows = torch.maximum(maps[:, :, 0:height:2], maps[:, :, 1:height:2])
    return torch.maximum(rows[..., 0:width:2], rows[..., 1:width:2])


def _fused(maps: Tensor, weight: Tensor, bias: Tensor, layer: nn.Conv2d, plus: Tensor | None) -> Tensor:
    strides = (layer.stride, layer.padding, layer.dilation, layer.groups)
    operands = _bfloat16(maps), _bfloat16(weight)
    biases = bias.to(torch.bfloat16)
    activations: Tensor
    if plus is None:
        activations = torch.ops.aten.cudnn_convolution_relu(*operands, biases, *strides)
    else:
        activations = torch.ops.aten.cudnn_convolution_add_relu(*operands, _bfloat16(plus), 1.0, biases, *strides)
    return activations


def _bfloat16(tensor: Tensor) -> Tensor:
    return tensor.to(torch.bfloat16, memory_format=torch.channels_last)


def _filled_up(tensor: Tensor) -> Tensor:
    """The tensor (n, c, height, width) with zeros as further channels, up to a multiple of CHANNEL_MULTIPLE."""
    missing = -tensor.shape[1] % CHANNEL_MULTIPLE
    return nn.functional.pad(tensor, (0, 0, 0, 0, 0, missing)) if missing else tensor
