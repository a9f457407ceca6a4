"""What `top`'s keys do."""

from __future__ import annotations

import pytest

from tracelib.errors import UsageError
from xtracectl.render.top_columns import COLUMNS
from xtracectl.top import view as topview
from xtracectl.top.view import BACK, BACKSPACE, END, ENTER, ESCAPE, SORTS, Act, View, parse_delay

SECOND = 10**9


def pressed(*keys, **state):
    """The view after these keys, and what the last one asks for."""
    view = View(**state)
    act = Act.NOTHING
    for key in keys:
        act = view.press(key)
    return view, act


def test_every_column_can_be_sorted_by():
    assert {
        by: tuple(column.key for column in columns) for by, columns in COLUMNS.items()
    } == SORTS


@pytest.mark.parametrize(
    ("keys", "by"),
    [("V", "vcpu"), ("D", "domain"), ("1", "cpu"), ("VD", "domain"), ("VV", "domain"),
     ("1V", "vcpu"), ("11", "domain")],
)  # fmt: skip
def test_whose_rows(keys, by):
    """Pressed again, a key goes back to domains."""
    view, act = pressed(*keys)
    assert (view.by, act) == (by, Act.DRAW)


@pytest.mark.parametrize(
    ("keys", "sort"),
    [(">", "wait"), ("<", "vcpus"), ("<<<", "calls"), ("S", "wait"), ("E", "exits"), ("W", "wait"),
     ("X", "runs"), ("C", "calls"), ("N", "name"), ("M", "mwait"), ("EP", "cpu")],
)  # fmt: skip
def test_what_to_sort_by(keys, sort):
    """Round about at the ends, as in top."""
    assert pressed(*keys)[0].sort == sort


def test_a_column_that_the_other_view_lacks():
    """CPUs have no exits: they are sorted by how busy they are, and E is no key there."""
    view, _ = pressed("E", "1")
    assert (view.sort, view.press("E"), view.sort) == ("cpu", Act.NOTHING, "cpu")


def test_the_other_way_round():
    assert pressed("R")[0].reverse
    assert not pressed("R", "R")[0].reverse


def test_scrolling_stops_at_the_ends():
    view, _ = pressed(topview.DOWN, topview.DOWN)
    assert view.scrolled(rows=10, room=9) == 1
    view.press(END)
    assert view.scrolled(rows=10, room=3) == 7
    view.press(topview.UP)
    assert view.scrolled(rows=10, room=3) == 6
    view.press(topview.HOME)
    assert view.scrolled(rows=10, room=3) == 0
    assert view.scrolled(rows=2, room=3) == 0


@pytest.mark.parametrize(
    ("typed", "delay"),
    [("5", 5 * SECOND), ("0.5", SECOND // 2), ("250ms", SECOND // 4), ("2m", 120 * SECOND),
     ("12" + BACKSPACE, SECOND), ("", 3 * SECOND), ("9" + ESCAPE, 3 * SECOND)],
)  # fmt: skip
def test_another_delay(typed, delay):
    view, act = pressed("d", *typed, ENTER)
    assert (view.delay, view.typed) == (delay, None)
    assert act in (Act.DRAW, Act.SAMPLE)


@pytest.mark.parametrize("typed", ["0", "1ms", "2h", "soon", "-1", "nan"])
def test_no_delay(typed):
    """What is wrong is said, and the old one stays."""
    view, _ = pressed("s", *typed, ENTER)
    assert view.delay == 3 * SECOND
    assert view.message
    assert view.press("R") is Act.DRAW
    assert view.message == ""


def test_keys_are_text_while_a_delay_is_typed():
    view, act = pressed("d", "q", "V")
    assert (view.typed, view.by, act) == ("qV", "domain", Act.DRAW)


def test_an_input_has_its_own_intervals():
    view, _ = pressed("d", live=False)
    assert view.typed is None
    assert "-d" in view.message


def test_help_goes_with_any_key():
    view, _ = pressed("h")
    assert view.help
    assert (view.press("V"), view.help, view.by) == (Act.DRAW, False, "domain")
    assert pressed("?", "q")[1] is Act.QUIT


@pytest.mark.parametrize(
    ("key", "act"),
    [("q", Act.QUIT), (" ", Act.SAMPLE), (ENTER, Act.SAMPLE), (BACK, Act.BACK), ("b", Act.BACK),
     ("z", Act.NOTHING), ("", Act.NOTHING), ("up", Act.DRAW), ("\x1b", Act.NOTHING)],
)  # fmt: skip
def test_what_is_to_be_done(key, act):
    assert pressed(key)[1] is act


def test_limits_of_a_delay():
    assert parse_delay("100ms") == SECOND // 10
    assert parse_delay("1h") == 3600 * SECOND
    for text in ("99ms", "3601", ""):
        with pytest.raises(UsageError):
            parse_delay(text)
