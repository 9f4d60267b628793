"""Times as int64 nanoseconds since 1970, parsed without passing through floats."""

import re
from datetime import UTC, datetime
from typing import Literal, get_args

TimeUnit = Literal["s", "ms", "us", "ns"]
DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d*))?")


def nanoseconds(text: str, unit: TimeUnit = "s") -> int:
    """A decimal number of `unit`s, or an ISO 8601 date and time (UTC unless it says otherwise), as nanoseconds.

    >>> nanoseconds("1152886490.040076")
    1152886490040076000
    >>> nanoseconds("1418132416737115", "us")
    1418132416737115000
    """
    match = NUMBER.fullmatch(text.strip())
    if match:
        sign, whole, decimals = match.group(1), match.group(2), match.group(3) or ""
        digits = DIGITS[unit]
        value = int(whole + (decimals + "0" * digits)[:digits])
        return -value if sign == "-" else value
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is neither a number of {unit} nor an ISO 8601 time") from None
    return from_datetime(moment)


def from_datetime(moment: datetime) -> int:
    """Nanoseconds of a date and time; UTC if it knows no time zone."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def guess_unit(text: str) -> TimeUnit:
    """The unit in which a number is a date of our age (1973 to 5138): s, ms, us or ns by its count of digits."""
    whole = len(text.strip().lstrip("+-").split(".")[0])
    for unit, most in zip(get_args(TimeUnit), (11, 14, 17), strict=False):
        if whole <= most:
            return unit  # type: ignore[no-any-return]
    return "ns"
