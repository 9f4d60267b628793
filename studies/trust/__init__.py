"""Harnesses that try to break Mappable: kills, damaged files, hostile input, full disks, bad requests, a soak.

python studies/trust        # all parts, at full length; the README has the numbers
"""
