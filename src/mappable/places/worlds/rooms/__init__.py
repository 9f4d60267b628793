"""The indoor world: a building, and a robot's walks through it."""

from mappable.places.worlds.rooms.building import build
from mappable.places.worlds.rooms.floorplan import Building
from mappable.places.worlds.rooms.walking import traverse

__all__ = ["Building", "build", "traverse"]
