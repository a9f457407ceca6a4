"""The command line as a whole: help, usage, places, exit codes, and output that fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.control import HEALTHY, FakeService, as_map
from tracelib import errors
from tracelib.errors import XtraceError
from xtracectl.cli import COMMANDS, build_parser, load, main
from xtracectl.exits import MEANINGS, Exit, exit_code
from xtracectl.places import DEFAULT_SOCKET, DEFAULT_STORE, MAX_CONFIG, Options


def run(*words, **kwargs):
    """`xtracectl` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "xtracectl", *map(str, words)],
        capture_output=True, text=True, check=False, **kwargs,
    )


def shell(line: str, **kwargs):
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False,
        env={**os.environ, "XTRACECTL": f"{sys.executable} -m xtracectl", **kwargs},
    )


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "control.sock"


def healthy(*_):
    return as_map(HEALTHY)


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_not_an_error(capsys, word):
    """R79: --help and -h give 0, and name every command with what it does."""
    assert main([word]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"^    {name}\s+\S", out, re.MULTILINE), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches(capsys, name):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: xtracectl {name}")
    assert "--socket PATH" in out
    assert main([name, "-h"]) == 0


def test_version(capsys):
    """R79: --version gives 0."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "xtracectl 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: COMMAND"),
        (["explode"], "invalid choice: 'explode'"),
        (["--frobnicate", "status"], "unrecognized arguments: --frobnicate"),
        (["status", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["status", "--js"], "unrecognized arguments: --js"),
        (["status", "--socket"], "argument --socket: expected one argument"),
        (["status", "--watch", "soon"], "'soon' is not a duration"),
        (["status", "--watch", "1us"], "an interval is 100.0 ms to 1h 00m"),
        (["mask", "--events", "shced"], "nothing is called 'shced'"),
        (["mask", "--events", "0x80000"], "lets nothing through"),
        (["mask", "--cpus", "3-1"], "runs backwards"),
        (["--config", "/nonexistent", "status"], "cannot read /nonexistent: No such file"),
    ],
)
def test_usage(capsys, words, message):
    """R79: 2, one line that says what is wrong, and a hint; never a traceback."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *rest = err.splitlines()
    assert first.startswith("xtracectl: ")
    assert message in first
    assert all(line.startswith("  hint: ") for line in rest)


def test_places_stand_before_or_after_the_command(path):
    parse = build_parser("status").parse_args
    for words in (["--socket", str(path), "status"], ["status", "--socket", str(path)]):
        assert parse(words, Options()).socket == path
    both = ["--socket", "/x", "--store", "/y", "status", "--socket", "/z"]
    options = parse(both, Options())
    assert (options.socket, options.store) == (Path("/z"), Path("/y"))


def test_places_by_default():
    assert str(DEFAULT_STORE) == "/var/lib/xtraced"
    assert str(DEFAULT_SOCKET) == "/run/xtraced/control.sock"


def test_places_of_the_configuration(tmp_path):
    config = tmp_path / "xtraced.toml"
    config.write_text('[store]\ndirectory = "/srv/x"\nlater = 1\n[control]\nsocket = "/run/y"\n')
    parse = build_parser("status").parse_args
    options = parse(["status", "--config", str(config)], Options())
    assert (options.store, options.socket) == (Path("/srv/x"), Path("/run/y"))
    options = parse(["status", "--config", str(config), "--store", "/given"], Options())
    assert (options.store, options.socket) == (Path("/given"), Path("/run/y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[store", r"xtraced.toml: "),
        ("store = 3", "store.directory is not a path"),
        ("[control]\nsocket = 3", "control.socket is not a path"),
        ('[store]\ndirectory = ""', "store.directory is not a path"),
        ("a = " + "[" * 1000, "xtraced.toml: "),
        ("#" * (MAX_CONFIG + 1), "is larger than 1 MiB"),
    ],
)
def test_a_configuration_that_cannot_be_read(tmp_path, capsys, text, message):
    config = tmp_path / "xtraced.toml"
    config.write_text(text)
    assert main(["status", "--config", str(config)]) == 2
    assert message in capsys.readouterr().err


def test_a_configuration_that_is_no_file(tmp_path, capsys):
    """Neither read for ever nor waited for."""
    os.mkfifo(tmp_path / "fifo")
    for path in ("/dev/zero", str(tmp_path / "fifo"), str(tmp_path)):
        assert main(["--config", path, "status"]) == 2
        assert f"{path} is not a regular file" in capsys.readouterr().err


def test_the_largest_configuration(tmp_path):
    config = tmp_path / "xtraced.toml"
    head = '[store]\ndirectory = "/srv/x"\n#'
    config.write_text(head.ljust(MAX_CONFIG, "x"))
    options = build_parser("status").parse_args(["status", "--config", str(config)], Options())
    assert options.store == Path("/srv/x")


def test_a_configuration_that_does_not_matter(tmp_path, path):
    config = tmp_path / "xtraced.toml"
    config.write_text("[store")
    with FakeService(path, healthy):
        assert main(["status", "--config", str(config), "--socket", str(path)]) == 0


def test_status_starts_fast(path):
    """design.md 9: nothing that takes long to import is needed for a status."""
    code = (
        "import sys; from xtracectl.cli import main;"
        f"main(['status', '--socket', '{path}']); print(*sys.modules)"
    )
    status = as_map(replace(HEALTHY, masks=replace(HEALTHY.masks, events=0x00021000)))
    with FakeService(path, lambda *_: status):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "xtracectl.render.status" in loaded
    assert loaded.isdisjoint({"numpy", "trio", "structlog", "xtraced", "asyncio", "json"})
    assert loaded.isdisjoint({"dataclasses", "tracelib.masks", "tracelib.events.catalogue"})
    assert loaded.isdisjoint(f"xtracectl.commands.{name}" for name in COMMANDS if name != "status")


def test_three_answers_that_are_not_yes(path, capsys):
    """R10: degraded, not running and cannot tell have three codes and three messages."""
    degraded = as_map(
        replace(
            HEALTHY, state="degraded", healthy=False, reasons=["nothing could be stored"],
            writer=replace(
                HEALTHY.writer, last_error="Input/output error (EIO)", failed_blocks=2,
                failed_records=999, last_error_at=HEALTHY.started_at,
            ),
        )
    )
    with FakeService(path, lambda *_: degraded):
        assert main(["status", "--socket", str(path)]) == 1
    out = capsys.readouterr().out
    assert "Input/output error (EIO) (2026-11-30 22:00:00Z)" in out
    assert "not stored: 2 blocks, 999 records" in out
    assert main(["status", "--socket", str(path)]) == 3
    assert "xtracectl: the service is not running" in capsys.readouterr().err
    path.unlink()
    with FakeService(path, healthy, raw=b"rubbish!"):
        assert main(["status", "--socket", str(path)]) == 4
    assert "makes no sense" in capsys.readouterr().err


def test_status_fine(path, capsys):
    with FakeService(path, healthy):
        assert main(["status", "--socket", str(path)]) == 0
    golden = Path(__file__).parent.parent / "golden" / "status_healthy.txt"
    assert capsys.readouterr() == (golden.read_text(), "")


def test_status_as_json_is_complete(path, capsys):
    with FakeService(path, healthy):
        assert main(["status", "--json", "--socket", str(path)]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status == as_map(HEALTHY)
    assert status["schema"] == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "has schema None, not 1"),
        ({"schema": 2}, "has schema 2, not 1"),
        ({"schema": 1}, "makes no sense"),
        ({**as_map(HEALTHY), "cpus": 3}, "makes no sense"),
    ],
)
def test_a_status_that_is_none(path, capsys, answer, message):
    with FakeService(path, lambda *_: answer):
        assert main(["status", "--socket", str(path)]) == 4
    assert message in capsys.readouterr().err


def test_a_status_that_is_refused_is_not_known(path, capsys):
    def refuse(*_):
        raise errors.RefusedError("too many streams", code="busy")

    with FakeService(path, refuse):
        assert main(["status", "--socket", str(path)]) == 4
    assert "no status: too many streams" in capsys.readouterr().err


def test_watching(path, capsys):
    """Plain blocks where there is no terminal; the end of the service is told."""
    asked = []

    def subscribe(command, args):
        asked.append((command, args))
        return [as_map(HEALTHY)] * 2

    with FakeService(path, subscribe):
        assert main(["status", "--watch", "250ms", "--socket", str(path)]) == 4
    assert asked == [("subscribe", {"interval": 250_000_000})]
    golden = Path(__file__).parent.parent / "golden" / "status_healthy.txt"
    assert capsys.readouterr().out == (golden.read_text() + "\n") * 2


def test_watching_as_json_is_a_line_each(path, capsys):
    with FakeService(path, lambda *_: [as_map(HEALTHY)] * 2):
        main(["status", "--watch", "--json", "--socket", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["collecting"] * 2


def test_watching_on_a_terminal_redraws(path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with FakeService(path, lambda *_: [as_map(HEALTHY)]):
        main(["status", "--watch", "--socket", str(path)])
    out = capsys.readouterr().out
    assert out.startswith("\x1b[Hcollecting, healthy\x1b[K\n")
    assert out.endswith("\x1b[J")


MASKS = {"events_wanted": 0x0FFFF000, "events": 0x00021000, "cpus_wanted": "all", "cpus": "0-3"}


@pytest.mark.parametrize(
    ("words", "request_", "answer", "out"),
    [
        (
            ["rotate"], ("rotate", {}),
            {"sealed": "00000001-20261130T220000Z.xtr", "records": 1234, "bytes": 1 << 20},
            "00000001-20261130T220000Z.xtr: 1,234 records, 1.0 MiB\n",
        ),
        (
            ["rotate"], ("rotate", {}), {"sealed": None, "records": 0, "bytes": 0},
            "nothing to seal: the open segment has no records\n",
        ),
        (
            ["flush"], ("flush", {}), {"records": 1234, "bytes": 2048},
            "1,234 records (2.0 KiB) drained and stored\n",
        ),
        (["pause"], ("pause", {}), {"state": "paused"}, "paused\n"),
        (["resume"], ("resume", {}), {"state": "collecting"}, "collecting\n"),
        (
            ["mask"], ("mask", {}), MASKS,
            "events   asked for: all (0x0ffff000)\n         in force: sched.min (0x00021000)\n"
            "CPUs     asked for: all\n         in force: 0-3\n",
        ),
        (
            ["mask", "--events", "sched.min", "--cpus", "0,1,2,3"],
            ("mask", {"events": 0x00021000, "cpus": "0-3"}),
            {**MASKS, "events_wanted": 0x00021000, "cpus_wanted": "0-3"},
            "events   in force: sched.min (0x00021000)\nCPUs     in force: 0-3\n",
        ),
        (
            ["mask", "--cpus", "all", "--events", "0"], ("mask", {"events": 0, "cpus": "all"}),
            {**MASKS, "events": 0, "events_wanted": 0, "cpus": "all"},
            "events   in force: none (0x00000000)\nCPUs     in force: all\n",
        ),
        (["stop"], ("stop", {}), {"pid": 42}, "stopped (pid 42)\n"),
        (["stop", "--no-wait"], ("stop", {}), {"pid": 42}, "stopping (pid 42)\n"),
    ],
)
def test_commands(path, capsys, words, request_, answer, out):
    asked = []

    def handle(command, args):
        asked.append((command, args))
        return answer

    with FakeService(path, handle):
        assert main([*words, "--socket", str(path)]) == 0
    assert asked == [request_]
    assert capsys.readouterr() == (out, "")


def test_a_mask_that_lets_more_through_says_so(path, capsys):
    """The mask is one number: classes share their subclass bits."""
    with FakeService(path, lambda *_: MASKS):
        assert main(["mask", "--events", "sched.min,hvm.handler", "--socket", str(path)]) == 0
    assert "xtracectl: note: the mask 0x000a3000 also lets through" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["rotate", "flush", "pause", "resume", "mask", "stop"])
def test_commands_that_are_refused(path, capsys, name):
    def refuse(*_):
        raise errors.RefusedError("you may not", code="not_allowed", hint="become root")

    with FakeService(path, refuse):
        assert main([name, "--socket", str(path)]) == 5
    assert capsys.readouterr() == ("", "xtracectl: you may not\n  hint: become root\n")
    path.unlink()
    assert main([name, "--socket", str(path)]) == 3
    capsys.readouterr()
    with FakeService(path, lambda *_: {}):
        assert main([name, "--socket", str(path)]) == 4
    assert "lacks" in capsys.readouterr().err


def test_a_service_that_does_not_get_to_its_stop(path, capsys):
    with FakeService(path, lambda *_: {"pid": 42}, lingers=True):
        assert main(["stop", "--timeout", "50ms", "--socket", str(path)]) == 4
    assert "agreed to stop, but has not after 50.0 ms" in capsys.readouterr().err


def test_every_error_has_a_code():
    classes = [
        value for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, XtraceError) and value is not XtraceError
    ]
    assert len(classes) > 10
    for cls in classes:
        error = cls.__new__(cls)
        assert exit_code(error) in MEANINGS


def test_the_codes():
    assert {code.value for code in Exit} == {0, 1, 2, 3, 4, 5, 6, 7, 129, 130, 141, 143}
    assert set(MEANINGS) == set(Exit)


def test_modules_keep_to_the_protocol():
    for name in COMMANDS:
        module = load(name)
        assert module.HELP[0].islower()
        assert not module.HELP.endswith(".")
        assert module.run.__annotations__["return"] == "int"


# What follows needs real descriptors.


def test_a_reader_that_has_left(path):
    """R49: quiet, and a code that the man page names."""
    read, write = os.pipe()
    os.close(read)
    with FakeService(path, healthy):
        done = subprocess.run(
            [sys.executable, "-m", "xtracectl", "status", "--socket", path],
            stdout=write, stderr=subprocess.PIPE, text=True, check=False,
        )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", ["--help", "--version", "status --json", "flush --help"])
def test_a_full_disk_behind_standard_output(path, words):
    """R49, R79: an error with a code of its own, not silence."""
    with FakeService(path, healthy):
        done = shell(f"$XTRACECTL --socket {path} {words} > /dev/full")
    assert done.returncode == 7
    assert done.stderr == "xtracectl: cannot write output: No space left on device\n"


@pytest.mark.parametrize("words", ["--help", "--version", "status"])
def test_a_closed_standard_output(path, words):
    """R79: closed stdout is an error."""
    with FakeService(path, healthy):
        done = shell(f"$XTRACECTL --socket {path} {words} >&-")
    assert done.returncode == 7
    assert done.stderr == "xtracectl: standard output is closed\n"


def test_a_closed_standard_error(path):
    """Nowhere to complain to changes no code, and nothing lands on standard output."""
    for redirect in ("2>&-", "2>/dev/full"):
        done = shell(f"$XTRACECTL status --socket {path} {redirect}")
        assert (done.returncode, done.stdout) == (3, "")


def test_errors_are_no_tracebacks(path):
    done = run("status", "--socket", path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert re.fullmatch(r"xtracectl: the service is not running.*\n  hint: .*\n", done.stderr)
