"""Harnesses that try to break Mappable: kills, damaged files, hostile input, full disks, bad requests, a soak.

python scripts/trust        # all parts, at full length; docs/trust.md has the numbers
"""
