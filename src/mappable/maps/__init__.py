"""Landmarks and their descriptors, search among them, metres from feature distances, and where an image was taken."""
