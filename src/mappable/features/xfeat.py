"""The network of XFeat, written from its paper (Potje et al., CVPR 2024), with the names of the authors' weights."""

from typing import Any

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

CELL = 8  # pixels: side of the squares that have one descriptor, and at most one key point each
COARSEST = 32  # pixels; sides of an image are multiples of it


class _Norm(nn.Module):
    """Batch normalization that is not trained."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return nnf.batch_norm(x, self.running_mean, self.running_var)


class _Layer(nn.Module):
    """A convolution, batch normalization and a ReLU."""

    def __init__(self, given: int, made: int, size: int = 3, stride: int = 1) -> None:
        super().__init__()
        convolution = nn.Conv2d(given, made, size, stride, size // 2, bias=False)
        self.layer = nn.Sequential(convolution, _Norm(made), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x)
        return made


class XFeat(nn.Module):
    """Takes gray images (n, 1, h, w). Returns descriptors, their reliability, and logits of key points per cell."""

    def __init__(self) -> None:
        super().__init__()

        def block(*layers: tuple[int, ...], last: Any = None) -> nn.Sequential:
            return nn.Sequential(*(_Layer(*one) for one in layers), *([last] if last else []))

        self.skip1 = nn.Sequential(nn.AvgPool2d(4), nn.Conv2d(1, 24, 1))
        self.block1 = block((1, 4), (4, 8, 3, 2), (8, 8), (8, 24, 3, 2))
        self.block2 = block((24, 24), (24, 24))
        self.block3 = block((24, 64, 3, 2), (64, 64), (64, 64, 1))
        self.block4 = block((64, 64, 3, 2), (64, 64), (64, 64))
        self.block5 = block((64, 128, 3, 2), (128, 128), (128, 128), (128, 64, 1))
        self.block_fusion = block((64, 64), (64, 64), last=nn.Conv2d(64, 64, 1))
        self.heatmap_head = block((64, 64, 1), (64, 64, 1), last=nn.Conv2d(64, 1, 1))
        self.keypoint_head = block((64, 64, 1), (64, 64, 1), (64, 64, 1), last=nn.Conv2d(64, CELL**2 + 1, 1))

    def forward(self, gray: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Descriptors (n, 64, h, w), reliability (n, 1, h, w) and logits (n, 65, h, w); the last is of no key point."""
        gray = nnf.instance_norm(gray)
        x3 = self.block3(self.block2(self.block1(gray) + self.skip1(gray)))
        x4 = self.block4(x3)
        wider = [nnf.interpolate(x, x3.shape[2:], mode="bilinear") for x in (x4, self.block5(x4))]
        features = self.block_fusion(x3 + wider[0] + wider[1])
        cells = nnf.pixel_unshuffle(gray, CELL)
        return features, self.heatmap_head(features).sigmoid(), self.keypoint_head(cells)
