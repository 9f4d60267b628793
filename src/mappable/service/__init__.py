"""Serve a map over HTTP: images in, positions out."""
