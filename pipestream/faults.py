"""Named points at which a test may stop, kill or fail a process; in production each is one dictionary look-up.

What happens at a point is not part of the product. The variable ``PIPESTREAM_FAULT`` loads it from the package of test
support, which comes with the source and not with the wheel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module

from pipestream.errors import SettingsInvalid

VARIABLE = "PIPESTREAM_FAULT"
ONCE_VARIABLE = "PIPESTREAM_FAULT_ONCE"

LEASE_ACQUIRED = "lease-acquired"
RECONCILED = "reconciled"
PLAN_WRITTEN = "plan-written"
CHUNK_PROCESSED = "chunk-processed"
CHUNK_PRODUCED = "chunk-produced"
CHUNK_COMMITTED = "chunk-committed"
RANGES_DRAINED = "ranges-drained"
RANGES_ENTERED = "ranges-entered"

POINTS = (
    LEASE_ACQUIRED,
    RECONCILED,
    PLAN_WRITTEN,
    CHUNK_PROCESSED,
    CHUNK_PRODUCED,
    CHUNK_COMMITTED,
    RANGES_DRAINED,
    RANGES_ENTERED,
)

_ACTIONS = "pipestream_testing.fault_actions"


def reach(point: str) -> None:
    """Say that the process got here; a test's fault acts now.

    :raises SettingsInvalid: a fault is configured, but the test support is not installed.
    """
    fault = os.environ.get(VARIABLE)
    if fault:
        _load_actions()(point, fault)


@cache
def _load_actions() -> Callable[[str, str], None]:
    try:
        actions = import_module(_ACTIONS)
    except ModuleNotFoundError as error:
        raise SettingsInvalid(
            f"{VARIABLE} is set, which only tests do, and {error.name} cannot be imported; unset it"
        ) from error
    act: Callable[[str, str], None] = actions.act
    return act
