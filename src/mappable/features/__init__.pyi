from mappable.features.about import About as About
from mappable.features.descriptors import Described as Described
from mappable.features.descriptors import read_descriptors as read_descriptors
from mappable.features.encoder import Encoder as Encoder
from mappable.features.fast_encoder import FastEncoder as FastEncoder
from mappable.features.image_encoder import ImageEncoder as ImageEncoder
