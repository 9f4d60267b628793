"""Times: exact nanoseconds of numbers (against decimal arithmetic) and of ISO 8601 text."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_DOWN, Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.times import guess_unit, nanoseconds

PLACES = {"s": 9, "ms": 6, "us": 3, "ns": 0}
UNITS = st.sampled_from(sorted(PLACES))
EXACT = Context(prec=200)
LARGEST = 2**63 - 1
DATES = st.datetimes(datetime(1678, 1, 1), datetime(2262, 1, 1))


def by_decimal(text: str, unit: str) -> int:
    return int(Decimal(text).scaleb(PLACES[unit], EXACT).to_integral_value(ROUND_DOWN, EXACT))


@given(
    st.integers(0, 10**12),
    st.text("0123456789", max_size=15),
    st.sampled_from(["", "+", "-"]),
    UNITS,
)
def test_decimals_agree_with_decimal_arithmetic(
    whole: int, decimals: str, sign: str, unit: str
) -> None:
    text = f"{sign}{whole}" + (f".{decimals}" if decimals else "")
    expected = by_decimal(text, unit)
    if abs(expected) > LARGEST:
        with pytest.raises(ValueError, match=r"1677.*2262"):
            nanoseconds(text, unit)
    else:
        assert nanoseconds(text, unit) == nanoseconds(f"  {text}\n", unit) == expected


@given(DATES, st.integers(0, 999), st.integers(-1439, 1439))
def test_iso_text_with_nine_decimals_and_an_offset_is_exact(
    moment: datetime, extra: int, offset: int
) -> None:
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (elapsed // timedelta(microseconds=1)) * 1000 + extra
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    text = f"{moment:%m-%dT%H:%M:%S.%f}{extra:03d}{zone}"
    assert nanoseconds(f"{moment.year:04d}-{text}") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "nan",
        "inf",
        "1,5",
        "0x10",
        "1.5.2",
        "--1",
        "1e",
        "2014-13-01",
        "1970-01-01T13:40.5",
        "1970-01-01T13,5",
        "1e99999",
        "12:30",
    ],
)
def test_what_is_no_time_is_a_value_error_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601"):
        nanoseconds(text)


FIRST_OF_1974, LAST_OF_2261 = 126_230_400, 9_214_646_400  # seconds


@given(st.integers(FIRST_OF_1974 * 10**9, LAST_OF_2261 * 10**9), UNITS, st.booleans())
def test_the_unit_of_a_date_from_1974_on_is_guessed(
    time: int, unit: str, with_decimals: bool
) -> None:
    whole, rest = divmod(time, 10 ** PLACES[unit])
    text = f"{whole}.{rest}" if with_decimals else str(whole)
    assert guess_unit(text) == guess_unit(f" +{text} ") == unit
