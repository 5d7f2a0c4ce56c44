"""Say what a drain would take, without doing anything."""

from __future__ import annotations

from dataclasses import dataclass

from pipestream.drain.backfill import estimate_backfill, seconds_per_offset
from pipestream.drain.check import find_lag
from pipestream.drain.request import DrainRequest
from pipestream.errors import TopicMissing
from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class TopicEstimate:
    """What one topic of a run would take."""

    topic: str
    offsets: int
    """Offsets that would be drained. Kafka's own markers of transactions are among them."""
    seconds: float | None
    """At the pace of the topic's runs so far; None if there were none."""
    missing: str = ""
    """What a run would do about the topic, if it does not exist."""

    def describe(self) -> str:
        if self.missing:
            return f"{self.topic}: {self.offsets} offsets, because it does not exist; {self.missing}"
        seconds = "its pace is not known yet" if self.seconds is None else f"about {self.seconds:.0f} s"
        return f"{self.topic}: {self.offsets} offsets, {seconds}"


def estimate_request(request: DrainRequest, settings: Settings) -> TopicEstimate:
    """Return what draining a request's topic now would take: nothing, if the topic does not exist.

    :raises TerminalError: a drain would refuse, for this reason.
    """
    try:
        return _estimate(request, settings)
    except TopicMissing:
        apply = "apply the graph before a run: pipestream graph apply FILE"
        return TopicEstimate(request.topic, 0, None, "a run creates it" if settings.auto_create else apply)


def _estimate(request: DrainRequest, settings: Settings) -> TopicEstimate:
    lane = request.graph.graph_id
    if request.backfill is not None:
        found = estimate_backfill(request.backfill, settings, lane, request.topic)
        return TopicEstimate(request.topic, found.offsets, found.seconds)
    offsets = min(find_lag(settings, request.graph, request.topic), request.budget)
    pace = seconds_per_offset(settings, lane, request.topic)
    return TopicEstimate(request.topic, offsets, None if pace is None else offsets * pace)
