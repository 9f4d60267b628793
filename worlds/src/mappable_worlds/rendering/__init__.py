"""Render images of a scene, in a condition, by a camera."""
