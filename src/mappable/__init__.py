"""Mappable learns image features whose distances are metres."""
