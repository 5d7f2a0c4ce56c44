"""Say what a drain would take, without doing anything."""

from __future__ import annotations

from dataclasses import dataclass

from pipestream.drain.backfill import estimate_backfill, seconds_per_offset
from pipestream.drain.check import find_lag
from pipestream.drain.request import DrainRequest
from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class TopicEstimate:
    """What one topic of a run would take."""

    topic: str
    offsets: int
    """Offsets that would be drained. Kafka's own markers of transactions are among them."""
    seconds: float | None
    """At the pace of the topic's runs so far; None if there were none."""

    def describe(self) -> str:
        seconds = "its pace is not known yet" if self.seconds is None else f"about {self.seconds:.0f} s"
        return f"{self.topic}: {self.offsets} offsets, {seconds}"


def estimate_request(request: DrainRequest, settings: Settings) -> TopicEstimate:
    """Return what draining a request's topic now would take.

    :raises TerminalError: a drain would refuse, for this reason.
    """
    lane = request.graph.graph_id
    if request.backfill is not None:
        found = estimate_backfill(request.backfill, settings, lane, request.topic)
        return TopicEstimate(request.topic, found.offsets, found.seconds)
    offsets = min(find_lag(settings, request.graph, request.topic), request.budget)
    pace = seconds_per_offset(settings, lane, request.topic)
    return TopicEstimate(request.topic, offsets, None if pace is None else offsets * pace)
