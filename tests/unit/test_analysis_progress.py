"""Whoever watches an analysis sees it go on from the first byte on."""

from __future__ import annotations

import pytest

from tests.support.captures import write
from tracelib.analysis.analyze import Analyzer
from tracelib.analysis.forms import Forms
from tracelib.clock import Clock
from tracelib.reading import open as open_trace
from tracelib.units import Tsc
from tracelib.xentrace import reader as reader_module
from tracelib.xentrace.reader import XentraceReader


@pytest.fixture
def reader(tmp_path):
    with_windows = open_trace(write("pvh-hvm.trace", tmp_path))
    assert isinstance(with_windows, XentraceReader)
    yield with_windows
    with_windows.close()


def analyzer_of(reader: XentraceReader) -> Analyzer:
    return Analyzer(reader, Clock(Tsc(0), None), Forms(family=None, version=None))


def payload_of(reader: XentraceReader) -> int:
    return sum(len(chunk.payload) for chunk in reader.chunks())


def test_both_passes_are_told_of_and_make_one(reader):
    """While windows are looked for, and while they are read."""
    told: list[int] = []
    analyzer_of(reader).run(told.append)
    payload = payload_of(reader)
    assert 0.99 * payload < sum(told) < 1.01 * payload


def test_looking_for_windows_is_told_of_piece_by_piece(reader, monkeypatch):
    monkeypatch.setattr(reader_module, "READ_BYTES", 50_000)
    told: list[int] = []
    assert reader.look_through(told.append)
    payload = payload_of(reader)
    assert 0.99 * payload < sum(told) < 1.01 * payload
    assert len(told) >= payload // 50_000


def test_a_file_that_was_looked_through_counts_once(reader):
    payload = payload_of(reader)
    told: list[int] = []
    analyzer_of(reader).run(told.append)
    assert sum(told) == payload
    assert not reader.look_through(told.append)


def test_what_watches_may_end_it_before_anything_is_read(reader):
    class Stop(Exception):
        pass

    def stop(_: int) -> None:
        raise Stop

    analyzer = analyzer_of(reader)
    with pytest.raises(Stop):
        analyzer.run(stop)
    assert analyzer.analysis.span == 0
    assert not analyzer.analysis.dated
