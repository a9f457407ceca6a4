"""Small numbers that the analysis' compiled parts and their readers share.

C twins are in codes.pxd: `codes.RUNNING` is an immediate in a module whose .pxd cimports it.
"""

from __future__ import annotations

# States of a vCPU. The first four are Xen's (xen/include/public/vcpu.h).
RUNNING = 0
RUNNABLE = 1
BLOCKED = 2
OFFLINE = 3
LOST = 4
"""Its CPU lost records."""
UNKNOWN = 5
"""Not seen yet, or seen to contradict itself."""
STATES = 6

# Who has a CPU, where it is no vCPU (those are domain << 16 | number).
CPU_LOST = 1 << 32
CPU_UNKNOWN = 2 << 32
CPU_SWITCH = 3 << 32
"""Xen itself, between the vCPU that left and the one that comes."""

NOWHERE = -1
NO_EXIT = -1
NO_CPU = -1

PENDING = 8
"""So many handler records of one exit get its cost; more are counted without."""

# Of tables: words of a row before its counters, and the row of all that found no room.
KEYS = 2
OTHERS = 0

# Columns of a row of exits.
SEEN = 0
PAIRED = 1
CYCLES = 2
"""In the hypervisor and on a CPU, of the paired ones."""
LONGEST = 3
OFF_RUNNABLE = 4
OFF_BLOCKED = 5
"""Cycles between exit and entry in which the vCPU had no CPU: because others had it, and
because it did not want one."""
CUT_LOSS = 6
CUT_END = 7
CUT_UNSEEN = 8
"""Exits without a pair: records were lost meanwhile; the trace ended; the vCPU moved or
exited again in a way that was not seen."""
EXIT_HISTOGRAM = 9
"""The number of the histogram of their costs."""
EXIT_COLUMNS = 10

# Columns of a row of tallies.
COUNT = 0
COSTED = 1
COST = 2
"""Records; the paired exits that they belong to, or records that LASTED; their cycles."""
OFF_CPU = 3
"""Cycles between those exits and their entries in which the vCPU had no CPU."""
TALLY_COLUMNS = 4

# Columns of a row of spells (uninterrupted times in one state) and of a row of clock steps.
NUMBER = 0
SUM = 1
MOST = 2
SPELL_HISTOGRAM = 3
SPELL_COLUMNS = 4

# Kinds of spells.
RAN = 0
WOKEN = 1
PREEMPTED = 2
SLEPT = 3
SPELL_KINDS = 4

# Kinds of exits: bits in the key beside the vCPU.
NESTED = 1
SVM_EVENT = 2
"""Logged under AMD's own number (0x81003), which Xen does since 4.19."""
KIND_BITS = 2

LONGEST_BITS = 48
"""Durations of so many bits are told apart in histograms."""

# What to do with a record. From ORDERED on, it waits for its turn among all CPUs.
NOTHING = 0
EXIT = 1
ENTRY = 2
TALLY = 3
HANDLER = 4
"""A tally that belongs to the open exit of its CPU."""
LASTED = 5
"""A tally of what has begun and ended: its second and third words are the low halves of two time
stamps, and what is between them is its cost."""
ORDERED = 6
CHANGE = 6
CONTINUE = 7
GAP = 8
REMOVE = 9
CREATE = 10
OWNED = 11
"""From here on, of KVM: records that name the vCPU they are of, whoever was seen to run."""
OWNED_EXIT = 11
OWNED_ENTRY = 12
OWNED_HANDLER = 13

# What is noted event by event: which is wanted, the tags of rows, and their columns.
WANT_EXITS = 1
WANT_SPELLS = 2
WANT_RECORDS = 4
EXITED = 0
HANDLED = 1
SPELL = 2
RECORD = 3
NOTE_COLUMNS = 9

RECENT_BITS = 7
"""So many bits number the headers that a CPU remembers the rows of."""

# Columns of a row of forms: records, and the plan for them (forms.Forms.learn).
FORM_ACTION = 1
FORM_CLASS = 2
FORM_KIND = 3
FORM_WORD = 4
FORM_SHIFT = 5
FORM_MASK = 6
FORM_OWNER = 7
FORM_VALUE = 8
FORM_ROW = 9
"""The last tally of such a record: whose, by which value, and the row where it is."""
FORM_COLUMNS = 10
