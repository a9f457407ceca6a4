"""Quantities as people write them: absurd ones are refused like wrong ones."""

from __future__ import annotations

import pytest

from tracelib.errors import UsageError
from tracelib.units import parse_duration, parse_hz, parse_size


@pytest.mark.parametrize("parse", [parse_size, parse_duration, parse_hz])
@pytest.mark.parametrize("text", ["9" * 101, "9" * 5000, "0." + "9" * 5000, "1." + "9" * 5000])
def test_numbers_that_python_does_not_read(parse, text):
    with pytest.raises(UsageError, match="a number is too long"):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_size, "9" * 100, int("9" * 100)), (parse_size, "1.5G", 3 << 29),
        (parse_duration, "250ms", 250 * 10**6), (parse_duration, "2.5", 25 * 10**8),
        (parse_hz, "2.1GHz", 21 * 10**8), (parse_hz, "2100M", 21 * 10**8),
    ],
)  # fmt: skip
def test_numbers(parse, text, value):
    assert parse(text) == value
