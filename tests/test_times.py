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


@given(st.integers(10**18, LARGEST))
def test_every_nanosecond_of_nineteen_digits_is_kept(time: int) -> None:
    assert nanoseconds(str(time), "ns") == time
    seconds = f"{time // 10**9}.{time % 10**9:09d}"
    assert nanoseconds(seconds, "s") == time
    assert nanoseconds(f"-{seconds}", "s") == -time


@given(st.integers(0, 10**12), st.text("0123456789", max_size=15), st.sampled_from(["", "+", "-"]), UNITS)
def test_decimals_agree_with_decimal_arithmetic(whole: int, decimals: str, sign: str, unit: str) -> None:
    text = f"{sign}{whole}" + (f".{decimals}" if decimals else "")
    expected = by_decimal(text, unit)
    if abs(expected) > LARGEST:
        with pytest.raises(ValueError, match=r"1677.*2262"):
            nanoseconds(text, unit)
    else:
        assert nanoseconds(text, unit) == nanoseconds(f"  {text}\n", unit) == expected


@given(st.integers(0, 9), st.text("0123456789", min_size=1, max_size=18), st.integers(-12, 8), UNITS)
def test_exponents_agree_with_decimal_arithmetic(whole: int, decimals: str, exponent: int, unit: str) -> None:
    text = f"{whole}.{decimals}e{exponent:+03d}"
    assert nanoseconds(text, unit) == nanoseconds(text.upper(), unit) == by_decimal(text, unit)


@given(DATES, st.integers(0, 999), st.integers(-1439, 1439))
def test_iso_text_with_nine_decimals_and_an_offset_is_exact(moment: datetime, extra: int, offset: int) -> None:
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (elapsed // timedelta(microseconds=1)) * 1000 + extra
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    text = f"{moment:%m-%dT%H:%M:%S.%f}{extra:03d}{zone}"
    assert nanoseconds(f"{moment.year:04d}-{text}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.5", 500_000_000),
        ("1970-01-01T00:00:00,25Z", 250_000_000),
        ("1970-01-01T00:00:01.1234567891", 1_123_456_789),
        ("19700101T000001.000000001", 1_000_000_001),
        ("1969-12-31T23:59:59.999999999", -1),
        ("2014-12-09T13:40:16.737115Z", 1_418_132_416_737_115_000),
    ],
)
def test_iso_text_is_utc_unless_it_says_otherwise(text: str, expected: int) -> None:
    assert nanoseconds(text) == nanoseconds(text, "us") == expected


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


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775808", "9" * 30, "1e999"])
def test_what_int64_cannot_hold_or_stands_for_unknown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"1677.*2262"):
        nanoseconds(text, "ns")


FIRST_OF_1974, LAST_OF_2261 = 126_230_400, 9_214_646_400  # seconds


@given(st.integers(FIRST_OF_1974 * 10**9, LAST_OF_2261 * 10**9), UNITS, st.booleans())
def test_the_unit_of_a_date_from_1974_on_is_guessed(time: int, unit: str, with_decimals: bool) -> None:
    whole, rest = divmod(time, 10 ** PLACES[unit])
    text = f"{whole}.{rest}" if with_decimals else str(whole)
    assert guess_unit(text) == guess_unit(f" +{text} ") == unit


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("9" * 11, "s"),
        ("1" + "0" * 11, "ms"),
        ("9" * 14, "ms"),
        ("1" + "0" * 14, "us"),
        ("9" * 17, "us"),
        ("1" + "0" * 17, "ns"),
        ("99999999999.999999", "s"),
        ("-100000000000.0", "ms"),
        ("1.418132416e9", "s"),
        ("1.418132416737115E+15", "us"),
    ],
)
def test_the_borders_of_the_guess(text: str, unit: str) -> None:
    assert guess_unit(text) == unit
