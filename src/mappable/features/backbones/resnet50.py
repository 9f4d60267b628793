"""ResNet-50 up to conv4, with torchvision's parameter names, and batch normalization folded into the convolutions."""

from torch import Tensor, nn

from mappable.features.backbones import Backbone
from mappable.features.convolutions import convolve

EXPANSION = 4  # a block's output has this many times the channels inside it


class Block(nn.Module):
    """A bottleneck: convolutions of 1x1, 3x3 and 1x1, whose output is added to the block's input.

    The `stride` is that of the first convolution with `stride_in_first`, else that of the second
    one.
    """

    def __init__(self, before: int, width: int, stride: int, *, stride_in_first: bool) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_in_first else (1, stride)
        after = EXPANSION * width
        self.conv1 = nn.Conv2d(before, width, 1, stride=first)
        self.conv2 = nn.Conv2d(width, width, 3, stride=second, padding=1)
        self.conv3 = nn.Conv2d(width, after, 1)
        self.downsample = (
            nn.Sequential(nn.Conv2d(before, after, 1, stride=stride)) if before != after else None
        )

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = maps if self.downsample is None else self.downsample(maps)
        return convolve(convolve(convolve(maps, self.conv1), self.conv2), self.conv3, plus=shortcut)


class ResNet50(Backbone):
    """Normalized images (n, 3, height, width) to maps (n, 1024, height / 16, width / 16), rounded
    up.

    Torchvision's network halves the maps in the first 3x3 convolution of a stage. Keras' network,
    like that of the paper (He et al., 2016), halves them in the 1x1 convolution before it
    (`stride_in_first`).
    """

    channels = 1024
    stride = 16

    def __init__(self, *, stride_in_first: bool = False) -> None:
        super().__init__()

        def stage(before: int, width: int, blocks: int, stride: int) -> nn.Sequential:
            inputs = [before, *[EXPANSION * width] * (blocks - 1)]
            strides = [stride, *[1] * (blocks - 1)]
            options = zip(inputs, strides, strict=True)
            return nn.Sequential(
                *(Block(one, width, by, stride_in_first=stride_in_first) for one, by in options)
            )

        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.layer1 = stage(64, 64, 3, 1)  # conv2
        self.layer2 = stage(256, 128, 4, 2)  # conv3
        self.layer3 = stage(512, 256, 6, 2)  # conv4

    def lower(self, images: Tensor) -> Tensor:
        """conv1 to conv3: (n, 512, height / 8, width / 8), rounded up."""
        maps = nn.functional.max_pool2d(convolve(images, self.conv1), 3, stride=2, padding=1)
        activations: Tensor = self.layer2(self.layer1(maps))
        return activations

    def upper(self, activations: Tensor) -> Tensor:
        """conv4: maps (n, 1024, height / 16, width / 16), rounded up and not negative."""
        maps: Tensor = self.layer3(activations)
        return maps


def build() -> ResNet50:
    """Build torchvision's network with arbitrary weights."""
    return ResNet50()
