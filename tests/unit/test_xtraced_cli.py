"""The command line of xtraced up to where the service starts."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tracelib.errors import (
    ConfigError,
    LockedError,
    ServiceError,
    SourceError,
    StoreError,
    UsageError,
)
from tracelib.version import VERSION
from xtraced import app, cli, config
from xtraced.cli import Exit, build_parser, main
from xtraced.parsers import SourceKind

MAN = Path(__file__).parents[2] / "man/xtraced.8"


@pytest.fixture(autouse=True)
def signals_as_before():
    """`main` ignores two of them until the service handles them; this process is not it, and
    what it ignores, the programs that other tests start would ignore too."""
    numbers = (signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def default_path(tmp_path, monkeypatch):
    """The machine's own configuration is none of the tests' business."""
    monkeypatch.setattr(config, "DEFAULT_PATH", tmp_path / "default.toml")
    return tmp_path / "default.toml"


@pytest.fixture
def started(monkeypatch):
    """What the service was started with; it ends at once, well."""
    calls = []

    def run(settings, reload):
        calls.append((settings, reload))
        return 0

    monkeypatch.setattr(app, "run", run)
    return calls


def test_runs_with_defaults(started):
    assert main([]) == Exit.FINE
    ((settings, _),) = started
    assert settings == config.load(None)


def test_options_are_settings(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([
        "--source", "file:x.trace", "--set", "store.directory=/a", "--store", "demo",
        "--socket", "s", "--set", "log.level=debug", "--set", "sim.burst=1s,2s",
    ]) == 0  # fmt: skip
    settings = started[0][0]
    assert settings.source.kind == SourceKind("file", tmp_path / "x.trace")
    assert settings.store.directory == tmp_path / "demo"
    assert settings.control.socket == tmp_path / "s"
    assert settings.log.level == "debug"
    assert settings.sim.burst == (10**9, 2 * 10**9)


def test_reads_the_default_file_and_reads_it_again(started, default_path):
    default_path.write_text('[store]\nmax_bytes = "1G"\n')
    assert main(["--set", "store.max_segments=9"]) == 0
    settings, reload = started[0]
    assert settings.store.max_bytes == 1 << 30
    default_path.write_text('[store]\nmax_bytes = "2G"\n')
    reloaded = reload(settings)
    assert reloaded.changed == ("store.max_bytes",)
    assert reloaded.settings.store.max_segments == 9
    default_path.unlink()
    assert reload(reloaded.settings).settings.store.max_bytes == 4 << 30


def test_a_file_that_was_asked_for_must_exist(started, capsys, tmp_path):
    missing = tmp_path / "missing.toml"
    assert main(["--config", str(missing)]) == Exit.USAGE
    assert capsys.readouterr().err == f"xtraced: {missing}: No such file or directory\n"
    assert not started


def test_every_mistake_has_a_line(capsys, default_path):
    default_path.write_text("[store]\nmax_bytes = 0\nkeep_free = 1\n")
    assert main(["--check-config", "--set", "log.level=loud"]) == Exit.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"xtraced: {default_path}:2: store.max_bytes: 0 B is too little; at least 256 KiB",
        f"xtraced: {default_path}:3: store.keep_free: 1 B is too little; at least 1.0 MiB "
        "(or 0 for off)",
        "xtraced: --set: log.level: 'loud' is not one of debug, info, warning, error",
    ]


def test_check_config_says_what_is_in_force(started, capsys, default_path):
    default_path.write_text('[store]\nmax_bytes = "1G"\n[collect]\ncpus = "7,0-3"\n')
    assert main(["--check-config"]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"{default_path}: no problems",
        "  collect.cpus = 0-3,7",
        "  store.max_bytes = 1G",
    ]
    assert not started


def test_check_config_without_a_file(capsys):
    assert main(["--check-config"]) == 0
    assert capsys.readouterr().out.startswith("no configuration file: no problems\n")


@pytest.mark.parametrize(
    ("events", "warning"),
    [
        ("0x21000|0x82000", "also lets through sched.class"),
        ("none", "lets nothing through"),
    ],
)
def test_check_config_warns_of_masks(capsys, events, warning):
    """R65: 0 means none, and a union that lets more through is reported."""
    assert main(["--check-config", "--set", f"collect.events={events}"]) == 0
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("warning:")
    ]
    assert warning in line


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        (["collect.cpus=4-7"], ["names no CPU that is there; nothing will be recorded"]),
        (["collect.cpus=3", "sim.offline=3"], ["names no CPU that is there"]),
        (["collect.cpus=2-9", "sim.offline=3"], ["3-9 will not be recorded"]),
        (["collect.cpus=0,3"], []),
        (["collect.cpus=all", "sim.offline=3"], []),
        (["collect.cpus=100", "sim.socket=/run/elsewhere.sock"], []),
        (["collect.cpus=100", "source.kind=xen"], []),
    ],
)
def test_check_config_warns_of_cpus_that_cannot_be_there(capsys, settings, warnings):
    """R10: a mask that lets nothing through, where it can be known before the start."""
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["--check-config", "--source", "sim", *words]) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines()
        if line.startswith("warning: collect.cpus")
    ]
    assert len(lines) == len(warnings)
    assert all(words in line for words, line in zip(warnings, lines, strict=True))


def test_check_config_warns_of_a_truth_without_a_directory(capsys):
    assert main(["--check-config", "--source", "sim", "--set", "sim.truth=/nonexist/x"]) == 0
    assert "warning: sim.truth: there is no directory /nonexist;" in capsys.readouterr().out


def test_version_says_whether_the_fast_path_is_compiled(capsys, monkeypatch):
    for compiled, words in ((True, "compiled"), (False, "not compiled: plain Python, slower")):
        monkeypatch.setattr(cli.fastpath, "COMPILED", compiled)
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"xtraced {VERSION} (fast path {words})\n"


@pytest.mark.parametrize(
    "arguments",
    [["--set", "store.max_bytes"], ["--sourc", "sim"], ["--frobnicate"], ["sim"], ["--store"]],
)
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == Exit.USAGE
    assert "usage: xtraced" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (ConfigError(["x"]), 2),
        (SourceError("xencall_open: no such device", errno=19), 3),
        (LockedError("the store is in use by process 7"), 4),
        (StoreError("read-only"), 5),
        (ServiceError("x"), 1),
    ],
)
def test_exit_codes(error, code, monkeypatch, capsys):
    """R67, R29: one line that names the trouble, and a code that never changes."""

    def run(*_):
        raise error

    monkeypatch.setattr(app, "run", run)
    assert main([]) == code
    assert capsys.readouterr().err == f"xtraced: {error.message}\n"


def test_hints_have_a_line(monkeypatch, capsys):
    def run(*_):
        raise SourceError("no /dev/xen/privcmd", hint="is this a Xen host?")

    monkeypatch.setattr(app, "run", run)
    main([])
    assert capsys.readouterr().err == (
        "xtraced: no /dev/xen/privcmd\nhint: is this a Xen host?\n"
    )


def test_man_page_has_every_option():
    page = MAN.read_text().replace("\\-", "-")
    options = {
        option
        for action in build_parser()._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
    }
    assert options == set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", page))


def test_man_page_has_the_exit_codes():
    table = MAN.read_text().partition(".TS\n")[2].partition(".TE")[0]
    assert [int(code) for code in re.findall(r"^(\d+)\t", table, re.MULTILINE)] == list(Exit)


def test_version_imports_neither_trio_nor_numpy():
    """Nothing that only the running service needs is paid for before it runs."""
    code = (
        "import sys; from xtraced.cli import main; main(['--check-config']);"
        "sys.exit(bool({'trio', 'numpy', 'structlog'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
