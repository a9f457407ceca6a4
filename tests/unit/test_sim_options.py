"""Options travel to the hypervisor process as a command line and come out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelib.errors import UsageError
from tracelib.units import Nanoseconds
from xtraced.sources.sim.options import SimOptions, argv, parse_argv


@pytest.mark.parametrize(
    "options",
    [
        SimOptions(),
        SimOptions(cpus=8, offline=frozenset({1, 3, 5, 7}), rate=0, seed=2**63),
        SimOptions(
            burst=(Nanoseconds(1_500_000), Nanoseconds(10**9)), weights=(4, 1, 0, 1),
            faults=frozenset({"no-notify", "stuck"}), deterministic=True, tsc_hz=24_000_000,
            skew=-300, family="svm", tbuf_pages=16, limit=1000, domains=0,
        ),
        SimOptions(replay=Path("/t/a b.trace"), socket=Path("/s"), truth=Path("/t.json")),
    ],
)  # fmt: skip
def test_command_line_round_trip(options):
    chosen, _ = parse_argv(argv(options))
    assert chosen == options


def test_defaults_make_no_arguments():
    assert argv(SimOptions()) == []


def test_people_may_write_units():
    chosen, process = parse_argv(
        ["--rate=200M", "--tsc-hz=2.1G", "--burst=10ms,1s", "--keep", "--socket=/s"]
    )
    assert (chosen.rate, chosen.tsc_hz) == (200 << 20, 2_100_000_000)
    assert chosen.burst == (10_000_000, 1_000_000_000)
    assert process.keep


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (SimOptions(cpus=0), "cpus 0 must be 1 to 4096"),
        (SimOptions(cpus=5000), "cpus 5000"),
        (SimOptions(rate=-1), "rate -1"),
        (SimOptions(tsc_hz=1000), "tsc_hz 1000 must be 1000000"),
        (SimOptions(burst=(Nanoseconds(0), Nanoseconds(5))), "burst"),
        (SimOptions(weights=(1, -1)), "weight"),
        (SimOptions(cpus=2, offline=frozenset({0, 1})), "no CPU is left"),
        (SimOptions(cpus=2, weights=(0, 0)), "weight 0"),
        (SimOptions(domains=65), "domains 65"),
        (SimOptions(faults=frozenset({"smoke"})), "smoke"),
    ],
)
def test_impossible_machines_are_refused(options, reason):
    with pytest.raises(UsageError, match=reason):
        options.check()


@pytest.mark.parametrize(
    "words", [["--rate=fast"], ["--burst=1s"], ["--family=ia64"], ["--tsc-hz=0"], ["--cpus=x"]]
)
def test_bad_arguments_are_usage_errors(words, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_argv(words)
    assert caught.value.code == 2
    assert "error: argument" in capsys.readouterr().err
