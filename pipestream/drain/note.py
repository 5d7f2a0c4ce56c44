"""The note committed with a partition's offset, in the same Kafka transaction.

It says where the range began and what its records have come to so far, so that a task that takes over half a range,
or a run that finds a whole one done but not entered, still knows the numbers.
"""

from __future__ import annotations

import json

from pipestream.ledger.entries import Tally

# The broker refuses longer ones (offset.metadata.max.bytes, 4096 by default).
_LIMIT_BYTES = 4_000


def write_note(start: int, tally: Tally) -> str:
    """Return the note for a range that began at ``start`` and has come to ``tally``."""
    note = {"start": start, "records": tally.records, "dead": tally.dead_letters}
    full = json.dumps({**note, "out": dict(tally.documents_out)}, separators=(",", ":"))
    # Hundreds of edges do not fit; then the numbers are lost with a crash, and nothing else is.
    return full if len(full.encode()) <= _LIMIT_BYTES else json.dumps(note, separators=(",", ":"))


def note_start(note: str) -> int | None:
    """Return where the range of a note began, if the note is ours."""
    try:
        return int(json.loads(note)["start"])
    except (ValueError, KeyError, TypeError):
        return None


def read_note(note: str, start: int) -> Tally | None:
    """Return what the records since ``start`` came to, or ``None`` if the note does not tell."""
    if note_start(note) != start:
        return None
    values = json.loads(note)
    return Tally(values["records"], values["out"], values["dead"]) if "out" in values else None
