"""Reading the configuration: everything that is wrong at once, each with its place."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelib.errors import ConfigError
from xtraced import config
from xtraced.config import Override, load
from xtraced.describe import toml
from xtraced.settings import TABLE, Settings


@pytest.fixture
def write(tmp_path):
    path = tmp_path / "x.toml"

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


def problems(path: Path | None, *overrides: Override) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, overrides)
    return [problem.replace(f"{path}", "x.toml") for problem in caught.value.problems]


def test_no_file_means_defaults():
    assert load(None) == Settings()


def test_an_empty_file_means_defaults(write):
    assert load(write("")) == Settings()


def test_values_of_every_type(write):
    settings = load(write(
        """
        source.pages = 128              # a dotted key
        [store]
        directory = "/srv/traces"
        max_bytes = "10G"
        keep_free = 1_073_741_824
        [collect]
        cpus = [0, "2-3"]
        flush_interval = 0.25
        leave_enabled = true
        [sim]
        offline = "1"
        """
    ))
    assert settings.source.pages == 128
    assert settings.store.directory == Path("/srv/traces")
    assert settings.store.max_bytes == 10 << 30
    assert settings.store.keep_free == 1 << 30
    assert settings.collect.cpus == {0, 2, 3}
    assert settings.collect.flush_interval == 250_000_000
    assert settings.collect.leave_enabled is True
    assert settings.sim.offline == {1}


def test_shipped_configuration_is_all_defaults(write):
    assert load(write(toml())) == Settings()


def test_shipped_configuration_uncommented_is_all_defaults(write):
    lines = [
        line.removeprefix("#") if line.startswith("#") and line[1:2].isalpha() else line
        for line in toml().splitlines()
    ]
    text = "\n".join(lines)
    assert text.count(" = ") >= len(TABLE)
    assert load(write(text)) == Settings()


def test_all_mistakes_at_once(write):
    """R55: nonsense is refused when the configuration is read, with key and line."""
    path = write(
        """\
[store]
max_bytes = 0
max_byte = 3

[colect]
[writer]
buffers = 2
buffer_bytes = \"\"\"
100000\"\"\"
direct = 2026-11-30
[collect]
cpus = [
  "0-3",     # fine
  "5-",
]
log = {level = "info"}
"""
    )
    assert problems(path, Override("--set", "store.keep_fre", "1G")) == [
        "x.toml:5: colect: unknown section; did you mean collect?",
        "x.toml:2: store.max_bytes: 0 B is too little; at least 256 KiB",
        "x.toml:3: store.max_byte: unknown setting; did you mean store.max_bytes?",
        "x.toml:7: writer.buffers: 2 is too little; at least 3",
        "x.toml:8: writer.buffer_bytes: 100000 is not a multiple of 4096",
        "x.toml:10: writer.direct: a date or time is not possible here",
        "x.toml:12: collect.cpus: '5-' is no CPU, range or mask; write all, a list such as "
        "0-3,7, or a mask such as 0xff",
        "x.toml:16: collect.log: unknown setting",
        "--set: store.keep_fre: unknown setting; did you mean store.keep_free?",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[store]\nmax_bytes = 4G\n", "x.toml:2: Expected newline or end of document after"),
        ("[store]\n[store]\n", "x.toml:2: Cannot declare ('store',) twice"),
        ('[store]\ndirectory = "x', 'x.toml:2: Unterminated string'),
        ("max_bytes = 4", "x.toml:1: max_bytes: unknown section; did you mean segment."),
        ("store = 5", "x.toml:1: store: this is a section; write [store] above its keys"),
        ("[[store]]", "x.toml:1: store: this is a section"),
        ("[store.max_bytes]\na = 1", "x.toml:1: store.max_bytes: a table is not possible here"),
        ("[log]\nbuffers = 4", "x.toml:2: log.buffers: unknown setting; did you mean writer.b"),
        ("[store]\nmax-bytes = 4", "x.toml:2: store.max-bytes: unknown setting; did you mean st"),
        ("[store]\n'keep_free.x' = 4", "x.toml:2: store.keep_free.x: unknown setting; did you"),
        ("[store]\nmax_age = inf", "x.toml:2: store.max_age: 'inf' is not a duration"),
        ("[log]\nlevel = true", "x.toml:2: log.level: 'true' is not one of debug"),
    ],
)
def test_mistakes_of_notation(write, text, problem):
    found = problems(write(text))
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_not_utf8(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"[store]\n\n# caf\xe9\n")
    assert problems(path) == ["x.toml:3: not UTF-8, as TOML must be"]


def test_a_file_that_cannot_be_read(tmp_path):
    assert problems(tmp_path / "none.toml") == ["x.toml: No such file or directory"]
    assert problems(tmp_path) == ["x.toml: not a regular file"]


def test_only_regular_files_are_read(tmp_path):
    """Neither one without end nor one that waits for a writer."""
    os.mkfifo(tmp_path / "fifo")
    for path in (Path("/dev/zero"), Path("/dev/null"), tmp_path / "fifo"):
        assert problems(path) == ["x.toml: not a regular file"]


def test_files_are_read_up_to_a_mebibyte(write):
    assert load(write("#" * (1 << 20))) == Settings()
    assert problems(write("#" * ((1 << 20) + 1))) == [
        "x.toml: larger than 1.0 MiB: not a configuration file"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[store]\nmax_bytes = " + "[" * 5000, "x.toml: nested too deeply, or a number is"),
        ("[store]\nmax_bytes = " + "1" * 5000, "x.toml: nested too deeply, or a number is"),
        ("[store]\nmax_bytes = " + "[" * 300 + "]" * 300, "x.toml:2: store.max_bytes: an array "),
        ("[store]\nmax_bytes = 0x" + "f" * 5000, "x.toml:2: store.max_bytes: a number is too l"),
        ("[store]\nmax_age = '" + "1" * 5000 + "'", "x.toml:2: store.max_age: a number is too l"),
        ("[sim]\ntsc_hz = '" + "1" * 5000 + "'", "x.toml:2: sim.tsc_hz: a number is too long"),
    ],
)
def test_what_python_refuses_in_its_own_words(write, text, problem):
    (found,) = problems(write(text))
    assert found.startswith(problem)


def test_a_file_that_cannot_be_read_hides_no_other_mistake(tmp_path):
    found = problems(tmp_path / "none.toml", Override("--store", "store.directory", ""))
    assert found[1:] == ["--store: store.directory: an empty path"]


def test_overrides_beat_the_file_and_the_last_one_wins(write):
    path = write('[store]\nmax_bytes = "1G"\ndirectory = "/a"\n')
    settings = load(path, [
        Override("--store", "store.directory", "/b"),
        Override("--set", "store.max_bytes", "2G"),
        Override("--set", "store.directory", "/c"),
    ])
    assert settings.store.max_bytes == 2 << 30
    assert settings.store.directory == Path("/c")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[segment]\nmax_bytes = "1M"',
            "x.toml:2: segment.max_bytes: segment.max_bytes (1.0 MiB) must be at least twice "
            "writer.buffer_bytes (1.0 MiB): a segment has a head and a seal beside its records; "
            "set segment.max_bytes to at least 2M",
        ),
        (
            '[writer]\nbuffer_bytes = "16M"\n[segment]\nmax_bytes = "8M"',
            "x.toml:4: segment.max_bytes: ",
        ),
        (
            '[store]\nmax_bytes = "100M"\n[segment]\nmax_bytes = "64M"',
            "x.toml:4: segment.max_bytes: segment.max_bytes (64.0 MiB) must be at most half of "
            "store.max_bytes (100 MiB), or nothing older than the open segment could be kept; "
            "set store.max_bytes to at least 128M, or set segment.max_bytes to at most 50M",
        ),
        (
            '[store]\nmax_bytes = "2M"',
            "x.toml:2: store.max_bytes: segment.max_bytes (2.0 MiB) must be at most half of "
            "store.max_bytes (2.0 MiB), or nothing older than the open segment could be kept; "
            "set store.max_bytes to at least 4M, or set segment.max_bytes to at most 1M and "
            "set writer.buffer_bytes to at most 512K",
        ),
        (
            '[store]\nmax_age = "10m"',
            "x.toml:2: store.max_age: segment.max_age (1h 00m) must be at most store.max_age",
        ),
        ("[sim]\noffline = '4'", "x.toml:2: sim.offline: CPU 4 cannot be offline: there are 4"),
        ("[sim]\ncpus = 2\noffline = '0-1'", "x.toml:3: sim.offline: no CPU is left online"),
    ],
)
def test_contradictions(write, text, problem):
    """R55: a size smaller than one block, and other values that cannot go together."""
    found = problems(write(text))
    assert len(found) == 1
    assert found[0].startswith(problem)


@pytest.mark.parametrize(
    ("store", "segment"),
    [
        ("4G", 64 << 20), ("256M", 64 << 20), ("255M", 255 << 18), ("64M", 16 << 20),
        ("8M", 2 << 20), ("4M", 2 << 20),
    ],
)
def test_segments_fit_into_the_store_unless_somebody_says_otherwise(write, store, segment):
    """One sane value is enough; the segment's follows, but not below two buffers."""
    settings = load(write(f'[store]\nmax_bytes = "{store}"'))
    assert settings.segment.max_bytes == segment
    asked = load(None, [
        Override("--set", "store.max_bytes", store), Override("--set", "segment.max_bytes", "2M")
    ])
    assert asked.segment.max_bytes == 2 << 20


def test_what_a_contradiction_proposes_is_accepted(write):
    load(write('store.max_bytes = "2M"\nsegment.max_bytes = "1M"\nwriter.buffer_bytes = "512K"'))


def test_segments_follow_the_store_in_a_reload(write):
    before = load(write('[store]\nmax_bytes = "64M"'))
    reloaded = config.reload(before, write('[store]\nmax_bytes = "128M"'))
    assert reloaded.changed == ("segment.max_bytes", "store.max_bytes")
    assert reloaded.settings.segment.max_bytes == 32 << 20


def test_no_contradiction_is_built_on_a_wrong_value(write):
    """The default that stands in for it was not asked for."""
    path = write('[segment]\nmax_bytes = "3G"\n[store]\nmax_bytes = "lots"\n')
    assert len(problems(path)) == 1


def test_find(tmp_path, monkeypatch):
    default = tmp_path / "default.toml"
    monkeypatch.setattr(config, "DEFAULT_PATH", default)
    assert config.find(None) is None
    default.touch()
    assert config.find(None) == default
    missing = tmp_path / "missing.toml"
    assert config.find(missing) == missing


def test_reload(write):
    before = load(write('[store]\nmax_bytes = "1G"\n[writer]\nbuffers = 4\n'))
    path = write('[store]\nmax_bytes = "2G"\n[writer]\nbuffers = 5\n[log]\nlevel = "debug"\n')
    reloaded = config.reload(before, path)
    assert reloaded.changed == ("store.max_bytes", "log.level")
    assert reloaded.need_restart == ("writer.buffers",)
    assert reloaded.settings.store.max_bytes == 2 << 30
    assert reloaded.settings.writer.buffers == 4
    again = config.reload(reloaded.settings, path)
    assert again == (reloaded.settings, (), ("writer.buffers",))


def test_reload_keeps_the_overrides(write):
    override = Override("--set", "store.max_bytes", "1G")
    before = load(None, [override])
    path = write('[store]\nmax_bytes = "2G"\nmax_segments = 9\n')
    reloaded = config.reload(before, path, [override])
    assert reloaded.settings.store.max_bytes == 1 << 30
    assert reloaded.changed == ("store.max_segments",)


def test_reload_is_all_or_nothing(write):
    path = write('[store]\nmax_bytes = "2G"\nkeep_free = "lots"\n')
    with pytest.raises(ConfigError, match="keep_free"):
        config.reload(Settings(), path)


def test_reload_refuses_what_fails_until_the_restart(write):
    """The new buffer size needs a restart; the new segment size would not fit the old one."""
    before = load(write('[writer]\nbuffer_bytes = "4M"\n'))
    path = write('[writer]\nbuffer_bytes = "64K"\n[segment]\nmax_bytes = "1M"\n')
    with pytest.raises(ConfigError, match=r"until a restart brings writer.buffer_bytes"):
        config.reload(before, path)


@given(st.binary(max_size=200) | st.text(alphabet="[]{}=.\"'#\n\\ a1sto re", max_size=60))
def test_any_bytes_give_settings_or_our_own_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with suppress(ConfigError):
        load(path)
