"""What is traced: the masks asked for, and those that the hypervisor has.

They are global in Xen, and anybody with the right may set them without owning the rings:
xentrace does so before it finds that it cannot have the event channel (R29).
"""

from __future__ import annotations

import structlog

from xtraced.sources import Masks, Source

log = structlog.get_logger("masks")


class MaskKeeper:
    """The masks of one source. Every method may raise SourceError."""

    def __init__(self, source: Source, wanted: Masks) -> None:
        self._source = source
        self.wanted = wanted
        self.in_force = wanted
        """As the hypervisor had them when last asked."""
        self._confirmed = wanted
        """What it said right after ours were set."""

    @property
    def ours(self) -> bool:
        """Whether they still were those that were set here, when last looked at."""
        return self.in_force == self._confirmed

    def set(self, wanted: Masks) -> None:
        """Set both, always both: Xen keeps what the last consumer left (R66)."""
        self._source.set_masks(wanted)
        self.wanted = wanted
        self.in_force = self._confirmed = self._source.masks_in_force()

    def look(self) -> None:
        """Ask the hypervisor again."""
        before, self.in_force = self.in_force, self._source.masks_in_force()
        if self.in_force not in (before, self._confirmed):
            log.warning("mask_changed_by_another", events=hex(self.in_force.events))
