"""Worlds: places that Mappable draws itself, so that a first run needs no data."""
