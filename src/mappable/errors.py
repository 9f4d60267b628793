"""The exceptions that a user can fix; the command line prints each as one sentence."""


class MappableError(Exception):
    """Something is wrong that the user can mend; its text is one sentence that names what and where."""


class BadInputError(MappableError):
    """A file, a row or a value given by the user cannot be used."""


class BadRowError(BadInputError):
    """A row of a table cannot be used; whoever read the table from a file knows what the row is called there."""

    def __init__(self, row: int, label: str, problem: str) -> None:
        super().__init__(row, label, problem)  # all of it, so that it survives the way between processes
        self.row = row
        self.label = label
        self.problem = problem

    def __str__(self) -> str:
        return f"place {self.row} ({self.label!r}): {self.problem}"


class BadImageError(MappableError):
    """An image file cannot be decoded safely."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
