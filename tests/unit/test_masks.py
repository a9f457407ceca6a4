"""Event masks: Xen's rule, and what people write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.errors import UsageError
from tracelib.events.catalogue import NAMES
from tracelib.events.classes import CLASSES, LEAVES
from tracelib.masks import describe, parse_event_mask, passes


@pytest.mark.parametrize(
    ("mask", "event", "result"),
    [
        (0x0FFFF000, 0x81102, True),
        (0x00080000, 0x81102, False),
        (0x0000F000, 0x81102, False),
        (0x00082000, 0x81102, False),
        (0x00081000, 0x81102, True),
        (0x00021000, 0x21011, True),
        (0x00021000, 0x22203, False),
        (0x00021000 | 0x00082000, 0x22203, True),
        (0x00021000 | 0x00082000, 0x81102, True),
        (0x00021000 | 0x00082000, 0x84001, False),
        (0x00101000, 0x10F001, True),
        (0x08004000, 0x0800F123, True),
        (0x00000102, 0x81102, False),
        (0xF0000000, 0x81102, False),
        (0, 0x1F001, True),
        (0, 0x1F002, True),
        (0, 0x1F003, False),
    ],
)
def test_xens_rule(mask, event, result):
    """R65: class bits and subclass bits must both meet; lost and wrap ask no mask."""
    assert passes(mask, event) is result


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("all", 0x0FFFF000), ("none", 0), ("0", 0), ("0x0", 0),
        ("sched", 0x0002F000), ("HVM", 0x0008F000), ("mem", 0x0010F000), ("guest", 0x0800F000),
        ("sched,hvm", 0x000AF000), (" sched | hvm ", 0x000AF000),
        ("gen,sched,dom0op,hvm,mem,pv,shadow,hw,guest", 0x08FFF000),
        ("sched.min", 0x00021000), ("sched.min,sched.class", 0x00023000),
        ("hvm.entryexit", 0x00081000), ("hvm.handler", 0x00082000), ("hvm.emul", 0x00084000),
        ("pv.entry", 0x00201000), ("pv.subcall", 0x00202000), ("hw.irq", 0x00802000),
        ("0x0002f000", 0x0002F000), ("192512", 0x0002F000), ("0XA3000", 0x000A3000),
        ("0xffffffff", 0xFFFFFFFF),
        ("vmexit", 0x00081000), ("runstate_change", 0x00021000), ("hypercall", 0x00201000),
        ("page_grant_map", 0x0010F000), ("guest_event", 0x0800F000),
        # An undivided class takes the subclass bits that are there anyway.
        ("mem,sched.min", 0x00121000), ("sched.min,page_grant_map", 0x00121000),
        ("0x0010f000,sched.min", 0x0012F000),
    ],
)  # fmt: skip
def test_masks_taken(text, mask):
    """R65: names of classes, subclasses and events, numbers, and unions of them."""
    assert parse_event_mask(text).mask == mask


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("schedule", "'schedule'"),
        ("sched,hvmx", "'hvmx'"),
        ("sched.", "'sched.'"),
        ("hvm.min", "'hvm.min'"),
        ("", "empty part"),
        ("sched,", "empty part"),
        ("|", "empty part"),
        ("-1", "'-1' is negative"),
        ("-0x2f000", "negative"),
        ("0x1ffffffff", "'0x1ffffffff' has more than 32 bits"),
        ("9" * 5000, "more than 32 bits"),
        ("0x", "'0x'"),
        ("0x2f00g", "'0x2f00g'"),
        ("010", "octal or decimal"),
        ("0x00080000", "0x00080000 lets nothing through"),
        ("0xf000", "0x0000f000 lets nothing through"),
        ("1", "0x00000001 lets nothing through"),
        ("0x102", "lets nothing through"),
    ],
)
def test_masks_refused(text, named):
    """R65: unknown names, negative and too long numbers, and masks that pass nothing."""
    with pytest.raises(UsageError) as caught:
        parse_event_mask(text)
    assert named in caught.value.message
    assert caught.value.hint


def test_hints_lead_on():
    """R65"""
    for text, hint in [("schd", "sched"), ("vmexits", "vmexit"), ("0x00080000", "0x0008f000")]:
        with pytest.raises(UsageError) as caught:
            parse_event_mask(text)
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "surplus"),
    [
        ("0x21000|0x82000", ("sched.class", "hvm.entryexit")),
        ("sched.min,hvm.handler", ("sched.class", "hvm.entryexit")),
        ("sched.min,hw.irq", ("sched.class", "hw.pm")),
        ("sched.class,hvm", ("sched.min", "sched.verbose")),
        ("sched|0x00080000", ("hvm.entryexit", "hvm.handler", "hvm.emul")),
        ("sched.min,hvm.entryexit", ()),
        ("sched,hvm", ()),
        ("mem,sched.min", ()),
        ("sched.min,dom0op.domops", ()),
        ("0xa3000", ()),
        ("0xa3000,sched.min", ()),
        ("all", ()),
        ("none", ()),
    ],
)
def test_union_that_lets_more_through(text, surplus):
    """R65: 0x21000|0x82000 also lets 0x22xxx and 0x81xxx through, and that is said."""
    mask = parse_event_mask(text)
    assert mask.surplus == surplus
    assert len(mask.warnings) == bool(surplus)
    for name in surplus:
        assert f"{name} ({LEAVES[name]:#x})" in mask.warnings[0]


def test_event_name_stands_for_more_than_itself():
    """R65"""
    mask = parse_event_mask("vmexit,sched.min")
    assert mask.widened == (("vmexit", "hvm.entryexit"),)
    assert mask.warnings == (
        "the mask cannot select vmexit alone: it lets through all of hvm.entryexit",
    )


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (0, "none"),
        (0x0FFFF000, "all"),
        (0xFFFFFFFF, "all"),
        (0x00080000, "nothing (0x00080000)"),
        (0x0002F000, "sched"),
        (0x0002F001, "sched"),
        (0x000A3000, "sched.min, sched.class, hvm.entryexit, hvm.handler"),
        (0x00121000, "sched.min, mem"),
        (0x08FFF000, "gen, sched, dom0op, hvm, mem, pv, shadow, hw, guest"),
        (0x00042000, "0x00042000"),
        (0x0102F000, "sched, 0x0100f000"),
    ],
)
def test_describe(mask, text):
    assert describe(mask) == text


@given(st.sets(st.sampled_from([*CLASSES, *LEAVES]), min_size=1))
def test_description_means_the_same(names):
    """What a mask is said to let through, parsed again, lets the same events through."""
    mask = parse_event_mask(",".join(sorted(names))).mask
    again = parse_event_mask(describe(mask)).mask
    for event in (*NAMES, 0x0800F000):
        assert passes(again, event) == passes(mask, event)


@given(st.sets(st.sampled_from([*CLASSES, *LEAVES]), min_size=1))
def test_surplus_is_all_that_nobody_asked_for(names):
    """R65: every event that passes belongs to what was asked for or to what is warned of."""
    parsed = parse_event_mask(",".join(sorted(names)))
    asked = [{**CLASSES, **LEAVES}[name] for name in names]
    warned = [LEAVES[name] for name in parsed.surplus]
    for event in set(NAMES) - {0x1F001, 0x1F002}:
        wanted = any(passes(bits, event) for bits in asked)
        assert passes(parsed.mask, event) == (wanted or any(passes(b, event) for b in warned))


@given(st.text(max_size=12))
def test_any_text_is_a_mask_or_refused(text):
    try:
        parsed = parse_event_mask(text)
    except UsageError:
        return
    assert 0 <= parsed.mask < 1 << 32
