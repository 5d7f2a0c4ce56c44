"""How long a proof takes: short in every test run, long with ``FAULTS=long``."""

from __future__ import annotations

import os
import random
from typing import TypeVar

Choice = TypeVar("Choice")

LONG = os.environ.get("FAULTS") == "long"


def by_length(short: Choice, long: Choice) -> Choice:
    """Return what this run is to use."""
    return long if LONG else short


def seeds(short: int, long: int) -> list[int]:
    """Return new seeds for random rounds, or the one of ``FAULTS_SEED``, to repeat a round."""
    given = os.environ.get("FAULTS_SEED")
    if given:
        return [int(given)]
    # The processes of one test run must agree; pytest-xdist gives them an id in common.
    chance = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))
    return chance.sample(range(1_000_000), by_length(short, long))


def repeat_command(test: str, seed: int) -> str:
    """Return what to run so that a test chooses as it did with this seed, which depends on the length as well."""
    return f"{by_length('', 'FAULTS=long ')}FAULTS_SEED={seed} .venv/bin/pytest {test}"
