"""The street world: a town, and drives through it."""

from mappable_worlds.street.town import build
from mappable_worlds.street.traffic import traverse

__all__ = ["build", "traverse"]
