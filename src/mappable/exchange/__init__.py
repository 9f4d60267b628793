"""Positions for other programs: one file per format, and one table of them by suffix."""
