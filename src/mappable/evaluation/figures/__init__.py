"""Figures of results, as the paper draws them, and its two animations."""
