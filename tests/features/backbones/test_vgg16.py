"""VGG-16 has torchvision's layers up to conv5_3, and is cut in two before conv5."""

import pytest
import torch
from torch import Tensor

from mappable.features.backbones.vgg16 import VGG16

pytestmark = pytest.mark.medium

CONVOLUTIONS = {
    0: (3, 64),
    2: (64, 64),
    5: (64, 128),
    7: (128, 128),
    10: (128, 256),
    12: (256, 256),
    14: (256, 256),
}
CONVOLUTIONS |= {
    17: (256, 512),
    19: (512, 512),
    21: (512, 512),
    24: (512, 512),
    26: (512, 512),
    28: (512, 512),
}


@pytest.fixture
def shapes_only() -> VGG16:
    """A network that computes shapes and no numbers."""
    with torch.device("meta"):
        return VGG16()


def test_tensors_have_the_names_of_a_torchvision_file(shapes_only: VGG16) -> None:
    names = {f"features.{number}.{kind}" for number in CONVOLUTIONS for kind in ("weight", "bias")}
    assert shapes_only.state_dict().keys() == names
    assert sum(parameter.numel() for parameter in shapes_only.parameters()) == 14_714_688


@pytest.mark.parametrize(
    ("width", "height", "columns", "rows"),
    [(240, 180, 15, 11), (320, 240, 20, 15), (640, 480, 40, 30), (16, 16, 1, 1)],
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


def test_real_weights_fit(vgg16_v1: dict[str, Tensor], shapes_only: VGG16) -> None:
    own = shapes_only.state_dict()
    assert {name: tensor.shape for name, tensor in vgg16_v1.items()} == {
        name: own[name].shape for name in own
    }
