"""Errors of maps: damaged files."""

from pathlib import Path

from mappable.errors import BadInputError


class DamagedMapError(BadInputError):
    """A file of a map is not what was written. The message names the file, so a server must not
    send it to clients.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file)  # all arguments, because pickling between processes needs them
        self.file = file

    def __str__(self) -> str:
        remedy = "restore the map from a copy, or build the map again"
        return f"{self.file}: damaged or edited (wrong checksum); {remedy}"
