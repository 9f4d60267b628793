"""VGG-16 (configuration D) up to conv5_3 before its ReLU, with torchvision's parameter names."""

from torch import Tensor, nn

from mappable.features.backbones import Backbone
from mappable.features.convolutions import convolve

# 0: halve by max-pooling.
WIDTHS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)
CONV5 = 24  # index of conv5_1 in torchvision's list of layers


class VGG16(Backbone):
    """Normalized images (n, 3, height, width) to maps (n, 512, height // 16, width // 16)."""

    channels = 512
    stride = 16

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in WIDTHS:
            if width:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers[:-1])  # without the ReLU of conv5_3

    def lower(self, images: Tensor) -> Tensor:
        """conv1_1 to pool4: (n, 512, height // 16, width // 16)."""
        return self._through(images, 0, CONV5)

    def upper(self, activations: Tensor) -> Tensor:
        """conv5_1 to conv5_3: maps (n, 512, height // 16, width // 16), which also have negative
        values.
        """
        last = len(self.features) - 1
        maps: Tensor = self.features[last](self._through(activations, CONV5, last))
        return maps

    def _through(self, maps: Tensor, first: int, end: int) -> Tensor:
        """`maps` after the layers from `first` to `end`, excluding `end`: convolutions with their
        ReLU and pooling.
        """
        for number in range(first, end):
            layer = self.features[number]
            if isinstance(layer, nn.Conv2d):
                pool = isinstance(self.features[number + 2], nn.MaxPool2d)
                maps = convolve(maps, layer, pool=pool)
        return maps


def build() -> VGG16:
    """Build the network with arbitrary weights."""
    return VGG16()
