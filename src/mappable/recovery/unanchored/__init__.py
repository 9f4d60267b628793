"""Recovery from ranges alone: no position is known."""
