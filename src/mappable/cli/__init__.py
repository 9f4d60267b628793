"""The command line: one thin file per verb: parse, call one function, print. Exit codes: docs/commands.md."""

import signal
import sys
from types import FrameType

from mappable.errors import MappableError
from mappable.progress import speaks


class _Stopped(BaseException):
    """Ctrl-C; not KeyboardInterrupt, which the command-line library would swallow without a word."""


def main() -> None:
    """Run the command line; print errors that the user can fix as one sentence, without a traceback."""
    try:
        signal.signal(signal.SIGINT, _stop)
        from mappable.cli.app import app

        app()
    except MappableError as error:
        _fail(str(error), 1)
    except _Stopped:
        _fail("stopped; what is finished is kept, and the same command goes on from there", 130)
    except MemoryError:
        _fail("there is not enough memory; a smaller image size or fewer workers may help", 1)
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {(error.strerror or str(error)).lower()}", 1)


def _stop(signal_number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _fail(text: str, code: int) -> None:
    if speaks():
        print(f"error: {text}", file=sys.stderr)
    sys.exit(code)
