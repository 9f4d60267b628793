"""Features: pixels to descriptors."""
