"""Learning: geo-tagged images to an encoder whose distances are metres."""
