"""The indoor world: a building, and a robot's runs through it."""

from mappable_worlds.rooms.building import build
from mappable_worlds.rooms.floorplan import Building
from mappable_worlds.rooms.walking import traverse

__all__ = ["Building", "build", "traverse"]
