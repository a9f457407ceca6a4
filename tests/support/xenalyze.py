"""Debian's xenalyze as a second opinion: its text as amounts under names that ours can have.

How it counts is in Xen's tools/xentrace/xenalyze.c; where it is known to be wrong is in
tests/golden/xenalyze.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAM = shutil.which("xenalyze")

_PATIENCE = 120.0
"""Seconds. It is known to loop for ever on some inputs."""

_IDLE, _UNKNOWN = 32767, 32768
"""Domain numbers: Xen's for what runs when nobody does; xenalyze's for whoever it does not
know, one vCPU for each CPU."""

_CLASSES = {"gen", "sched", "dom0op", "hvm", "mem", "pv", "shadow", "hw"}

_STATES = {"running", "blocked", "offline", "wake", "preempt", "lost"}

_PV = {
    "page_fault": "page_fault", "emulate privop": "emulate_privop",
    "math state restore": "math_state_restore", "ptwr": "ptwr_emulation",
    "hypercall": "hypercall", "hypercall (subcall)": "hypercall_subcall",
}  # fmt: skip

_PHRASES = (
    (r"hypercall", "hypercall"), (r" hypercall", "hypercall_subcall"),
    (r"sched_switch prev d\S+ next", "switch"),
    (r"sched_switch prev d\S+ run", "switch_infprev"),
    (r"sched_switch next", "switch_infnext"),
    (r"sched_switch continue", "switch_infcont"),
    (r"runstate_change", "runstate_change"),
    (r"runstate_continue", "continue_running"),
    (r"csched2:burn_credits", "csched2_credit_burn"),
    (r"csched2:migrate", "csched2_migrate"),
    (r"csched2:picked_cpu", "csched2_picked_cpu"),
    (r"csched2:ratelimit", "csched2_ratelimit"),
    (r"csched2:reset_credits", "csched2_credit_reset"),
    (r"csched2:runq_assign", "csched2_runq_assign"),
    (r"csched2:runq_cand_check", "csched2_runq_cand_check"),
    (r"csched2:runq_candidate", "csched2_runq_candidate"),
    (r"csched2:runq_insert", "csched2_runq_pos"),
    (r"csched2:runq_tickle_new", "csched2_tickle_new"),
    (r"csched2:runq_tickle", "csched2_tickle"),
    (r"csched2:schedule", "csched2_schedule"),
    (r"csched2:tickle_check", "csched2_tickle_check"),
    (r"csched2:update_load", "csched2_update_load"),
    (r"csched2:update_max_weight", "csched2_runq_max_weight"),
    (r"csched2:update_rq_load", "csched2_update_runq_load"),
    (r"csched2:update_vcpu_load", "csched2_update_unit_load"),
    (r"sched_adjust", "adjdom"),
    (r"sched_destroy_domain", "sched_dom_rem"),
    (r"sched_init_domain", "sched_dom_add"),
    (r"vcpu_block", "block"), (r"vcpu_sleep", "sleep"), (r"vcpu_wake", "wake"),
    (r"vcpu_yield", "yield"),
    (r"creating domain", "dom_add"), (r"destroying domain", "dom_rem"),
    (r"vmentry", "vmentry"), (r"vmexit", "vmexit"),
    (r"cpuid \[", "cpuid"), (r"cr_r\w* \[", "cr_read"), (r"cr_write|cr3 val", "cr_write"),
    (r"dr_write", "dr_write"), (r"hlt \[", "hlt"), (r"inj_exc", "inj_exc"),
    (r"inj_virq", "inj_virq"), (r"intr vec", "intr"), (r"intr_window", "intr_window"),
    (r"io (read|write)|io_assist", "ioport"), (r"mmio_assist", "iomem"),
    (r"msr_read", "msr_read"), (r"msr_write", "msr_write"), (r"npf", "npf"),
    (r"rdtsc", "rdtsc"), (r"vmcall", "vmmcall"),
    (r"grant-map", "page_grant_map"), (r"grant-unmap", "page_grant_unmap"),
    (r"set_p2m_entry", "set_p2m_entry"),
    (r"emulate privop", "emulate_privop"), (r"math state restore", "math_state_restore"),
    (r"page_fault", "page_fault"), (r"ptwr", "ptwr_emulation"),
    (r"irq_handled", "irq_handled"), (r"lost_records count", "lost_records"),
)
"""How --dump-all begins a record's text, and the event's name."""


class Cycles(NamedTuple):
    """How often, and how long on average: the mean is cut off, so the sum is not known
    exactly."""

    number: int
    mean: int

    def sums_to(self, total: int) -> bool:
        """Whether it may be the mean of durations with this sum."""
        return self.number * self.mean <= total < self.number * (self.mean + 1)

    def __str__(self) -> str:
        return f"{self.number} x {self.mean}"


Amount = int | Cycles


class XenalyzeError(Exception):
    """It failed, and what it said last."""


def run(trace: Path, *options: str, hz: int, svm: bool = True) -> str:
    """Its standard output. Raises XenalyzeError."""
    assert PROGRAM is not None
    family = ("--svm-mode",) if svm else ()
    done = subprocess.run(
        [PROGRAM, *family, f"--cpu-hz={hz}", *options, str(trace)],
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE,
    )
    if done.returncode:
        complaints = done.stderr.decode(errors="replace").splitlines()
        raise XenalyzeError(complaints[-1] if complaints else "")
    return done.stdout.decode(errors="replace")


def amounts(trace: Path, *, hz: int, svm: bool = True) -> dict[str, Amount]:
    """All it says of a trace that ours says too. Raises XenalyzeError.

    `CLASS bytes` and `event NAME` (records) are of the whole trace, `cpuN busy` and `cpuN idle`
    are spells of a physical CPU. What begins with a vCPU, or with a CPU where nobody knows the
    vCPU, is that one's: time in a state, stays on a CPU, exits by reason, PV events, hypercalls
    by number (those in a multicall among them), interrupts by vector.
    """
    summary = run(trace, "--summary", "--show-default-domain-summary", hz=hz, svm=svm)
    found = dict(_summary(summary.splitlines()))
    found |= _cpus(run(trace, "--report-pcpu", hz=hz, svm=svm).splitlines())
    dumped = run(trace, "--dump-all", hz=hz, svm=svm)
    return found | {f"event {name}": n for name, n in events(dumped).items()}


def events(dumped: str) -> Counter[str]:
    """Records by event, from --dump-all.

    Ports and MMIO are one event each, since what it cannot match with an exit it prints
    without saying whether it was read or written.
    """
    counts: Counter[str] = Counter()
    for line in dumped.splitlines():
        if (record := _RECORD.match(line)) and (phrase := _PHRASE.match(record[1])):
            assert phrase.lastgroup is not None
            counts[_PHRASES[int(phrase.lastgroup[1:])][1]] += 1
    return counts


_RECORD = re.compile(r"[ \]!] [ \d.]*[^d]* (?:d[\d?]+v[\d?]+ |(?=inj_exc))(.*)")
_PHRASE = re.compile("|".join(f"(?P<n{at}>{text})" for at, (text, _) in enumerate(_PHRASES)))
_DOMAIN = re.compile(r"\|-- Domain (.+) --\|$")
_VCPU = re.compile(r"-- v(\d+) --$")
_BYTES = re.compile(r" (?:\+-)?(\w+) *: +(\d+)$")
_STATE = re.compile(r" +(\w+): +(\d+) +[\d.]+s +(\d+) ")
_EXIT = re.compile(r" (\w+) +(\d+) +[\d.]+s +[\d.]+% +(\d+) cyc")
_STAYS = re.compile(r" cpu affinity: +(\d+) ")
_CALL = re.compile(r"    \S.* +\[ ?(\d+)\]: +(\d+)$")
_EVENT = re.compile(r"  ([a-z][\w ()]+?)  (\d+)$")
_VECTOR = re.compile(r"  \[ *(\d+)\] (\d+)$")


def _summary(lines: Iterable[str]) -> Iterator[tuple[str, Amount]]:
    volume: Counter[str] = Counter()
    domain, owner = "", ""
    for line in lines:
        if match := _DOMAIN.match(line):
            domain, owner = match[1], ""
        elif match := _VCPU.match(line):
            owner = _owner(domain, match[1])
        elif not (domain or owner) and (match := _BYTES.match(line)):
            volume[match[1]] += int(match[2])
        elif owner and (found := _of_vcpu(line)):
            yield f"{owner} {found[0]}", found[1]
    yield from ((f"{name} bytes", size) for name, size in volume.items())


def _owner(domain: str, vcpu: str) -> str:
    """Empty for the idle domain, which ours has as idle time of CPUs."""
    if not domain.isdecimal() or int(domain) == _UNKNOWN:
        return f"cpu{vcpu}"
    return "" if int(domain) == _IDLE else f"d{domain}v{vcpu}"


def _of_vcpu(line: str) -> tuple[str, Amount] | None:
    if match := _EXIT.match(line):
        name = match[1].removeprefix("VMEXIT_")
        return f"exit {name}", Cycles(int(match[2]), int(match[3]))
    if (match := _STATE.match(line)) and match[1] in _STATES:
        return match[1], Cycles(int(match[2]), int(match[3]))
    if match := _STAYS.match(line):
        return "stays", int(match[1])
    if match := _CALL.match(line):
        return f"hypercall {match[1]}", int(match[2])
    if match := _VECTOR.match(line):
        return f"interrupt {match[1]}", int(match[2])
    if (match := _EVENT.match(line)) and match[1] in _PV:
        return f"event {_PV[match[1]]}", int(match[2])
    return None


def _cpus(lines: Iterable[str]) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    cpu = ""
    for line in lines:
        if match := re.match(r"pcpu (\d+)$", line):
            cpu = match[1]
        elif cpu and (match := _STATE.match(line)):
            name = "busy" if match[1] == "running" else match[1]
            found[f"cpu{cpu} {name}"] = Cycles(int(match[2]), int(match[3]))
    return found
