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
    """Return new seeds for random rounds, or the one of ``FAULTS_SEED``, to repeat a round that failed."""
    given = os.environ.get("FAULTS_SEED")
    if given:
        return [int(given)]
    return random.sample(range(1_000_000), by_length(short, long))  # of any kind: they are no secret
