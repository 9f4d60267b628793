"""The street world: a town, and drives through it."""

from mappable.worlds.street.town import build
from mappable.worlds.street.traffic import traverse

__all__ = ["build", "traverse"]
