"""Recovery: coordinates from distances alone; it knows nothing of images or features."""
