"""Which requests change something, and which arguments they take."""

from __future__ import annotations

import pytest

from tracelib.control.commands import COMMANDS, changes, check_args
from tracelib.errors import UsageError


def test_only_looking_needs_no_right_to_command():
    assert {name for name in COMMANDS if not changes(name, {})} == {"status", "subscribe", "mask"}


def test_a_mask_with_an_argument_changes_something():
    assert changes("mask", {"events": 0})
    assert changes("mask", {"cpus": "all"})


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("status", {}), ("subscribe", {}), ("subscribe", {"interval": 1_000_000_000}),
        ("mask", {}), ("mask", {"events": 0x0008F000, "cpus": "0-3"}), ("stop", {}),
    ],
)
def test_arguments_that_are_taken(name, args):
    check_args(name, args)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("status", {"verbose": True}, "status has no argument 'verbose'"),
        ("mask", {"evnets": 1}, "mask has no argument 'evnets'"),
        ("mask", {"events": "all"}, "mask: events must be int, not 'all'"),
        ("mask", {"events": True}, "mask: events must be int, not True"),
        ("mask", {"cpus": [0]}, r"mask: cpus must be str, not \[0\]"),
        ("subscribe", {"interval": 0}, "an interval is 100.0 ms to 1h 00m, not 0 ns"),
        ("subscribe", {"interval": 1 << 63}, "an interval is"),
    ],
)
def test_arguments_that_are_refused(name, args, message):
    """An argument that is ignored would silently change what the request means."""
    with pytest.raises(UsageError, match=message):
        check_args(name, args)


def test_a_snapshot_of_no_time():
    check_args("snapshot", {"last": 1})
    with pytest.raises(UsageError, match="no time"):
        check_args("snapshot", {"last": 0})
