"""Errors say one sentence, also after a way between processes."""

import pickle

from mappable.errors import BadImageError, BadRowError


def test_errors_survive_the_way_between_processes() -> None:
    image = pickle.loads(pickle.dumps(BadImageError("a/b.jpg", "empty file")))
    assert (str(image), image.path, image.reason) == (
        "a/b.jpg: empty file",
        "a/b.jpg",
        "empty file",
    )
    row = pickle.loads(pickle.dumps(BadRowError(3, "b", "x is nan")))
    assert (str(row), row.row, row.problem) == ("place 3 ('b'): x is nan", 3, "x is nan")
