"""Who gets a place at the control server when there are more clients than places.

Strangers, who may ask and not command, cannot keep out those who may; and no stranger can
keep out the others. Whose place it would be is known before a byte was read, so silence
occupies no more than questions do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from xtraced.controlsocket import Peer


@dataclass(frozen=True, slots=True)
class Places:
    """How many of a kind there may be at a time."""

    everybody: int
    strangers: int
    """Of these, for all strangers together."""
    one_stranger: int
    """Of these, for all processes of one of them."""


class Occupancy:
    """Which of them are taken."""

    def __init__(self, places: Places, is_stranger: Callable[[Peer], bool]) -> None:
        self._places = places
        self._is_stranger = is_stranger
        self._taken = 0
        self._strangers: Counter[int] = Counter()

    def enter(self, peer: Peer) -> bool:
        """Take a place; False if there is none for this peer."""
        if not self._has_place(peer):
            return False
        self._taken += 1
        if self._is_stranger(peer):
            self._strangers[peer.uid] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """Give it back."""
        self._taken -= 1
        if self._is_stranger(peer):
            self._strangers[peer.uid] -= 1
            # Nothing may grow with the number of users that ever came.
            self._strangers += Counter()

    def _has_place(self, peer: Peer) -> bool:
        if self._taken >= self._places.everybody:
            return False
        return not self._is_stranger(peer) or (
            self._strangers.total() < self._places.strangers
            and self._strangers[peer.uid] < self._places.one_stranger
        )
