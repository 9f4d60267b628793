"""Evaluation: how good it is, and how sure that is."""
