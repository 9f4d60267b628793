"""Exceptions for problems that the user can fix; the command line prints each as one sentence."""

from collections.abc import Iterable

LONGEST_SHOWN = 80  # characters of a value in a message


def shown(value: object) -> str:
    """The value as Python writes it, cut if it is long, for an error message.

    >>> shown("x" * 100) == repr("x" * 78 + "…")
    True
    """
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…{text[-1]}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names for an error message, separated by commas; long names are cut, and long lists.

    >>> listed(["x", "y", "z"], most=2)
    'x, y and 1 more'
    """
    cut = [
        name if len(name) <= LONGEST_SHOWN else f"{name[: LONGEST_SHOWN - 1]}…" for name in names
    ]
    rest = f" and {len(cut) - most:,} more" if len(cut) > most else ""
    return ", ".join(cut[:most]) + rest


def install_extra(name: str) -> str:
    """The remedy for a missing package of an optional extra, for an error message.

    >>> install_extra("onnx")
    "install the extra onnx: pip install 'mappable[onnx]', or pip install '.[onnx]' in a checkout"
    """
    return (
        f"install the extra {name}: pip install 'mappable[{name}]', or pip install '.[{name}]' in a"
        " checkout"
    )


class MappableError(Exception):
    """Base class: a problem that the user can fix. The message is one sentence that says what is
    wrong, and where.
    """


class BadInputError(MappableError):
    """A file, a row or a value from the user is invalid."""


class DamagedFileError(BadInputError):
    """A file is damaged, or is not of the expected kind; the format of the file may add a remedy to
    the message.
    """


class BadRowError(BadInputError):
    """A row of a table is invalid; a reader of files replaces `row`, counted from 0, by the row
    number in the file.
    """

    def __init__(self, row: int, label: str, problem: str) -> None:
        # All arguments, because pickling between processes needs them.
        super().__init__(row, label, problem)
        self.row = row
        self.label = label
        self.problem = problem

    def __str__(self) -> str:
        return f"place {self.row} ({shown(self.label)}): {self.problem}"


class BadImageError(MappableError):
    """An image file cannot be decoded safely."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
