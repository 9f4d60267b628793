"""The indoor world: a building, and a robot's runs through it."""

from mappable.worlds.rooms.building import build
from mappable.worlds.rooms.floorplan import Building
from mappable.worlds.rooms.walking import traverse

__all__ = ["Building", "build", "traverse"]
