"""CPU lists: what is taken is taken exactly, what is refused is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.cpulist import format_cpu_list, parse_cpu_list
from tracelib.errors import UsageError
from tracelib.units import CpuId

SIXTEEN = [CpuId(cpu) for cpu in range(16)]
EVEN = [CpuId(cpu) for cpu in (0, 2, 4, 6)]


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,7", {0, 1, 2, 3, 7}),
        ("7,0-3", {0, 1, 2, 3, 7}),
        (" 1 , 2 ", {1, 2}),
        ("5-5", {5}),
        ("0-3,2-4", {0, 1, 2, 3, 4}),
        ("299", {299}),
        ("0-299", set(range(300))),
        ("0x1", {0}),
        ("0X82", {1, 7}),
        ("0x1ffffffff", set(range(33))),
        ("0x10000000000000000000000000", {100}),
        ("0x3,7", {0, 1, 7}),
    ],
)
def test_taken_exactly(text, cpus):
    """R64: the exact set, masks beyond 32 and 64 bits and CPU 299 included."""
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["all", "ALL", " all "])
def test_all_is_none(text):
    assert parse_cpu_list(text, SIXTEEN) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("-3", "'-3'"),
        ("3-", "'3-'"),
        ("3-0", "'3-0'"),
        ("1--3", "'1--3'"),
        ("1,2abc,3", "'2abc'"),
        ("0-", "'0-'"),
        (",", "part 1 is empty"),
        ("1,,3", "part 2 is empty"),
        ("1,", "part 2 is empty"),
        ("", "empty"),
        ("  ", "empty"),
        ("all,1", "'all'"),
        ("0x", "'0x'"),
        ("0xg", "'0xg'"),
        ("0x0", "'0x0'"),
        ("0-0x3", "'0-0x3'"),
        ("1 2", "'1 2'"),
        ("+1", "'+1'"),
        ("1_0", "'1_0'"),
        ("\u0663", "'\u0663'"),
        ("16384", "'16384'"),
        ("0-99999999999999999999", "'0-99999999999999999999'"),
        ("99999-3", "'99999-3'"),
        ("9" * 5000, "'9999"),
        ("0x1" + "0" * 5000, "beyond CPU 16383"),
    ],
)
def test_refused_by_name(text, named):
    """R64: every bad form is refused, and the message names the bad part."""
    with pytest.raises(UsageError) as caught:
        parse_cpu_list(text)
    assert named in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "named", "missing"),
    [
        ("40", "'40'", "40"),
        ("3,40", "'40'", "40"),
        ("0-20", "'0-20'", "16-20"),
        ("0x1ffffffff", "'0x1ffffffff'", "16-32"),
    ],
)
def test_cpus_that_do_not_exist(text, named, missing):
    """R64: `40` on a host with 16 CPUs is refused, and the host's CPUs are told."""
    with pytest.raises(UsageError) as caught:
        parse_cpu_list(text, SIXTEEN)
    assert named in caught.value.message
    assert caught.value.message.endswith(missing)
    assert caught.value.hint == "this host has 0-15"


def test_holes_in_cpu_numbers():
    """R22: ranges pass over holes; a CPU in a hole, asked for by itself, is refused."""
    assert parse_cpu_list("0-6", EVEN) == {0, 2, 4, 6}
    assert parse_cpu_list("1-4", EVEN) == {2, 4}
    assert parse_cpu_list("0x55", EVEN) == {0, 2, 4, 6}
    for text in ("1", "0-7", "3-3", "0xff"):
        with pytest.raises(UsageError, match="do not exist"):
            parse_cpu_list(text, EVEN)


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        (None, "all"),
        ([], "none"),
        ([3], "3"),
        ([7, 0, 1, 2, 3, 3], "0-3,7"),
        ([0, 2, 4, 6], "0,2,4,6"),
        (range(300), "0-299"),
    ],
)
def test_format(cpus, text):
    assert format_cpu_list(cpus) == text


@given(st.frozensets(st.integers(0, 400), min_size=1))
def test_format_is_parsed_back(cpus):
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus
    mask = sum(1 << cpu for cpu in cpus)
    assert parse_cpu_list(hex(mask)) == cpus
