"""The note committed with a partition's offset, in the same Kafka transaction.

It keeps what a range has come to so far, so that a task that takes over half a range, or a run that finds a
whole one done but not entered, still knows the numbers.
"""

from __future__ import annotations

import json

from pipestream.ledger.model import Tally

# The broker refuses longer ones (offset.metadata.max.bytes, 4096 by default).
_LIMIT_BYTES = 4_000


def write_note(plan_key: str, start: int, tally: Tally) -> str:
    """Return the note for a range that began at ``start`` and has come to ``tally``."""
    note = {"plan": plan_key, "start": start, "records": tally.records, "dead": tally.dead_letters}
    full = json.dumps({**note, "out": dict(tally.documents_out)}, separators=(",", ":"))
    # Hundreds of edges do not fit; then the numbers are lost with a crash, and nothing else is.
    return full if len(full.encode()) <= _LIMIT_BYTES else json.dumps(note, separators=(",", ":"))


def read_note(note: str, start: int, plan_key: str | None = None) -> Tally | None:
    """Return the tally since ``start``, or ``None`` if the note is of other work.

    :param plan_key: the plan it must belong to, if any.
    """
    try:
        values = json.loads(note)
        if values["start"] != start or (plan_key is not None and values["plan"] != plan_key):
            return None
        return Tally(values["records"], values["out"], values["dead"])
    except (ValueError, KeyError, TypeError):
        return None
