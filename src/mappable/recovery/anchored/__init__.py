"""Recovery when some positions are known."""
