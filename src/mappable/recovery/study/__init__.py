"""Simulated routes and ranges, and all methods on them."""
