"""The documents that came in last, from the newest records of the intake topics: their keys are document ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipestream.kafka.scan import find_held, scan
from pipestream.topic_names import intake_topic

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document that came in."""

    doc_id: str
    datasource: str
    arrived_at: datetime


def newest_documents(graph: Graph, settings: Settings, limit: int) -> list[Arrival]:
    """Return the documents that came in last, each once, newest first.

    The end of each partition is read, so there can be fewer than ``limit`` if many of the last offsets are markers of
    transactions or belong to the same documents.

    :raises TransientError: Kafka did not answer.
    """
    datasources = {intake_topic(source.datasource_id): source.datasource_id for source in graph.datasources}
    held = find_held(settings, datasources, committed=True)
    ends = [replace(each, start=max(each.start, each.end - 2 * limit)) for each in held]
    found: dict[tuple[str, str], int] = {}
    for record in scan(settings, ends, committed=True):
        if record.key:
            place = record.key.decode(errors="replace"), datasources[record.topic]
            found[place] = max(found.get(place, 0), record.timestamp_ms)
    newest = sorted(found.items(), key=lambda each: (-each[1], each[0]))[:limit]
    return [Arrival(*place, datetime.fromtimestamp(moment / 1000, UTC)) for place, moment in newest]
