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
CHUNK_READ = "chunk-read"
"""The next chunk is read, and those before it are in progress."""
CHUNK_HYDRATED = "chunk-hydrated"
CHUNK_PROCESSED = "chunk-processed"
SEGMENTS_BUILT = "segments-built"
"""Documents of a chunk are put together in segments, with names that were just drawn, and nothing is stored yet."""
CHUNK_STORED = "chunk-stored"
"""The objects of a chunk are stored, and the chunk before it may not be committed yet."""
CHUNK_PRODUCED = "chunk-produced"
CHUNK_COMMITTED = "chunk-committed"
PIECE_HANDED_OVER = "piece-handed-over"
"""A piece of a sub-range is processed, and goes to the task that commits."""
SUB_RANGE_PROCESSED = "sub-range-processed"
"""All of a sub-range is processed. The task that commits begins when all sub-ranges of the wave are."""
COMMITTER_FENCED = "committer-fenced"
"""The task that commits has fenced every earlier one, and has not read the committed offset yet."""
PIECES_GATHERED = "pieces-gathered"
"""Pieces are gathered for a transaction that has not begun."""
RANGES_DRAINED = "ranges-drained"
RANGES_ENTERED = "ranges-entered"

SLOT_FENCED = "slot-fenced"
"""A slot of the engine has fenced its predecessor and has not read the accepted log yet."""
SLOT_READ = "slot-read"
"""It has read the log, and takes no call yet."""
SEGMENTS_STORED = "segments-stored"
"""Segments with documents of calls are stored, and no call that refers to them is submitted to a slot."""
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
CONNECTOR_UPLOADED = "connector-uploaded"
"""Documents of a connector are uploaded, and it is not remembered yet that they were seen."""

STREAM_RECONCILED = "stream-reconciled"
STREAM_TAKEN = "stream-taken"
STREAM_RECORDED = "stream-recorded"

POINTS = (
    LEASE_ACQUIRED,
    RECONCILED,
    PLAN_WRITTEN,
    CHUNK_READ,
    CHUNK_HYDRATED,
    CHUNK_PROCESSED,
    CHUNK_STORED,
    CHUNK_PRODUCED,
    CHUNK_COMMITTED,
    RANGES_DRAINED,
    RANGES_ENTERED,
)
"""The points of a drain, in the order that it reaches them."""

SEGMENT_POINTS = (SEGMENTS_BUILT, CHUNK_STORED, CHUNK_PRODUCED, CHUNK_COMMITTED)
"""The points around the segments of a chunk, which only nodes with that storage have."""

SUB_RANGE_POINTS = (
    CHUNK_READ,
    CHUNK_HYDRATED,
    CHUNK_PROCESSED,
    CHUNK_STORED,
    PIECE_HANDED_OVER,
    SUB_RANGE_PROCESSED,
    COMMITTER_FENCED,
    PIECES_GATHERED,
    CHUNK_PRODUCED,
    CHUNK_COMMITTED,
    RANGES_DRAINED,
    RANGES_ENTERED,
)
"""The points of a drain in sub-ranges after its plan is written. It reaches the last two after every wave."""

STREAM_POINTS = (
    STREAM_RECONCILED,
    CHUNK_READ,
    CHUNK_HYDRATED,
    CHUNK_PROCESSED,
    CHUNK_STORED,
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

ALL_POINTS = tuple(
    dict.fromkeys(
        (
            *POINTS,
            *SEGMENT_POINTS,
            *SUB_RANGE_POINTS,
            SEGMENTS_STORED,
            *SLOT_POINTS,
            *STREAM_POINTS,
            *UPLOAD_POINTS,
            CONNECTOR_UPLOADED,
        )
    )
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
