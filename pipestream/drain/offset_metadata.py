"""The metadata that is committed with a partition's offset, in the same Kafka transaction.

It says where the range began and what its records became so far. So a task that resumes half a range, or a run that
finds a whole one drained but not recorded, still knows the counts.
"""

from __future__ import annotations

import json

from pipestream.ledger.entries import Tally

# The broker refuses longer ones (offset.metadata.max.bytes, 4096 by default).
_LIMIT_BYTES = 4_000


def write_metadata(start: int, tally: Tally) -> str:
    """Return the metadata for a range that began at ``start`` and whose records so far became ``tally``."""
    values = {"start": start, "records": tally.records, "dead": tally.dead_letters}
    full = json.dumps({**values, "out": dict(tally.documents_out)}, separators=(",", ":"))
    # Hundreds of edges do not fit. A crash then loses the counts, and nothing else.
    return full if len(full.encode()) <= _LIMIT_BYTES else json.dumps(values, separators=(",", ":"))


def metadata_start(metadata: str) -> int | None:
    """Return where the range began, if the metadata is ours."""
    try:
        return int(json.loads(metadata)["start"])
    except (ValueError, KeyError, TypeError):
        return None


def read_metadata(metadata: str, start: int) -> Tally | None:
    """Return what the records since ``start`` became, or ``None`` if the metadata does not say."""
    if metadata_start(metadata) != start:
        return None
    values = json.loads(metadata)
    return Tally(values["records"], values["out"], values["dead"]) if "out" in values else None
