"""What the engine is to do with each form of record, by the event catalogue."""

from __future__ import annotations

from collections.abc import Container
from types import MappingProxyType
from typing import NamedTuple

from tracelib.analysis import codes
from tracelib.analysis.engine import Plan
from tracelib.events.catalogue import event_name, layout_changed, lookup
from tracelib.events.hvm import NESTED
from tracelib.events.kvm import HANDLER, OWNER_WORDS, VMENTRY, VMEXIT
from tracelib.records import EVENT_MASK, EXTRA_MASK, EXTRA_SHIFT, LOST_RECORDS

PAGE_BITS = 12

VALUES: MappingProxyType[str, tuple[str, int]] = MappingProxyType({
    # HVM handlers.
    "pf_xen": ("error_code", 0), "pf_inject": ("error_code", 0),
    "inj_exc": ("vector", 0), "inj_virq": ("vector", 0), "reinj_virq": ("vector", 0),
    "intr": ("vector", 0), "intr_window": ("vector", 0), "hvm_trap": ("vector", 0),
    "cr_read": ("cr", 0), "cr_write": ("cr", 0),
    "msr_read": ("msr", 0), "msr_write": ("msr", 0),
    "xcr_read": ("xcr", 0), "xcr_write": ("xcr", 0),
    "cpuid": ("leaf", 0), "vmmcall": ("eax", 0),
    "io_read": ("port", 0), "io_write": ("port", 0),
    "ioport_read": ("port", 0), "ioport_write": ("port", 0),
    "iomem_read": ("gpa", PAGE_BITS), "iomem_write": ("gpa", PAGE_BITS),
    "npf": ("gpa", PAGE_BITS),
    # PV guests.
    "hypercall": ("op", 0), "hypercall_subcall": ("op", 0),
    "trap": ("trapnr", 0), "page_fault": ("error_code", 0),
    # Memory.
    "page_grant_map": ("dom", 0), "page_grant_unmap": ("dom", 0),
    "page_grant_transfer": ("dom", 0), "set_p2m_entry": ("dom", 0),
    "decrease_reservation": ("dom", 0), "pod_populate": ("dom", 0),
    "pod_zero_reclaim": ("dom", 0), "pod_superpage_splinter": ("dom", 0),
    # Hardware.
    "irq_handled": ("irq", 0), "irq_move_cleanup_delay": ("irq", 0),
    "irq_move_cleanup": ("irq", 0), "irq_bind_vector": ("irq", 0),
    "irq_clear_vector": ("irq", 0), "irq_move_finish": ("irq", 0),
    "irq_assign_vector": ("irq", 0), "irq_unmapped_vector": ("vec", 0),
    "pm_idle_entry": ("cx", 0), "pm_idle_exit": ("cx", 0), "pm_freq_change": ("new_freq", 0),
    # Schedulers: whom a decision is about.
    **dict.fromkeys((
        "sleep", "wake", "yield", "block", "shutdown", "shutdown_code", "adjdom",
        "switch_infprev", "switch_infnext", "switch_infcont",
        "csched_account_start", "csched_account_stop", "csched_stolen_unit",
        "csched_picked_cpu", "csched_boost_start", "csched_boost_end", "csched_ratelimit",
        "csched2_runq_pos", "csched2_credit_burn", "csched2_tickle_check",
        "csched2_credit_reset", "csched2_runq_assign", "csched2_update_unit_load",
        "csched2_tickle_new", "csched2_migrate", "csched2_picked_cpu",
        "csched2_runq_candidate", "csched2_ratelimit", "csched2_runq_cand_check",
        "rtds_runq_pick", "rtds_budget_burn", "rtds_budget_replenish",
        "null_picked_cpu", "null_unit_assign", "null_unit_deassign", "null_migrate",
        "null_schedule",
    ), ("dom", 0)),
    # KVM's handlers.
    "kvm_page_fault": ("error_code", 0), "kvm_tdp_fault": ("gpa", PAGE_BITS),
    "kvm_inj_virq": ("vector", 0), "kvm_redeliver_evt": ("vector", 0),
    "kvm_intr": ("vector", 0), "kvm_apic_access": ("offset", 0),
    "kvm_io_read": ("port", 0), "kvm_io_write": ("port", 0),
    "kvm_cr_read": ("cr", 0), "kvm_cr_write": ("cr", 0),
    "kvm_dr_read": ("dr", 0), "kvm_dr_write": ("dr", 0),
    "kvm_msr_read": ("msr", 0), "kvm_msr_write": ("msr", 0),
    "kvm_cpuid": ("leaf", 0), "kvm_vmmcall": ("eax", 0), "kvm_ppc_instr": ("emulated", 0),
})  # fmt: skip
"""By event: the field that its records are told apart by, and how many low bits of it do
not matter. Events of the classes below that are not here are only counted."""

_RUNSTATE_FORM = 0x0FFFF00F
_RUNSTATE_CHANGE = 0x00021001
_RUNSTATE_WORDS = (1, 5)
"""One; some old versions of Xen for debugging added two 64-bit values behind it."""
_CONTINUE_RUNNING = 0x00021002
_DOMAIN_ADDED = 0x00028001
_DOMAIN_REMOVED = 0x00028002
_IRQ_HANDLED = 0x00802008
_IRQ_HANDLED_WORDS = 3
"""The interrupt, and the low halves of the time stamps before and after its handler."""
_ENTRY = 0x00081001
_EXITS = (0x00081002, 0x00081102, 0x00081003, 0x00081103)
_SVM_BIT = 1
"""Set in the numbers of AMD's own events."""
_GROUPS = {
    0x00082: "hvm", 0x00084: "emul", 0x00201: "pv", 0x00202: "pv", 0x0010F: "mem",
    0x00801: "power", 0x00802: "irq", 0x00022: "sched", 0x00028: "sched",
}  # fmt: skip
_HANDLERS = ("hvm", "emul")
"""Groups whose records belong to the exit before them."""


class Kind(NamedTuple):
    """What a tally counts."""

    event: str
    """The event's name."""
    group: str
    """ "hvm", "emul", "pv", "mem", "power", "irq" or "sched"."""


class Forms:
    """The engine's plans; and what the kinds of tallies in them stand for."""

    def __init__(
        self, *, family: str | None, version: tuple[int, int] | None, kvm: bool = False,
        tallied: Container[str] | None = None,
    ) -> None:
        """`kvm`: the records are KVM's (tracelib.events.kvm), none of them Xen's. `tallied`:
        names of the events to tally; all, if it is None."""
        self.kinds: list[Kind] = []
        """By number."""
        self.assumed: set[str] = set()
        """Events whose layout is the newest one's only because nobody says which Xen it was."""
        self._family = family
        self._version = version
        self.kvm = kvm
        self._tallied = tallied
        self._numbers: dict[str, int] = {}

    def learn(self, header: int) -> Plan:
        """The plan for records with this header."""
        event, extra = header & EVENT_MASK, header >> EXTRA_SHIFT & EXTRA_MASK
        number = class_number(event)
        if self.kvm:
            return self._learn_owned(event, extra, number)
        action, kind = _control(event, extra)
        if action != codes.NOTHING:
            return action, number, kind, 0, 0, 0
        group = _GROUPS.get(event >> 12)
        if group is None or not self._wanted(event):
            return codes.NOTHING, number, 0, 0, 0, 0
        action = codes.HANDLER if group in _HANDLERS else codes.TALLY
        if event == _IRQ_HANDLED and extra == _IRQ_HANDLED_WORDS:
            action = codes.LASTED
        return action, number, *self._tally(event, extra, group)

    def _wanted(self, event: int) -> bool:
        return self._tallied is None or event_name(event) in self._tallied

    def _learn_owned(self, event: int, extra: int, number: int) -> Plan:
        """The plan for records that name a process and a vCPU first."""
        if event == VMENTRY:
            return codes.OWNED_ENTRY, number, 0, 0, 0, 0
        if event == VMEXIT:
            action = codes.OWNED_EXIT if extra > OWNER_WORDS else codes.NOTHING
            return action, number, 0, 0, 0, 0
        if event & ~0xFFF != HANDLER:
            return codes.NOTHING, number, 0, 0, 0, 0
        return codes.OWNED_HANDLER, number, *self._tally(event, extra, "hvm")

    def _tally(self, event: int, extra: int, group: str) -> tuple[int, int, int, int]:
        name = event_name(event)
        kind = self._numbers.setdefault(name, len(self.kinds))
        if kind == len(self.kinds):
            self.kinds.append(Kind(name, group))
        form = lookup(event, extra, family=self._family, xen_version=self._version)
        if self._version is None and layout_changed(event, extra):
            self.assumed.add(name)
        wanted, ignored = VALUES.get(name, ("", 0))
        for field in () if form is None else form.fields:
            if field.name == wanted and field.reliable:
                return kind, field.word, field.shift + ignored, _mask(field.width)
        return kind, 0, 0, 0


def _mask(width: int) -> int:
    # All 64 bits would be no number: shifted addresses have fewer anyway.
    return (1 << min(width, 63)) - 1


def _control(event: int, extra: int) -> tuple[int, int]:
    """The action, and the kind of an exit, for records that say who runs."""
    if event == LOST_RECORDS:
        return codes.GAP, 0
    if event & _RUNSTATE_FORM == _RUNSTATE_CHANGE and extra in _RUNSTATE_WORDS:
        return codes.CHANGE, 0
    if event == _CONTINUE_RUNNING and extra in _RUNSTATE_WORDS:
        return codes.CONTINUE, 0
    if event == _DOMAIN_ADDED and extra == 1:
        return codes.CREATE, 0
    if event == _DOMAIN_REMOVED and extra == 1:
        return codes.REMOVE, 0
    nested = codes.NESTED if event & NESTED else 0
    plain = event & ~NESTED
    if plain == _ENTRY:
        return codes.ENTRY, nested
    if plain in _EXITS and extra >= 1:
        return codes.EXIT, nested | (codes.SVM_EVENT if event & _SVM_BIT else 0)
    return codes.NOTHING, 0


def class_number(event: int) -> int:
    """Which of the twelve class bits is the lowest that is set, from 0."""
    bits = event >> 16 & 0xFFF
    return (bits & -bits).bit_length() - 1 if bits else 0
