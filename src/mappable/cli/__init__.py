"""The command line: one file a verb, each thin: parse, call one function, print."""

import os
import sys

from mappable.errors import MappableError


def main() -> None:
    """Run the command line; what the user can mend is printed as one sentence, without a traceback."""
    from mappable.cli.app import app

    try:
        app()
    except MappableError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("stopped; what is finished is kept, and the same command goes on from there", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output has gone
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {(error.strerror or str(error)).lower()}", 1)


def _fail(text: str, code: int) -> None:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)
