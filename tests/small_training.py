"""A backbone of two convolutions, and settings that train it in a second."""

BACKBONE = '''"""Two convolutions."""

from torch import nn

from mappable.features.backbones import Backbone


class Small(Backbone):
    channels, stride = 6, 8

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 5, 4, stride=4), nn.Conv2d(5, 6, 2, stride=2)

    def lower(self, images):
        return self.first(images).relu()

    def upper(self, activations):
        return self.second(activations)


build = Small
'''
TRAINING = {
    "positive_radius": 5.0,
    "negative_radius": 12.0,
    "positives": 2,
    "negatives": 3,
    "hard_negatives": 1,
    "cache_every": 4,
    "cache_size": 10,
    "iterations": 6,
    "learning_rate": 1e-2,
    "weights": "random",
    "backbone": "small",
    "clusters": 8,
    "size": "64x48",
    "init_images": 8,
    "landmarks": 60,
    "checkpoint_every": 1,
    "precision": "float32",
}
