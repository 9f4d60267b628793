"""ResNet-50 in the layout of Keras: a stage halves the maps in its first 1x1 convolution, not in its first 3x3 one."""

from mappable.features.backbones.resnet50 import ResNet50


def build() -> ResNet50:
    """Build Keras' network with arbitrary weights."""
    return ResNet50(stride_in_first=True)
