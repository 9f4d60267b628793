"""What a command that refuses its arguments looks like."""

from typer.testing import Result

from mappable.errors import BadInputError


def refused(result: Result, *parts: str) -> None:
    """One sentence, as `mappable.cli.main` prints it."""
    assert isinstance(result.exception, BadInputError), result.output
    for part in parts:
        assert part in str(result.exception), str(result.exception)
    assert "\n" not in str(result.exception)
