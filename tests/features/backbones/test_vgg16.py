"""VGG-16 has torchvision's layers up to conv5_3, and is cut in two before conv5."""

import pytest
import torch
from torch import Tensor, nn

from mappable.errors import BadInputError
from mappable.features.backbones import backbone_names, find_backbone
from mappable.features.backbones.vgg16 import VGG16

pytestmark = pytest.mark.medium

CONVOLUTIONS = {0: (3, 64), 2: (64, 64), 5: (64, 128), 7: (128, 128), 10: (128, 256), 12: (256, 256), 14: (256, 256)}
CONVOLUTIONS |= {17: (256, 512), 19: (512, 512), 21: (512, 512), 24: (512, 512), 26: (512, 512), 28: (512, 512)}
POOLINGS = (4, 9, 16, 23)


@pytest.fixture
def shapes_only() -> VGG16:
    """A network that computes shapes and no numbers."""
    with torch.device("meta"):
        return VGG16()


def test_layers_are_numbered_as_in_torchvision(shapes_only: VGG16) -> None:
    layers = list(shapes_only.features)
    assert len(layers) == 29  # neither the ReLU of conv5_3 nor the pooling behind it
    for number, layer in enumerate(layers):
        if number in CONVOLUTIONS:
            assert isinstance(layer, nn.Conv2d)
            assert (layer.in_channels, layer.out_channels) == CONVOLUTIONS[number]
            assert (layer.kernel_size, layer.stride, layer.padding) == ((3, 3), (1, 1), (1, 1))
        else:
            assert isinstance(layer, nn.MaxPool2d if number in POOLINGS else nn.ReLU)


def test_tensors_have_the_names_of_a_torchvision_file(shapes_only: VGG16) -> None:
    names = {f"features.{number}.{kind}" for number in CONVOLUTIONS for kind in ("weight", "bias")}
    assert shapes_only.state_dict().keys() == names
    assert sum(parameter.numel() for parameter in shapes_only.parameters()) == 14_714_688


@pytest.mark.parametrize(
    ("width", "height", "columns", "rows"), [(240, 180, 15, 11), (320, 240, 20, 15), (640, 480, 40, 30), (16, 16, 1, 1)]
)
def test_a_local_descriptor_for_16_pixels_each_way(
    shapes_only: VGG16, width: int, height: int, columns: int, rows: int
) -> None:
    activations = shapes_only.lower(torch.empty(2, 3, height, width, device="meta"))
    assert activations.shape == (2, 512, rows, columns)
    assert shapes_only.upper(activations).shape == (2, 512, rows, columns)


def test_lower_ends_in_pool4_and_upper_before_the_last_relu() -> None:
    torch.manual_seed(0)
    network = VGG16()
    images = torch.randn(1, 3, 32, 48)
    with torch.no_grad():
        activations = network.lower(images)
        maps = network.upper(activations)
        expected = images
        for number, layer in enumerate(network.features):
            expected = layer(expected)
            if number == 23:
                assert torch.equal(activations, expected)
    assert torch.equal(maps, expected)
    assert (activations >= 0).all()
    assert (maps < 0).any()


def test_upper_leaves_the_activations_as_they_are() -> None:
    network, activations = VGG16(), torch.randn(1, 512, 2, 2)
    before = activations.clone()
    network.upper(activations)
    assert torch.equal(activations, before)


def test_real_weights_fit(vgg16_v1: dict[str, Tensor], shapes_only: VGG16) -> None:
    own = shapes_only.state_dict()
    assert {name: tensor.shape for name, tensor in vgg16_v1.items()} == {name: own[name].shape for name in own}


def test_a_backbone_is_one_file(small_backbone: str) -> None:
    assert backbone_names() == ["resnet50", "resnet50_keras", small_backbone, "vgg16"]
    network = find_backbone(small_backbone)()
    assert network.upper(network.lower(torch.zeros(2, 3, 16, 24))).shape == (2, network.channels, 2, 3)


def test_an_unknown_backbone_lists_the_known_ones() -> None:
    with pytest.raises(BadInputError, match=r"backbone.*'vgg61'"):
        find_backbone("vgg61")
