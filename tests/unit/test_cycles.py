"""The processor's time-stamp counter."""

from __future__ import annotations

import platform

import pytest

from tests.support.uncompiled import load_uncompiled
from tracelib.ring import cycles

compiled = pytest.mark.skipif(cycles.__file__.endswith(".py"), reason="nothing is compiled here")


@compiled
@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86 instruction")
def test_the_counter_counts():
    readings = [cycles.read_tsc() for _ in range(100)]
    assert None not in readings
    # Another core's may be a little behind; over a hundred calls it grows.
    assert readings[-1] > readings[0]


def test_unknown_where_it_cannot_be_read():
    assert load_uncompiled(cycles).read_tsc() is None
