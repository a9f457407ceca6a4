"""`top`'s live samples, with a store that a test writes and a service that only answers."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.support.analysis import BLOCKED, RUNNABLE, RUNNING, change
from tests.support.segments import TSC_HZ, SegmentBuilder, append_file
from tracelib.errors import NotRunningError, UsageError
from tracelib.ring.runstates import RunstateSnapshot, VcpuState
from tracelib.units import CpuId, DomId, Tsc, VcpuId
from xtracectl.answers.summarizing import Request
from xtracectl.top import watching
from xtracectl.top.watching import Watch

MS = TSC_HZ // 1000
STATE = RunstateSnapshot(
    {CpuId(0): (DomId(1), VcpuId(0))},
    (VcpuState(DomId(1), VcpuId(0), RUNNING, CpuId(0), Tsc(900)),
     VcpuState(DomId(2), VcpuId(0), BLOCKED, None, Tsc(500))), 0,
)  # fmt: skip


class Service:
    """Answers to `flush`; what it says can be changed."""

    def __init__(self):
        self.answer = {"records": 0, "bytes": 0, "tsc": None, "state": "collecting"}
        self.gone = False

    def at(self, milliseconds):
        """It is so late, and what top may count ends there."""
        self.answer["tsc"] = (milliseconds + 10) * MS

    def client(self, _):
        if self.gone:
            raise NotRunningError("nobody is there")
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, command):
        assert command == "flush"
        return dict(self.answer)


@pytest.fixture
def service(monkeypatch):
    stand_in = Service()
    monkeypatch.setattr(watching, "Client", stand_in.client)
    return stand_in


def segment(tmp_path, *records, number=1, **metadata):
    builder = SegmentBuilder(number, state=STATE, **metadata).block(0, b"".join(records))
    return builder, builder.write(tmp_path)


def switch(at, old, new):
    """d1v0 and d2v0 take turns on CPU 0."""
    return change(at * MS, old, 0, RUNNING, BLOCKED) + change(at * MS, new, 0, BLOCKED, RUNNING)


def watch(tmp_path, **request):
    return Watch(tmp_path / "socket", tmp_path, Request(**request))


def running(sample):
    """Milliseconds that each vCPU ran."""
    return {owner.name: row.times[RUNNING] // MS for owner, row in sample.vcpus.items()}


def test_who_is_there_from_the_start(tmp_path, service):
    """A segment says who runs: also of a vCPU without a record, from the first sample on.
    What was before counts for nothing."""
    segment(tmp_path, change(5 * MS, 9, 0, RUNNABLE, BLOCKED))
    service.at(100)
    top = watch(tmp_path)
    top.begin()
    assert top.sample() is None, "no time has passed"
    service.at(150)
    found = top.sample()
    assert found.span == 50 * MS
    assert running(found) == {"d1v0": 50, "d2v0": 0, "d9v0": 0}
    top.close()


def test_what_is_later_waits(tmp_path, service):
    """Records behind the moment of the flush are in the store already: the next sample's."""
    builder, path = segment(tmp_path, switch(5, 1, 2))
    service.at(100)
    top = watch(tmp_path)
    top.begin()
    size = len(builder.data)
    append_file(path, bytes(builder.block(0, switch(130, 2, 1) + switch(190, 1, 2)).data[size:]))
    service.at(150)
    assert running(top.sample()) == {"d1v0": 20, "d2v0": 30}
    service.at(200)
    assert running(top.sample()) == {"d1v0": 40, "d2v0": 10}
    top.close()


@pytest.mark.usefixtures("service")
def test_a_service_that_does_not_know_the_time(tmp_path):
    """A replayed file has no clock: samples end with the last record."""
    builder, path = segment(tmp_path, switch(5, 1, 2), switch(50, 2, 1))
    top = watch(tmp_path)
    top.begin()
    size = len(builder.data)
    append_file(path, bytes(builder.block(0, switch(80, 1, 2)).data[size:]))
    assert running(top.sample()) == {"d1v0": 30, "d2v0": 0}
    top.close()


def test_a_pause(tmp_path, service):
    segment(tmp_path, switch(5, 1, 2))
    service.at(100)
    top = watch(tmp_path)
    top.begin()
    service.answer["state"] = "paused"
    service.at(150)
    assert top.sample() is None
    assert top.paused
    service.answer["state"] = "collecting"
    service.at(200)
    assert top.sample().span == 100 * MS
    assert not top.paused
    top.close()


def test_a_hole_in_the_row_of_segments(tmp_path, service):
    """Retention was faster: counted afresh, from the state that the next segment tells."""
    segment(tmp_path, switch(5, 1, 2))[0].seal().write(tmp_path)
    service.at(100)
    top = watch(tmp_path)
    top.begin()
    segment(tmp_path, switch(160, 1, 2), number=5)
    service.at(200)
    found = top.sample()
    assert found.notes == ("counted afresh: segments were deleted before they were read",)
    assert (found.first, running(found)) == (160 * MS, {"d1v0": 0, "d2v0": 40})
    service.at(220)
    assert top.sample().notes == ()
    top.close()


def test_domains_that_come_and_go(tmp_path, service, monkeypatch):
    """Too many: the next segment begins afresh, and those that are gone are forgotten."""
    monkeypatch.setattr(watching, "_MOST_VCPUS", 50)
    builder, path = segment(tmp_path, switch(5, 1, 2))
    service.at(10)
    top = watch(tmp_path)
    top.begin()
    size = len(builder.data)
    many = (change(11 * MS, 100 + number, 0, BLOCKED, RUNNABLE) for number in range(60))
    append_file(path, bytes(builder.block(0, b"".join(many)).data[size:]))
    service.at(20)
    assert len(top.sample().vcpus) == 62
    segment(tmp_path, switch(25, 1, 2), number=2)
    service.at(30)
    found = top.sample()
    assert found.notes == ("counted afresh: too many vCPUs came and went",)
    assert running(found) == {"d1v0": 0, "d2v0": 5}
    top.close()


def test_many_from_the_start_are_not_too_many(tmp_path, service, monkeypatch):
    monkeypatch.setattr(watching, "_MOST_VCPUS", 50)
    many = (change(5 * MS, 100 + number, 0, BLOCKED, RUNNABLE) for number in range(60))
    segment(tmp_path, *many)
    service.at(10)
    top = watch(tmp_path)
    top.begin()
    for number in range(2, 5):
        segment(tmp_path, switch(10 * number, 1, 2), number=number)
        service.at(10 * number + 5)
        assert top.sample().notes == ()
    top.close()


def test_an_empty_store(tmp_path, service):
    """Nothing yet, then something: no error, and no sample without a beginning."""
    service.at(100)
    top = watch(tmp_path)
    top.begin()
    service.at(150)
    assert top.sample() is None
    segment(tmp_path, switch(160, 1, 2))
    service.at(200)
    assert running(top.sample()) == {"d1v0": 0, "d2v0": 40}
    top.close()


def test_no_clock_rate(tmp_path, service):
    segment(tmp_path, switch(5, 1, 2), tsc_hz=None)
    service.at(100)
    top = watch(tmp_path)
    with pytest.raises(UsageError, match="rate"):
        top.begin()
    top.close()
    top = watch(tmp_path, cpu_hz=TSC_HZ)
    top.begin()
    top.close()


def test_a_service_that_is_gone(tmp_path, service):
    """An error each time; then the sample covers all the time since the last one."""
    segment(tmp_path, switch(5, 1, 2))
    service.at(100)
    top = watch(tmp_path)
    top.begin()
    service.gone = True
    for _ in range(2):
        with pytest.raises(NotRunningError):
            top.sample()
    service.gone = False
    service.at(400)
    assert top.sample().span == 300 * MS
    top.close()


def test_a_long_run_keeps_no_more(tmp_path, service):
    """Through a hundred segments: no files, no places, no anchors add up."""
    segment(tmp_path, switch(5, 1, 2))
    service.at(10)
    top = watch(tmp_path)
    top.begin()
    for number in range(2, 102):
        records = switch(10 * number, 1 + number % 2, 2 - number % 2)
        segment(tmp_path, records, number=number)[0].seal().write(tmp_path)
        (tmp_path / SegmentBuilder(number).name).unlink()
        service.at(10 * number + 5)
        assert top.sample().notes == ()
    reader = top._reader
    assert len(reader._segments) == 1
    assert not list(chain.from_iterable(row.places for row in reader._rows.values()))
    assert len(reader.info.anchors) <= 2
    top.close()
