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

SLOT_FENCED = "slot-fenced"
"""A slot of the engine has fenced its predecessor and has not read the accepted log yet."""
SLOT_READ = "slot-read"
"""It has read the log, and takes no call yet."""
CALLS_GATHERED = "calls-gathered"
"""Calls are taken for a transaction that has not begun."""
CALLS_COMMITTED = "calls-committed"
"""Their transaction is committed, and no caller has an answer."""
UPLOAD_STORED = "upload-stored"
UPLOAD_RECORDED = "upload-recorded"
OUTBOX_LOCKED = "outbox-locked"
OUTBOX_FENCED = "outbox-fenced"
OUTBOX_CLAIMED = "outbox-claimed"
OUTBOX_PUBLISHED = "outbox-published"
OUTBOX_SETTLED = "outbox-settled"

STREAM_RECONCILED = "stream-reconciled"
STREAM_TAKEN = "stream-taken"
STREAM_RECORDED = "stream-recorded"

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
"""The points of a drain, in the order that it reaches them."""

STREAM_POINTS = (
    STREAM_RECONCILED,
    CHUNK_PROCESSED,
    CHUNK_PRODUCED,
    CHUNK_COMMITTED,
    STREAM_TAKEN,
    STREAM_RECORDED,
)
"""The points of a stream: when it knows where it starts, in each chunk, and around each ledger commit."""

SLOT_POINTS = (SLOT_FENCED, SLOT_READ, CALLS_GATHERED, CHUNK_PRODUCED, CALLS_COMMITTED)
"""The points of a slot of the engine. It sends its outputs as a drain sends a chunk's."""

UPLOAD_POINTS = (
    UPLOAD_STORED,
    UPLOAD_RECORDED,
    OUTBOX_LOCKED,
    OUTBOX_FENCED,
    OUTBOX_CLAIMED,
    CHUNK_PRODUCED,
    OUTBOX_PUBLISHED,
    OUTBOX_SETTLED,
)
"""The points of an upload and of the relay that publishes it. It sends references as a drain sends a chunk."""

ALL_POINTS = tuple(dict.fromkeys((*POINTS, *SLOT_POINTS, *STREAM_POINTS, *UPLOAD_POINTS)))

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
