"""The messages of the control protocol as values, and as the maps that frames carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tracelib.errors import ProtocolError

MAX_ID = (1 << 32) - 1


class Hello(NamedTuple):
    """The protocol versions that one side speaks, and what it is, e.g. "xtraced 0.1.0"."""

    lowest: int
    highest: int
    software: str


class Request(NamedTuple):
    id: int
    command: str
    args: dict[str, Any]


class Reply(NamedTuple):
    """The one answer to a request."""

    id: int
    result: dict[str, Any]


class Failure(NamedTuple):
    """The request was not carried out; `code` is for programs, the rest for people."""

    id: int
    code: str
    message: str
    hint: str | None = None


class Item(NamedTuple):
    """One of many answers to a request; Done or Failure follows some day."""

    id: int
    item: dict[str, Any]


class Done(NamedTuple):
    """No more items will come for this request."""

    id: int


class Bye(NamedTuple):
    """The service ends the connection."""

    code: str
    message: str
    hint: str | None = None


Message = Hello | Request | Reply | Failure | Item | Done | Bye


def to_map(message: Message) -> dict[str, Any]:
    """The map that a frame carries for this message."""
    match message:
        case Hello() | Bye():
            return {type(message).__name__.lower(): message._asdict()}
        case Failure(id=number, code=code, message=text, hint=hint):
            return {"id": number, "error": {"code": code, "message": text, "hint": hint}}
        case Done(id=number):
            return {"id": number, "done": True}
        case _:
            return message._asdict()


def from_map(body: object) -> Message:
    """The message in a frame's body. Raises ProtocolError for anything else."""
    if not isinstance(body, dict):
        raise ProtocolError(f"a message is a map, not {type(body).__name__}")
    for key, parse in _PARSERS.items():
        if key in body:
            return parse(body)
    raise ProtocolError("a message of no known kind")


def _hello(body: Mapping[str, object]) -> Hello:
    hello = _map(body, "hello")
    lowest, highest = _number(hello, "lowest"), _number(hello, "highest")
    if lowest > highest:
        raise ProtocolError(f"hello: versions {lowest} to {highest} are none")
    return Hello(lowest, highest, _text(hello, "software"))


def _bye(body: Mapping[str, object]) -> Bye:
    return Bye(*_trouble(_map(body, "bye")))


def _request(body: Mapping[str, object]) -> Request:
    args = _map(body, "args") if "args" in body else {}
    return Request(_number(body, "id"), _text(body, "command"), args)


def _reply(body: Mapping[str, object]) -> Reply:
    return Reply(_number(body, "id"), _map(body, "result"))


def _failure(body: Mapping[str, object]) -> Failure:
    return Failure(_number(body, "id"), *_trouble(_map(body, "error")))


def _item(body: Mapping[str, object]) -> Item:
    return Item(_number(body, "id"), _map(body, "item"))


def _done(body: Mapping[str, object]) -> Done:
    return Done(_number(body, "id"))


# The key that tells what a map is, in the order in which they are looked for.
_PARSERS: dict[str, Callable[[Mapping[str, object]], Message]] = {
    "hello": _hello,
    "bye": _bye,
    "command": _request,
    "result": _reply,
    "error": _failure,
    "item": _item,
    "done": _done,
}


def _trouble(body: Mapping[str, object]) -> tuple[str, str, str | None]:
    hint = None if body.get("hint") is None else _text(body, "hint")
    return _text(body, "code"), _text(body, "message"), hint


def _map(body: Mapping[str, object], key: str) -> dict[str, Any]:
    value = body.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"{key} must be a map, not {type(value).__name__}")
    return value


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"{key} must be a string, not {type(value).__name__}")
    return value


def _number(body: Mapping[str, object], key: str) -> int:
    value = body.get(key)
    # bool is an int to Python, not to the protocol.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_ID:
        raise ProtocolError(f"{key} must be a number from 0 to {MAX_ID}, not {value!r:.40}")
    return value
