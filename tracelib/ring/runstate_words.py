"""Where things lie in the words of a RunstateTable, and the events that change it.

The table is one row of 32-bit words, so that compiled code can work in it:

    CPUS        how many CPUs it has a place for
    CAPACITY    how many vCPUs it takes at most
    USED        how many it holds
    OVERFLOW    records about vCPUs that it had no room for
    SLOTS       number of hash slots, a power of two, at least twice CAPACITY
    HASH_SHIFT  32 - log2(SLOTS)
    FIRST_SLOT  word where the slots begin
    FIRST_CPU   from here on, for each CPU the vCPU that runs there, or NOBODY
    slots       SLOT_WORDS each: vCPU or NOBODY, state, place, TSC low, TSC high

A vCPU is one word, `vcpu | domain << 16`, as runstate records have it. Its place is the
CPU where it runs or ran last, NOBODY if it was never seen to run. C twins of the numbers
are in runstate_words.pxd.
"""

from __future__ import annotations

CPUS = 0
CAPACITY = 1
USED = 2
OVERFLOW = 3
SLOTS = 4
HASH_SHIFT = 5
FIRST_SLOT = 6
FIRST_CPU = 8

STATE = 1
PLACE = 2
SINCE_LOW = 3
SINCE_HIGH = 4
SLOT_WORDS = 5

NOBODY = 0xFFFFFFFF
"""No vCPU, no CPU. Xen's domain numbers end at 0x7fff, so it names nobody."""

HASH_FACTOR = 0x9E3779B1
"""2**32 divided by the golden ratio: spreads neighbouring numbers (Fibonacci hashing)."""

WORD_MASK = 0xFFFFFFFF
"""Keeps a product or a sum the 32 bits it has in C."""

# Xen's runstates (xen/include/public/vcpu.h), and one of ours.
RUNNING = 0
RUNNABLE = 1
BLOCKED = 2
OFFLINE = 3
UNKNOWN = 0xFF
"""It changed unseen, or its domain is gone."""

SCHED_MINIMUM = 0x00021000
"""Class and subclass of the events that say who runs; GROUP_MASK takes them out of an id."""
GROUP_MASK = 0x0FFFF000
RUNSTATE_CHANGE = 0x00021001
"""With the old state in bits 8-11 and the new one in bits 4-7, which RUNSTATE_FORM leaves out."""
RUNSTATE_FORM = 0x0FFFF00F
CONTINUE_RUNNING = 0x00021002
DOMAIN_REMOVED = 0x00028002
"""The scheduler forgets a domain; one extra word, the domain."""
