"""The log: what a line looks like for machines and for people, and what is folded."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import pytest
import structlog

from tracelib.units import Nanoseconds
from xtraced import logs


class FrozenClock:
    def __init__(self) -> None:
        self.now = 0

    def monotonic(self) -> Nanoseconds:
        return Nanoseconds(self.now)

    def realtime(self) -> Nanoseconds:
        return Nanoseconds(1_800_000_000_123_456_789 + self.now)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore():
    yield
    structlog.reset_defaults()


@pytest.fixture
def clock():
    return FrozenClock()


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def configured(stream, clock, level="info", format="auto"):
    logs.configure(level, format, stream=stream, clock=clock)
    return structlog.get_logger()


def test_json_where_there_is_no_terminal(clock):
    stream = io.StringIO()
    configured(stream, clock).info("segment_sealed", sequence=7, path=Path("/a"), why="size")
    assert lines(stream) == [
        {
            "event": "segment_sealed", "level": "info", "sequence": 7, "path": "/a",
            "why": "size", "timestamp": "2027-01-15T08:00:00.123Z",
        }
    ]


def test_readable_on_a_terminal(clock):
    stream = Terminal()
    configured(stream, clock).info("segment_sealed", sequence=7)
    assert "segment_sealed" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_console_without_a_terminal_has_no_colours(clock):
    stream = io.StringIO()
    configured(stream, clock, format="console").warning("disk_full", free=0)
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().split() == [
        "2027-01-15T08:00:00.123Z", "[warning", "]", "disk_full", "free=0"
    ]


def test_json_on_request_on_a_terminal(clock):
    stream = Terminal()
    configured(stream, clock, format="json").info("x")
    assert lines(stream)[0]["event"] == "x"


def test_level(clock):
    stream = io.StringIO()
    handle = logs.configure("warning", "json", stream=stream, clock=clock)
    logger = structlog.get_logger()
    logger.info("unseen")
    logger.warning("seen")
    handle.level = "debug"
    logger.debug("seen after the change")
    assert [line["event"] for line in lines(stream)] == ["seen", "seen after the change"]


def test_a_logger_from_before_the_configuration_follows_it(clock):
    early = structlog.get_logger("writer")
    stream = io.StringIO()
    configured(stream, clock)
    early.info("x")
    assert lines(stream)[0]["event"] == "x"


def test_exceptions_are_text(clock):
    stream = io.StringIO()
    logger = configured(stream, clock)
    try:
        raise ValueError("boom")
    except ValueError:
        logger.exception("bug")
    line = lines(stream)[0]
    assert line["level"] == "error"
    assert line["exception"].endswith("ValueError: boom")


def test_repeated_warnings_are_folded_and_counted(clock):
    stream = io.StringIO()
    logger = configured(stream, clock)
    for _ in range(12):
        logger.warning("write_failed", errno=5)
    assert len(lines(stream)) == logs.BURST
    clock.now += logs.INTERVAL
    logger.warning("write_failed", errno=5)
    logger.warning("write_failed", errno=5)
    assert [line.get("folded") for line in lines(stream)[logs.BURST :]] == [12 - logs.BURST, None]


def test_folding_tells_events_and_cpus_apart(clock):
    stream = io.StringIO()
    logger = configured(stream, clock)
    for _ in range(logs.BURST + 1):
        logger.error("ring_corrupt", cpu=1)
    logger.error("ring_corrupt", cpu=2)
    logger.warning("queue_full")
    assert len(lines(stream)) == logs.BURST + 2


def test_information_is_never_folded(clock):
    stream = io.StringIO()
    logger = configured(stream, clock)
    for _ in range(100):
        logger.info("segment_sealed")
    assert len(lines(stream)) == 100


def test_what_a_level_hides_is_not_counted_as_folded(clock):
    handle = logs.configure("error", "json", stream=io.StringIO(), clock=clock)
    for _ in range(100):
        structlog.get_logger().warning("x")
    assert handle.take_folded() == {}


def test_flush_says_what_was_folded(clock):
    stream = io.StringIO()
    handle = logs.configure("info", "json", stream=stream, clock=clock)
    for cpu in (1, 2):
        for _ in range(logs.BURST + 3):
            structlog.get_logger().warning("ring_corrupt", cpu=cpu)
    handle.flush()
    handle.flush()
    last = lines(stream)[2 * logs.BURST :]
    assert [(line["event"], line["of"], line["folded"]) for line in last] == [
        ("messages_folded", "ring_corrupt", 6)
    ]


def test_every_message_of_two_threads_is_shown_or_counted(clock):
    stream = io.StringIO()
    handle = logs.configure("info", "json", stream=stream, clock=clock)

    def shout():
        for _ in range(2000):
            structlog.get_logger().warning("x")

    threads = [threading.Thread(target=shout) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(stream)) + handle.take_folded()["x"] == 4000


class Refusing(io.StringIO):
    """What a full disk or a pipe without a reader does."""

    def flush(self) -> None:
        raise BrokenPipeError("nobody reads")


def test_a_log_that_cannot_be_written_stops_nothing(clock):
    configured(Refusing(), clock).error("x")


def test_a_closed_log_stops_nothing(clock):
    stream = io.StringIO()
    logger = configured(stream, clock)
    stream.close()
    logger.error("x")


def test_journal_lines_carry_their_priority(clock, tmp_path, monkeypatch):
    with (tmp_path / "journal").open("w+") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        logger = configured(stream, clock)
        logger.warning("a")
        logger.info("b")
        stream.seek(0)
        first, second = stream.read().splitlines()
    assert first.startswith('<4>{"')
    assert second.startswith('<6>{"')


def test_another_streams_journal_means_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    with (tmp_path / "log").open("w+") as stream:
        assert not logs.goes_to_journal(stream)
    assert not logs.goes_to_journal(io.StringIO())
