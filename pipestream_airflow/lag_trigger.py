"""The trigger that starts a run when enough waits in a graph's topics.

It looks at levels, not at events: watermarks of Kafka against heads of the ledger. It consumes nothing. So it does no
harm if an event is lost, or if Airflow joins several into one run: what still waits is seen again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from pipestream.errors import PipestreamError
from pipestream.leases import open_lease_store
from pipestream.settings import load_settings
from pipestream.views.standing import StandingView, TopicStanding
from pipestream_airflow.connections import run_settings

log = logging.getLogger(__name__)

Snapshot = Mapping[tuple[str, str], TopicStanding]
"""Where the topics of all watched graphs stand, by graph and topic."""


class LagTrigger(BaseEventTrigger):
    """Fire when enough waits in the topics of a graph, or when the oldest record has waited long enough.

    All triggers of a triggerer share one poll per Kafka cluster and Consul, which asks about the topics of all of them
    at once. Topics that the operator stopped, or that stream, do not count.

    :param graph_id: the graph, which is also the lane of its runs in the ledger.
    :param topics: the topics that its runs drain.
    :param records: fire when so many offsets wait in all of them together.
    :param oldest_s: fire when the oldest record in any of them has waited so long.
    :param consul_conn_id: the connection that says where Consul is; None: the settings say it.
    """

    _watched: ClassVar[Counter[tuple[str, str]]] = Counter()
    """The topics of all triggers of this process that are at work, for the shared poll."""

    def __init__(
        self, *, graph_id: str, topics: list[str], records: int, oldest_s: float, consul_conn_id: str | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph_id = graph_id
        self.topics = topics
        self.records = records
        self.oldest_s = oldest_s
        self.consul_conn_id = consul_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("graph_id", "topics", "records", "oldest_s", "consul_conn_id")
        values = {name: getattr(self, name) for name in names}
        return f"{__name__}.{type(self).__name__}", values

    def shared_stream_key(self) -> Hashable | None:
        return "pipestream-lag", load_settings().kafka_bootstrap, self.consul_conn_id

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Snapshot]:
        """Ask again and again where the topics of all triggers at work stand."""
        # In a thread: to look up a connection is a question to Airflow, whose answer the triggerer's loop receives.
        settings, _ = await asyncio.to_thread(run_settings, kwargs.get("consul_conn_id"))
        with closing(open_lease_store(settings)) as leases:
            view = StandingView(settings, leases)
            while True:
                watched = sorted(cls._watched)
                try:
                    # In a thread: the triggerer's loop also serves all other triggers.
                    found = await asyncio.to_thread(view.find_topics, watched)
                except PipestreamError as error:
                    log.warning("what waits is not known now: %s; next try in %g s", error, settings.arrival_poll_s)
                else:
                    yield {(each.graph_id, each.topic): each for each in found}
                await asyncio.sleep(settings.arrival_poll_s)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Snapshot]) -> AsyncIterator[TriggerEvent]:
        own = [(self.graph_id, topic) for topic in self.topics]
        bell = Bell(self.records, self.oldest_s, load_settings().arrival_repeat_s)
        type(self)._watched.update(own)
        try:
            async for snapshot in shared_stream:
                standings = [snapshot[place] for place in own if place in snapshot]
                if reason := bell.look(standings, time.monotonic()):
                    self.log.info("%s: %s", self.graph_id, reason)
                    yield TriggerEvent({"graph": self.graph_id, "reason": reason})  # type: ignore[no-untyped-call]
        finally:
            type(self)._watched.subtract(own)
            type(self)._watched += Counter()  # drops those that nobody watches any more

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Do the same with a poll of its own, where no shared one is offered."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event


# Between two drains of a run nobody holds a lease, for the seconds that Airflow needs to start the next task. With
# the default ``arrival_repeat_s`` of 300 s this is 30 s.
_QUIET_SHARE = 0.1


@dataclass(slots=True)
class Bell:
    """Decides when to ring, from what waits: once for what arrived, and again if nobody works on what still waits."""

    records: int
    oldest_s: float
    repeat_s: float
    _has_rung: bool = False
    """Whether enough has waited ever since it rang."""
    _drained_to: int = 0
    """How far the topics were drained at the last look."""
    _moved_at: float = 0.0
    """When it rang, or when the topics were last seen to be drained further."""
    _has_moved: bool = False
    """Whether they were drained further since it rang."""

    def look(self, standings: Iterable[TopicStanding], now: float) -> str:
        """Return why a run should start now; empty if none should.

        What a run has drained from one topic waits in the next, for the same run. So progress is a sign of a run at
        work, as a lease is, and it rings again only when there was neither for a while: a tenth of ``repeat_s`` after
        progress, because the run has left the rest; ``repeat_s`` without, because the event may be lost.
        """
        counted = [each for each in standings if each.is_started and not each.is_streaming]
        reason = self._reason(counted)
        if not reason:
            self._has_rung = False
            return ""
        drained_to = sum(each.drained_to for each in counted)
        if self._has_rung:
            if drained_to != self._drained_to:
                self._drained_to, self._moved_at, self._has_moved = drained_to, now, True
            quiet_s = self.repeat_s * (_QUIET_SHARE if self._has_moved else 1)
            if any(each.held_slots for each in counted) or now - self._moved_at < quiet_s:
                return ""
        self._has_rung, self._drained_to, self._moved_at, self._has_moved = True, drained_to, now, False
        return reason

    def _reason(self, counted: Sequence[TopicStanding]) -> str:
        lag, oldest_s = sum(each.lag for each in counted), max((each.oldest_age_s for each in counted), default=0.0)
        if lag >= self.records:
            return f"{lag} records wait, {self.records} start a run"
        if lag and oldest_s >= self.oldest_s:
            return f"the oldest of {lag} records has waited {oldest_s:.0f} s, {self.oldest_s:g} s start a run"
        return ""
