"""From a scene, a condition and a camera to images."""
