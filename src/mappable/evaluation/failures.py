"""Why a part of a study failed, in one sentence: the part is named in the report, and all others stand."""

import traceback
from pathlib import Path

from mappable.errors import MappableError

LONGEST = 200  # characters of an error's own text
OURS = Path(__file__).parents[1]


def reason_of(error: Exception) -> str:
    """One sentence: the text of an error that a user can fix, else its type, its text and the line of our code."""
    said = (str(error).splitlines() or [""])[0][:LONGEST]
    if isinstance(error, MappableError):
        return said
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if OURS in Path(one.filename).parents] or frames
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}{f': {said}' if said else ''}{where}"
