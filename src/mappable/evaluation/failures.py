"""Describe in one sentence why a part of a study failed; the report names the part and keeps all others."""

import traceback
from pathlib import Path

from mappable.errors import MappableError

LONGEST_TEXT = 200  # characters of an error's own text
PACKAGE = Path(__file__).parents[1]


def reason_of(error: Exception) -> str:
    """The text of an error that a user can fix; for other errors the type, the text and the line of
    our code.
    """
    text = (str(error).splitlines() or [""])[0][:LONGEST_TEXT]
    if isinstance(error, MappableError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if PACKAGE in Path(one.filename).parents] or frames
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}"
