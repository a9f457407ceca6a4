"""The table of settings: complete, typed, and the same as what ships with the product."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tracelib.errors import UsageError
from xtraced import parsers
from xtraced.checks import sim_options
from xtraced.describe import roff, shown, toml
from xtraced.parsers import SourceKind
from xtraced.settings import SECTIONS, TABLE, Settings
from xtraced.sources.sim.options import SimOptions

ROOT = Path(__file__).parents[2]


def test_every_field_is_in_the_table():
    keys = [f"{name}.{row.name}" for name, cls in SECTIONS.items() for row in fields(cls)]
    assert keys == list(TABLE)
    assert all(row.help and row.unit for row in TABLE.values())


def test_defaults_are_typed():
    defaults = Settings()
    assert defaults.store.max_bytes == 4 << 30
    assert defaults.segment.max_age == 3600 * 10**9
    assert defaults.store.directory == Path("/var/lib/xtraced")
    assert defaults.control.socket == Path("/run/xtraced/control.sock")
    assert defaults.source.kind == SourceKind("xen")
    assert defaults.collect.cpus is None
    assert defaults.collect.events.mask == 0x0FFFF000
    assert defaults == Settings.of({})


@pytest.mark.parametrize("key", TABLE)
def test_default_parses_to_the_default(key):
    """The text that the default configuration shows is the value that is in force without."""
    assert TABLE[key].parse(TABLE[key].default) == Settings().get(key)


@pytest.mark.parametrize("key", TABLE)
def test_what_is_shown_parses_again(key):
    value = Settings().get(key)
    text = shown(key, value)
    if text not in ("(none)", "none", ""):
        assert TABLE[key].parse(text) == value


@pytest.mark.parametrize(
    ("key", "text", "again"),
    [
        ("store.max_bytes", "1536M", "1536M"),
        ("store.max_bytes", "1048577", "1048577"),
        ("store.max_age", "36h", "36h"),
        ("collect.cpus", "7,0-3", "0-3,7"),
        ("collect.cpus", "0x1ffffffff", "0-32"),
        ("sim.offline", "1,3", "1,3"),
        ("sim.burst", "200ms,0.8s", "200ms,800ms"),
        ("sim.weights", "4,1, 0", "4,1,0"),
        ("collect.events", "sched,hvm", "0x000af000"),
        ("source.kind", "file:/tmp/x:y.trace", "file:/tmp/x:y.trace"),
        ("collect.leave_enabled", "true", "true"),
    ],
)
def test_shown_exactly(key, text, again):
    """R64: the exact set is echoed."""
    assert shown(key, TABLE[key].parse(text)) == again


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("store.max_bytes", "0", "too little"),
        ("store.max_bytes", "-1", "not a size"),
        ("store.max_bytes", "4096T", "too much"),
        ("store.max_segments", "1", "at least 2 (or 0 for off)"),
        ("segment.max_bytes", "0", "too little"),
        ("segment.max_bytes", "4095", "too little"),
        ("writer.buffers", "2", "at least 3"),
        ("writer.buffers", "65", "at most 64"),
        ("writer.buffers", "8.0", "not a whole number"),
        ("writer.buffers", "", "not a whole number"),
        ("writer.buffer_bytes", "100000", "multiple of 4096"),
        ("writer.direct", "on", "auto, off"),
        ("collect.flush_interval", "0", "too little"),
        ("collect.flush_interval", "5 parsecs", "not a duration"),
        ("collect.cpus", "3-", "'3-'"),
        ("collect.cpus", "", "empty"),
        ("collect.leave_enabled", "yes", "neither true nor false"),
        ("source.kind", "kvm", "not a source"),
        ("source.kind", "file:", "which file"),
        ("source.kind", "xen:1", "not a source"),
        ("source.pages", "0", "too little"),
        ("source.cpu_hz", "2.4", "too little"),
        ("sim.offline", "all", "all of them"),
        ("sim.burst", "200ms", "ON,OFF"),
        ("sim.weights", "1,,2", "not a whole number"),
        ("control.socket", "/" + "x" * 107, "108 bytes"),
        ("store.directory", "", "empty path"),
        ("log.level", "loud", "debug, info"),
    ],
)
def test_nonsense_is_refused(key, text, reason):
    """R55: zero and other nonsense is refused where the setting is read."""
    with pytest.raises(UsageError) as caught:
        TABLE[key].parse(text)
    assert reason in f"{caught.value.message} {caught.value.hint}"


def test_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parsers.path("demo") == tmp_path / "demo"


def test_the_sim_section_has_every_option_of_the_simulated_hypervisor():
    ours = {row.name for row in fields(SECTIONS["sim"])}
    theirs = {row.name for row in fields(SimOptions)}
    assert ours == theirs - {"replay"}  # That one comes from source.kind = "file:PATH".


def test_sim_options_are_the_section():
    settings = Settings.of({"sim.cpus": 8, "sim.offline": frozenset({3})})
    assert sim_options(settings.sim) == SimOptions(
        cpus=8, offline=frozenset({3}), rate=1 << 20
    )


def test_shipped_configuration_is_the_table():
    """`python -m xtraced.describe toml > systemd/xtraced.toml` makes it so."""
    assert (ROOT / "systemd/xtraced.toml").read_text() == toml()


def test_man_page_is_the_table():
    """`python -m xtraced.describe roff` gives what stands between the two marks."""
    page = (ROOT / "man/xtraced.toml.5").read_text()
    _, _, rest = page.partition('.\\" settings begin\n')
    assert rest.partition('.\\" settings end\n')[0] == roff()
