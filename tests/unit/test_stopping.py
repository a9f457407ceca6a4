"""Signals as exceptions."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.signals import none_ignored
from xtracectl import stopping
from xtracectl.stopping import SIGNALS, Stopped, held, hurried, raised


@pytest.fixture(autouse=True)
def nothing_ignored():
    with none_ignored():
        yield


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_an_exception(number):
    with pytest.raises(Stopped) as caught, raised():
        send(number)
    assert caught.value.signal == number


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (*SIGNALS, signal.SIGALRM)]
    with raised():
        pass
    assert [signal.getsignal(number) for number in (*SIGNALS, signal.SIGALRM)] == before


def test_again_at_once_is_the_same_request():
    """What cleans up is not disturbed."""
    cleaned = []

    def work():
        try:
            send(signal.SIGTERM)
        finally:
            send(signal.SIGTERM)
            send(signal.SIGINT)
            cleaned.append(True)

    with pytest.raises(Stopped), raised():
        work()
    assert cleaned


def test_later_it_is_another_one(monkeypatch):
    monkeypatch.setattr(stopping, "_SAME", 0)
    with raised():
        for _ in range(2):
            with pytest.raises(Stopped):
                send(signal.SIGINT)


def test_output_is_finished_first():
    steps = []

    def write():
        with held():
            with held():
                send(signal.SIGTERM)
                steps.append("inner")
            steps.append("outer")
        steps.append("never")

    with pytest.raises(Stopped) as caught, raised():
        write()
    assert caught.value.signal == signal.SIGTERM
    assert steps == ["inner", "outer"]


def test_nobody_takes_the_output(monkeypatch):
    """Then it is given up."""
    monkeypatch.setattr(stopping, "_HELD_AT_MOST", 0.01)
    read, write = os.pipe()

    def stuck():
        send(signal.SIGHUP)
        os.read(read, 1)

    try:
        with pytest.raises(Stopped) as caught, raised(), held():
            stuck()
        assert caught.value.signal == signal.SIGHUP
        with pytest.raises(Stopped) as caught, raised(), hurried(Stopped(signal.SIGTERM)):
            os.read(read, 1)
        assert caught.value.signal == signal.SIGTERM
    finally:
        os.close(read)
        os.close(write)


def test_in_no_hurry():
    with raised(), hurried(None):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
