"""The catalogue as a whole, and its look-ups."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.events.catalogue import CATALOGUE, NAMES, dom_vcpu, event_name, lookup
from tracelib.events.classes import CLASSES, LEAVES, SUBCLASSES
from tracelib.records import EVENT_MASK

WORDS = st.lists(st.integers(0, 0xFFFFFFFF), max_size=7).map(tuple)


def test_no_two_forms_of_an_event_are_alike():
    keys = [(f.event, f.words, f.family, f.since, f.until) for f in CATALOGUE]
    assert len(keys) == len(set(keys))


def test_forms_bound_to_a_version_or_family_come_before_those_that_are_not():
    """Else lookup() would never reach them."""
    by_length = sorted(CATALOGUE, key=lambda form: (form.event, form.words))
    for _, forms in itertools.groupby(by_length, key=lambda form: (form.event, form.words)):
        bound = [form.family is not None or form.since is not None or form.until is not None
                 for form in forms]  # fmt: skip
        assert bound == sorted(bound, reverse=True)


def test_every_record_fits_a_trace_record():
    assert all(form.words <= 7 for form in CATALOGUE)
    assert all(form.event <= EVENT_MASK for form in CATALOGUE)


def test_a_name_is_neither_a_class_nor_a_number_nor_has_fields_of_one_name():
    assert not set(NAMES.values()) & {*CLASSES, *SUBCLASSES, *LEAVES, "all", "none"}
    assert not any(re.fullmatch("[0-9a-f]+", name) for name in NAMES.values())
    for form in CATALOGUE:
        names = [field.name for field in form.fields]
        assert len(names) == len(set(names)), form.name


def test_only_the_classes_that_xen_stamps_have_a_time():
    """From Xen's emission sites: TRACE_TIME and trace_time, against TRACE and trace."""
    for form in CATALOGUE:
        subclass = form.event & 0x0FFFF000
        grant = form.event in (0x10F001, 0x10F002, 0x10F003)
        untimed = subclass in (0x82000, 0x40F000) or (subclass == 0x10F000 and not grant)
        assert form.tsc == (not untimed and form.event not in (0x1F002, 0x1F003)), form.name


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (0x21021, 0), (0x21021, 2), (0x21021, 7), (0x21002, 7),
        (0x1F001, 3), (0x10F012, 2), (0x10F012, 5), (0x82016, 3),
        (0x40F201, 6), (0x81001, 1), (0x802003, 6), (0x22203, 5),
    ],
)  # fmt: skip
def test_known_event_of_unknown_length_is_raw(event, words):
    """R35: a length that no form has gives no decoder, and the event keeps its name."""
    assert lookup(event, words) is None
    assert not event_name(event).startswith("0x")


@pytest.mark.parametrize(
    "event",
    [0x0FFFFFFF, 0x0001F0FF, 0x22601, 0x21041, 0x21401, 0x41003, 0x84012, 0x20100F, 0x40F301]
    + [1 << bit | 0xF001 for bit in (24, 25, 26)],
)
def test_unknown_events_are_shown_by_number(event):
    """R34: 0x0fffffff, unassigned classes and numbers: no decoder at any length."""
    assert all(lookup(event, words) is None for words in range(8))
    assert event_name(event) == f"0x{event:08x}"


def test_unknown_event_example():
    """R34"""
    assert event_name(0x1F0FF) == "0x0001f0ff"


def test_guest_events_are_a_range():
    """R34: guest class 0x0800f000, which guests write themselves."""
    assert event_name(0x0800F000) == event_name(0x0800FFFF) == "guest_event"
    assert event_name(0x08010000) == "0x08010000"
    assert event_name(0x0800E000) == "0x0800e000"


@given(st.integers(0, 0xFFFFFFFF), WORDS)
def test_any_record_is_decoded_or_raw(event, extra):
    """R34, R35: whatever the number and length, a name, and values or nothing."""
    assert event_name(event)
    form = lookup(event, len(extra), family="svm", xen_version=(4, 17))
    dom_vcpu(event, extra)
    if form is not None:
        form.decode(extra)
        form.text(extra)


@given(st.sampled_from(CATALOGUE), st.data())
def test_every_form_decodes_any_words(form, data):
    extra = data.draw(st.tuples(*[st.integers(0, 0xFFFFFFFF)] * form.words))
    values = form.decode(extra)
    assert form.text(extra) or not values
    for field in form.fields:
        if field.constant is None:
            low = -(1 << field.width - 1) if field.signed else 0
            assert low <= values[field.name] < 1 << field.width


class TestVersions:
    """R35: the superpage record and its like, in old and new forms."""

    OLD, NEW = (0x1234, 0x1, 0x0009_0007, 0xDEADBEEF), (0x1234, 0x1, 7, 9)

    @pytest.mark.parametrize("version", [None, (4, 16), (4, 17), (4, 23), (5, 0)])
    def test_new(self, version):
        values = {"gfn": 0x1_0000_1234, "dom": 7, "order": 9}
        for event in (0x10F005, 0x10F012):
            form = lookup(event, 4, xen_version=version)
            assert form is not None
            assert form.decode(self.NEW) == values

    def test_old(self):
        form = lookup(0x10F005, 4, xen_version=(4, 15))
        assert form is not None
        assert form.decode(self.OLD) == {"gfn": 0x1_0000_1234, "dom": 7, "order": 9}
        form = lookup(0x10F012, 4, xen_version=(4, 15))
        assert form is not None
        assert form.decode(self.OLD) == {"gfn": 0x1_0000_1234, "dom": 7}
        for event in (0x10F010, 0x10F011):
            form = lookup(event, 6, xen_version=(4, 15))
            assert form is not None
            assert form.decode((1, 2, *self.OLD[:2], *self.OLD[2:]))["order"] == 9

    def test_of_32_bit_builds(self):
        form = lookup(0x10F012, 3)
        assert form is not None
        assert form.decode((0x1234, 0x1, 0xDEAD_0007)) == {"gfn": 0x1_0000_1234, "dom": 7}


class TestWho:
    """R69: the domain and vCPU of a record, whatever the order of its halves."""

    @pytest.mark.parametrize(
        ("event", "extra", "who"),
        [
            (0x21021, (0x0007_0000,), (7, 0)),
            (0x21101, (0x7FFF_0003,), (0x7FFF, 3)),
            (0x28004, (7, 0), (7, 0)),
            (0x22203, (0x0007_0000, 0xFFFFFF9C, 0x80000000, 1), (7, 0)),
            (0x22214, (0x7FFF_0003, 0, 0), (0x7FFF, 3)),
            (0x22004, (1, 7, 0), (7, 0)),
            (0x1F001, (1, 0x0000_0007, 0, 0), (7, 0)),
            (0x2800A, (0, 0, 7, 0), None),
            (0x22A05, (0, 0xFFFFFFFF), None),
            (0x28001, (7,), None),
            (0x81001, (), None),
            (0x0FFFFFFF, (7, 0), None),
            (0x21021, (7, 0), None),
        ],
    )
    def test_dom_vcpu(self, event, extra, who):
        assert dom_vcpu(event, extra) == who

    def test_all_that_are_named(self):
        form = lookup(0x2800A, 4)
        assert form is not None
        assert form.vcpus((0, 1, 0x7FFF, 3)) == ((0, 1), (0x7FFF, 3))
        assert form.domains((0, 1, 0x7FFF, 3)) == (0, 0x7FFF)
        form = lookup(0x10F001, 1)
        assert form is not None
        assert form.vcpus((7,)) == ()
        assert form.domains((7,)) == (7,)
        form = lookup(0x22A05, 2)
        assert form is not None
        assert form.domains((0, 0xFFFFFFFF)) == ()


class TestUnreliable:
    """R80: values that Xen leaves as rubbish are shown, and marked for analysis."""

    def test_padding_is_no_field(self):
        for event, clean, rubbish in [
            (0x2220A, (0x0007_0001, 2), (0x0007_0001, 0xDEAD_0002)),
            (0x22206, (3,), (0xDEAD_0003,)),
            (0x22211, (1, 0, 2, 0, 0x0003_0002, 0), (1, 0, 2, 0, 0x0003_0002, 0xDEADBEEF)),
        ]:
            form = lookup(event, len(clean))
            assert form is not None
            assert form.decode(clean) == form.decode(rubbish)

    def test_shadow_emulation_count(self):
        for event, words, reliable in [(0x40F008, 4, False), (0x40F108, 6, True),
                                       (0x40F208, 7, False)]:  # fmt: skip
            form = lookup(event, words)
            assert form is not None
            marks = {field.name: field.reliable for field in form.fields}
            assert marks.pop("emulation_count") is reliable
            assert all(marks.values())
