"""Every fuzz target on its seeds, and on some mutations of them; `make fuzz` does it for longer."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.__main__ import attempt
from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS

INPUTS = 100


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_good_inputs(name):
    """A target that refuses its own seeds would test nothing behind the first check."""
    for data in TARGETS[name].seeds():
        TARGETS[name].run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_some_mutations(name):
    """R20, R21, R55, R64, R65: values, or an error of our own."""
    chance = random.Random(name)
    seeds = list(TARGETS[name].seeds())
    for _ in range(INPUTS):
        assert attempt(name, mutated(chance.choice(seeds), chance)) is None
