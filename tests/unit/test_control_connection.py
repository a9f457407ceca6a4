"""The control protocol without any socket: what may be said when, and how bytes become it."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.control import CPU, HEALTHY, as_map, client, deliver, events, greeted, service
from tracelib import packing
from tracelib.control.connection import (
    CLOSED,
    MAX_FRAME_BYTES,
    MAX_HELLO_BYTES,
    MAX_OPEN_REQUESTS,
    NEED_DATA,
    Connection,
    Role,
    State,
)
from tracelib.control.messages import Bye, Done, Failure, Hello, Item, Reply, Request
from tracelib.errors import ProtocolError, UsageError

SCALARS = st.sampled_from([None, True, 0, 1, 2, -1, 2**32, 1.5, "", "x", [], {}, [1], {"a": 1}])
VALUES = SCALARS | st.dictionaries(
    st.sampled_from(["lowest", "highest", "software", "code", "message", "hint"]),
    SCALARS, max_size=3,
)


def frame(body: object) -> bytes:
    packed = packing.pack(body)
    return struct.pack("<I", len(packed)) + packed


HELLO = frame({"hello": {"lowest": 1, "highest": 1, "software": "x"}})


def open_service(*, requests: tuple[int, ...] = ()) -> Connection:
    _, answering = greeted()
    for number in requests:
        deliver(frame({"id": number, "command": "status", "args": {}}), answering)
    return answering


def open_client(*, requests: tuple[int, ...] = ()) -> Connection:
    asking, _ = greeted()
    for number in requests:
        asking.send(Request(number, "status", {}))
    return asking


def test_the_bytes_of_a_request():
    asking = open_client()
    body = b"\x83\xa2id\x07\xa7command\xa6status\xa4args\x80"
    assert asking.send(Request(7, "status", {})) == b"\x1a\0\0\0" + body
    assert len(body) == 0x1A


def test_both_sides_meet():
    asking, answering = greeted()
    assert (asking.state, answering.state) == (State.OPEN, State.OPEN)
    assert (asking.version, answering.version) == (1, 1)
    assert asking.peer == Hello(1, 1, "xtraced test")
    assert answering.peer == Hello(1, 1, "xtracectl test")


MESSAGES_TO_CLIENT = [
    Reply(1, {"state": "collecting", "cpus": [{"cpu": 0, "lost": {"ring_full": 3}}]}),
    Item(2, {"n": 1}),
    Failure(3, "unknown_command", "no such command", None),
    Item(2, {}),
    Done(2),
    Failure(4, "store", "the disk is gone", "mount it"),
    Bye("stopping", "the service stops", None),
]


@pytest.fixture
def stream() -> bytes:
    answering = open_service(requests=(1, 2, 3, 4))
    return b"".join(answering.send(message) for message in MESSAGES_TO_CLIENT)


def waiting_client() -> Connection:
    return open_client(requests=(1, 2, 3, 4))


def test_stream_whole(stream):
    assert events(waiting_client(), stream) == [*MESSAGES_TO_CLIENT, CLOSED]


def test_stream_byte_by_byte(stream):
    asking = waiting_client()
    found = [event for i in range(len(stream)) for event in events(asking, stream[i : i + 1])]
    assert [event for event in found if event is not NEED_DATA] == [*MESSAGES_TO_CLIENT, CLOSED]


def test_stream_with_trailing_bytes(stream):
    """What comes behind a bye is not looked at: the connection is over."""
    assert events(waiting_client(), stream + b"\xff" * 100) == [*MESSAGES_TO_CLIENT, CLOSED]


def test_stream_cut_everywhere(stream):
    """Need-more while the peer lives; closing there is fine between frames, an error inside."""
    asking = waiting_client()
    bounds = {0}
    while len(bounds) <= len(MESSAGES_TO_CLIENT):
        at = max(bounds)
        bounds.add(at + 4 + struct.unpack_from("<I", stream, at)[0])
    for cut in range(len(stream)):
        asking = waiting_client()
        *whole, last = events(asking, stream[:cut])
        assert last is NEED_DATA
        assert whole == MESSAGES_TO_CLIENT[: len([b for b in bounds if 0 < b <= cut])]
        asking.receive_data(b"")
        if cut in bounds:
            assert asking.next_event() is CLOSED
        else:
            with pytest.raises(ProtocolError, match="middle of a frame"):
                asking.next_event()


def test_closing_is_an_event_again_and_again():
    answering = service()
    answering.receive_data(b"")
    assert [answering.next_event() for _ in range(3)] == [CLOSED] * 3


def test_unknown_fields_are_ignored():
    answering = service()
    hello = {"hello": {"lowest": 1, "highest": 4, "software": "x", "colour": 3}, "later": []}
    assert deliver(frame(hello), answering) == [Hello(1, 4, "x")]
    answering.send(answering.hello())
    request = {"id": 1, "command": "later", "args": {"a": None}, "deadline": 5}
    assert deliver(frame(request), answering) == [Request(1, "later", {"a": None})]


def test_args_may_be_left_out():
    assert deliver(frame({"id": 0, "command": "status"}), open_service()) == [
        Request(0, "status", {})
    ]


@pytest.mark.parametrize("length", [MAX_HELLO_BYTES + 1, 1 << 20, 0xFFFFFFFF])
def test_giant_length_before_the_hello(length):
    """Refused from the length alone, without waiting for a single byte of it."""
    answering = service()
    answering.receive_data(struct.pack("<I", length))
    with pytest.raises(ProtocolError, match=f"frame of {length} bytes; the limit is 4096"):
        answering.next_event()
    assert answering.state is State.BROKEN


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES + 1, 0xFFFFFFFF])
def test_giant_length_after_the_hello(length):
    answering = open_service()
    answering.receive_data(struct.pack("<I", length))
    with pytest.raises(ProtocolError, match="the limit is 1048576"):
        answering.next_event()


def test_the_largest_frame_goes_through():
    asking, answering = greeted()
    room = MAX_FRAME_BYTES - len(packing.pack({"id": 1, "command": "", "args": {}})) - 4
    message = Request(1, "x" * room, {})
    data = asking.send(message)
    assert len(data) == 4 + MAX_FRAME_BYTES
    assert deliver(data, answering) == [message]


def test_the_status_of_a_very_large_host_fits():
    """4095 CPUs, all of which lost records because both the ring and the queue were full."""
    cpu = replace(
        CPU, cpu=4095, records=2**40, bytes=2**45, lost={"ring_full": 2**40, "queue_full": 2**40}
    )
    status = as_map(replace(HEALTHY, cpus=[cpu] * 4095))
    asking, answering = open_client(requests=(1,)), open_service(requests=(1,))
    assert deliver(answering.send(Reply(1, status)), asking) == [Reply(1, status)]


def test_a_message_too_large_to_send_leaves_the_connection_as_it_was():
    answering = open_service(requests=(1,))
    with pytest.raises(UsageError, match="the limit is 1048576"):
        answering.send(Reply(1, {"x": "y" * MAX_FRAME_BYTES}))
    assert answering.open_requests == 1
    answering.send(Failure(1, "too_large", "sorry"))
    assert answering.open_requests == 0


@pytest.mark.parametrize(
    "body",
    [
        None, 3, [], "hello", {}, {"id": 1}, {"id": 1, "command": 5}, {"command": "status"},
        {"id": -1, "command": "x"}, {"id": 2**32, "command": "x"}, {"id": True, "command": "x"},
        {"id": 1, "command": "x", "args": []}, {"id": 1, "command": "x", "args": None},
        {"id": 1, "result": {}}, {"id": 1, "done": True}, {"bye": {"code": "a", "message": "b"}},
        {"hello": {"lowest": 1, "highest": 1, "software": "again"}},
        {"id": 1, "command": "x", "args": {"a": [[[[[[[[[1]]]]]]]]]}},
    ],
)
def test_what_a_service_does_not_take_from_a_client(body):
    answering = open_service()
    answering.receive_data(frame(body))
    with pytest.raises(ProtocolError):
        answering.next_event()
    assert answering.state is State.BROKEN
    with pytest.raises(ProtocolError):
        answering.next_event()


@pytest.mark.parametrize(
    "body",
    [
        {"id": 1, "command": "status", "args": {}}, {"id": 2, "result": {}}, {"id": 1, "result": 3},
        {"id": 1, "error": "no"}, {"id": 1, "error": {"code": 3, "message": "x"}},
        {"id": 1, "item": []}, {"id": 9, "done": True},
    ],
)
def test_what_a_client_does_not_take_from_a_service(body):
    asking = open_client(requests=(1,))
    asking.receive_data(frame(body))
    with pytest.raises(ProtocolError):
        asking.next_event()


@pytest.mark.parametrize("hello", [{}, {"lowest": 2, "highest": 1, "software": "x"}, [1]])
def test_a_hello_that_is_none(hello):
    answering = service()
    answering.receive_data(frame({"hello": hello}))
    with pytest.raises(ProtocolError):
        answering.next_event()


def test_requests_before_the_hello_are_refused():
    answering = service()
    answering.receive_data(frame({"id": 1, "command": "stop", "args": {}}))
    with pytest.raises(ProtocolError, match="request from the client in state start"):
        answering.next_event()


def test_no_common_version_says_who_speaks_what():
    answering = Connection(Role.SERVICE, "xtraced 9", lowest=3, highest=4)
    answering.receive_data(HELLO)
    with pytest.raises(ProtocolError, match="x speaks protocol version 1, xtraced 9 versions 3 to"):
        answering.next_event()
    assert events(client(), answering.send(Bye("protocol", "too old")))[0] == Bye(
        "protocol", "too old", None
    )


def test_the_highest_common_version_is_used():
    asking = Connection(Role.CLIENT, "c", lowest=2, highest=5)
    answering = Connection(Role.SERVICE, "s", lowest=1, highest=3)
    deliver(asking.send(asking.hello()), answering)
    deliver(answering.send(answering.hello()), asking)
    assert asking.version == answering.version == 3


def test_a_bye_may_be_said_before_anything_else():
    asking = client()
    asking.send(asking.hello())
    refusal = service().send(Bye("too_many_connections", "64 clients already", "try later"))
    assert events(asking, refusal) == [
        Bye("too_many_connections", "64 clients already", "try later"), CLOSED
    ]


def test_too_many_open_requests_end_the_connection():
    answering = open_service(requests=tuple(range(MAX_OPEN_REQUESTS)))
    answering.receive_data(frame({"id": 99, "command": "status"}))
    with pytest.raises(ProtocolError, match="more than 16"):
        answering.next_event()


def test_an_id_in_use_ends_the_connection_and_a_used_one_is_free_again():
    answering = open_service(requests=(5,))
    answering.send(Reply(5, {}))
    deliver(frame({"id": 5, "command": "status"}), answering)
    answering.receive_data(frame({"id": 5, "command": "status"}))
    with pytest.raises(ProtocolError, match="request 5 is open already"):
        answering.next_event()


@pytest.mark.parametrize(
    "message", [Reply(1, {}), Item(1, {}), Done(1), Request(1, "status", {}), Hello(1, 1, "s")]
)
def test_saying_what_must_not_be_said_is_the_callers_mistake(message):
    with pytest.raises(ValueError, match="must not be said now"):
        open_service().send(message)


@given(data=st.binary(max_size=200), steps=st.lists(st.integers(1, 40), max_size=30))
@settings(deadline=None)
def test_any_bytes_give_messages_or_a_protocol_error_and_chunks_do_not_matter(data, steps):
    assert _outcome(data, [len(data)]) == _outcome(data, steps)


@given(
    bodies=st.lists(st.dictionaries(
        st.sampled_from(["hello", "id", "command", "args", "result", "error", "item", "bye"]),
        VALUES, max_size=4,
    ), max_size=4),
    steps=st.lists(st.integers(1, 40), max_size=30),
)
@settings(max_examples=200, deadline=None)
def test_any_frames_give_messages_or_a_protocol_error(bodies, steps):
    data = b"".join(frame(body) for body in bodies)
    assert _outcome(data, [len(data)]) == _outcome(data, steps)


def _outcome(data: bytes, steps: list[int]) -> list[object]:
    """What a service that is open makes of the bytes, cut into pieces of these sizes."""
    answering = open_service()
    found: list[object] = []
    at = 0
    try:
        for step in [*steps, len(data)]:
            piece = data[at : at + step]
            at += step
            if piece:
                found += [e for e in events(answering, piece) if e is not NEED_DATA]
        answering.receive_data(b"")
        found += events(answering)
    except ProtocolError as exc:
        found.append(str(exc))
    return found


def test_fuzz_does_reach_messages():
    """The two tests above would pass if nothing ever parsed."""
    data = frame({"id": 1, "command": "status"})
    assert _outcome(data, [3, 3]) == [Request(1, "status", {}), CLOSED]
