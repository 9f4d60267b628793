"""The street world: a town, and drives through it."""

from mappable.places.worlds.street.town import build
from mappable.places.worlds.street.traffic import traverse

__all__ = ["build", "traverse"]
