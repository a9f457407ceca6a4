"""Which events were asked for: numbers, names, classes and patterns."""

from __future__ import annotations

import pytest

from tracelib.errors import UsageError
from tracelib.events.catalogue import NAMES
from tracelib.events.filter import parse_event_filter


def selected(*texts):
    wanted = parse_event_filter(texts)
    return {number for number in NAMES if wanted.matches(number)}


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["0x81102"], {0x81102}),
        (["81102"], {0x81102}),
        (["0X0020100D"], {0x20100D}),
        (["vmexit"], {0x81002, 0x81102, 0x81003, 0x81103}),
        (["VMENTRY, vmexit"], {0x81001, 0x81002, 0x81102, 0x81003, 0x81103}),
        (["vmentry", "hlt"], {0x81001, 0x82013}),
        (["runstate_change"], {0x21001 | o << 8 | n << 4 for o in range(4) for n in range(4)}),
        (["hypercall*"], {0x201001, 0x201101, 0x20100D, 0x20200E}),
        (["?r_read"], {0x82008, 0x82108, 0x8200A}),
        (["sched.min"], {n for n in NAMES if n >> 12 == 0x21}),
        (["dom0op"], {0x41001, 0x41002}),
        (["hvm.emul", "rtds_*"], {n for n in NAMES if n >> 12 == 0x84 or n >> 8 == 0x228}),
        (["hvm"], {n for n in NAMES if n >> 16 == 8}),
        (["shadow"], {n for n in NAMES if n >> 16 == 0x40}),
        (["*"], set(NAMES)),
        (["all"], set(NAMES)),
    ],
)
def test_selected(texts, numbers):
    assert selected(*texts) == numbers


def test_events_without_a_name():
    """R34: unknown events can be asked for by number and class."""
    assert parse_event_filter(["0x1f0ff"]).matches(0x1F0FF)
    assert parse_event_filter(["gen"]).matches(0x1F0FF)
    assert parse_event_filter(["all"]).matches(0x0FFFFFFF)
    for text in ("guest", "guest_event"):
        wanted = parse_event_filter([text])
        assert wanted.matches(0x0800F000)
        assert wanted.matches(0x0800FFFF)
        assert not wanted.matches(0x08010000)


def test_a_filter_is_plain_numbers():
    wanted = parse_event_filter(["vmentry,sched.min", "hlt"])
    assert wanted.ids == {0x81001, 0x82013}
    assert wanted.ranges == ((0x21000, 0x21FFF),)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("vmexits", "'vmexits'"),
        ("", "empty part"),
        ("vmexit,", "empty part"),
        ("zz*", "'zz*'"),
        ("0x1000000000", "'0x1000000000' is no event number"),
        ("0x1234", "'0x1234' is no event number"),
        ("-1", "'-1'"),
        ("sched.", "'sched.'"),
    ],
)
def test_refused(text, named):
    with pytest.raises(UsageError) as caught:
        parse_event_filter([text])
    assert named in caught.value.message
    assert caught.value.hint


def test_hint_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        parse_event_filter(["vm_exit"])
    assert caught.value.hint == "did you mean vmexit?"
