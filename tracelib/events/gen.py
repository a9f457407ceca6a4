"""General events (0x1f): what the tracing itself has to say, and domain life (DOM0OP)."""

from __future__ import annotations

from tracelib.events.layout import event, table

GEN = table(
    # Four words since September 2008; before, only the count.
    event(0x1F001, "lost_records", "count:u32 dom:u16 vcpu:u16 first_tsc:u64/x", "count:u32",
          tsc=True),
    # A filler of up to 7 words, whose content is whatever lay in the ring.
    event(0x1F002, "wrap_buffer", *(" ".join(["_:u32"] * words) for words in range(8)), tsc=False),
    # Never in a ring: xentrace writes it before each window of a file.
    event(0x1F003, "cpu_change", "cpu:u32 window_size:u32", tsc=False),
    # Xen 4.0 to 4.2.
    event(0x1F004, "trace_irq", "vector:u32/vector count:u32 tot_cycles:u32 max_cycles:u32",
          tsc=True),
)  # fmt: skip

DOM0OP = table(
    event(0x41001, "dom_add", "dom:u32", tsc=True),
    event(0x41002, "dom_rem", "dom:u32", tsc=True),
)
