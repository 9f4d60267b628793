"""The command line: one thin file per command that parses, calls one function and prints.

docs/commands.md lists the exit codes.
"""

import signal
import sys
from types import FrameType

from mappable.cli.removed import removed
from mappable.errors import MappableError
from mappable.progress import speaks

# The same command continues stopped work.
CONTINUING = {"start", "convert", "simulate", "train", "reproduce", "demo"}
CHANGING = {"places split", "map add", "map calibrate", "map remove", "densify"}  # in one step


class _Stopped(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, which the command-line library would catch without a message."""


def main() -> None:
    """Run the command line; print an error that the user can fix as one sentence, without a
    traceback.
    """
    if sentence := removed(sys.argv[1:]):
        _fail(sentence, 2)
    try:
        signal.signal(signal.SIGINT, _stop)
        from mappable.cli.app import app

        app()
    except MappableError as error:
        _fail(str(error), 1)
    except _Stopped:
        _fail(_after_ctrl_c(sys.argv[1:]), 130)
    except MemoryError:
        _fail("out of memory; try smaller images, fewer workers or a smaller table", 1)
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {(error.strerror or str(error)).lower()}", 1)


def _stop(signal_number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _after_ctrl_c(words: list[str]) -> str:
    """What Ctrl-C leaves behind, and what the same command does next; `words` are those after
    `mappable`.
    """
    if {*words[:1]} & CONTINUING:
        return "stopped; finished work is kept, and the same command continues from there"
    if {" ".join(words[:1]), " ".join(words[:2])} & CHANGING:
        return "stopped; the map or table has either all of the changes or none"
    return "stopped; the same command starts over"


def _fail(text: str, code: int) -> None:
    if speaks():
        print(f"error: {text}", file=sys.stderr)
    sys.exit(code)
