"""The one family of exceptions that means "the user can mend this"; the command line prints them as plain sentences."""


class MappableError(Exception):
    """Something is wrong that the user can mend; its text is one sentence that names what and where."""


class BadInputError(MappableError):
    """A file, a row or a value given by the user cannot be used."""


class BadRowError(BadInputError):
    """A row of a table cannot be used; whoever read the table from a file knows what the row is called there."""

    def __init__(self, row: int, label: str, problem: str) -> None:
        super().__init__(f"place {row} ({label!r}): {problem}")
        self.row = row
        self.problem = problem


class BadImageError(MappableError):
    """An image file cannot be decoded safely."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
