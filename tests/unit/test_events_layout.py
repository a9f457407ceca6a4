"""The language of the catalogue's rows."""

from __future__ import annotations

import pytest

from tracelib.events.layout import Field, event, parse_layout


def test_fields_lie_one_after_another():
    fields, words = parse_layout("a:u16 _:u8 b:u4 c:s4 d:u64/x e=3/runstate f:s32?")
    assert words == 4
    assert fields == (
        Field("a", 0, 16),
        Field("b", 24, 4),
        Field("c", 28, 4, signed=True),
        Field("d", 32, 64, kind="x"),
        Field("e", 96, 0, kind="runstate", constant=3),
        Field("f", 96, 32, signed=True, reliable=False),
    )
    assert [(field.word, field.shift) for field in fields] == [
        (0, 0), (0, 24), (0, 28), (1, 0), (3, 0), (3, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [("dom", "dom"), ("prev_dom", "dom"), ("unit", "vcpu"), ("next_vcpu", "vcpu"),
     ("random", "dec"), ("vcpus", "dec")],
)  # fmt: skip
def test_domains_and_vcpus_are_known_by_name(name, kind):
    ((field,), _) = parse_layout(f"{name}:u32")
    assert field.kind == kind


@pytest.mark.parametrize(
    "layout",
    ["a:u16", "a:u16 b:u32 _:u16", "_:u16 a:u64 _:u16", "a:u32/nonsense", "a:x32", "a", "A:u32"],
)
def test_rows_that_are_wrong_are_found_at_import(layout):
    with pytest.raises(ValueError, match=r"layout|kind"):
        parse_layout(layout)


def test_signed_fields():
    ((field,), _) = parse_layout("a:s32")
    assert [field.extract(word) for word in (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFF9C)] == [
        0, 0x7FFFFFFF, -0x80000000, -100,
    ]  # fmt: skip


class TestFits:
    (PLAIN,) = event(1, "plain", tsc=True)
    (INTEL,) = event(1, "intel", tsc=True, family="vmx")
    (NEW,) = event(1, "new", tsc=True, since=(4, 19))
    (OLD,) = event(1, "old", tsc=True, until=(4, 16))

    @pytest.mark.parametrize(
        ("form", "family", "version", "fits"),
        [
            (PLAIN, None, None, True), (PLAIN, "svm", (4, 17), True),
            (INTEL, None, None, False), (INTEL, "svm", None, False), (INTEL, "vmx", None, True),
            (NEW, None, None, False), (NEW, None, (4, 18), False), (NEW, None, (4, 19), True),
            (OLD, None, None, False), (OLD, None, (4, 15), True), (OLD, None, (4, 16), False),
        ],
    )  # fmt: skip
    def test_fits(self, form, family, version, fits):
        assert form.fits(family, version) is fits
