"""What an engine says about itself: health, the topics that streams drain, where datasources enter."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pipestream.engine_server.desk import Counts
from pipestream.engine_server.graphs import LiveGraphs
from pipestream.engine_server.served import ServedGraph
from pipestream.errors import PipestreamError
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.graph.format import HYDRATION
from pipestream.graph.model import NO_HYDRATION, Datasource
from pipestream.graph.wire_fields import fill_message
from pipestream.leases.store import Assignment, LeaseStore, TopicMode
from pipestream.modules.connection import held_back_modules
from pipestream.telemetry.dependencies import DependencyWatch
from pipestream.telemetry.health import Health, Pulse
from pipestream.views.leases import desired_states

if TYPE_CHECKING:
    from pipestream.engine_server.slots import Slots

log = logging.getLogger(__name__)


class Overview:
    """Answers questions about one engine process. Make it in the loop."""

    def __init__(
        self,
        graphs: LiveGraphs,
        slots: Slots,
        leases: LeaseStore,
        counts: Counts,
        instance: str,
        count_active: Callable[[], int],
        dependencies: DependencyWatch,
        stall_s: float,
    ) -> None:
        """:param dependencies: what no call can do without.
        :param stall_s: an event loop that has not come around for so long hangs.
        """
        self._graphs = graphs
        self._slots = slots
        self._counts = counts
        self._leases = leases
        self.instance = instance
        self._count_active = count_active
        self._started = time.monotonic()
        self._usage = _Usage()
        self._dependencies = dependencies
        self.pulse = Pulse(stall_s)
        """Of the event loop."""
        self.stopping = asyncio.Event()
        """Set when the engine takes no more calls."""

    @property
    def active(self) -> int:
        """How many calls are in progress."""
        return self._count_active()

    def blockers(self) -> list[str]:
        """Return why this engine takes no calls; empty if it does."""
        found = []
        if self.stopping.is_set():
            found.append("it is stopping")
        if self.pulse.is_stalled:
            found.append(f"its event loop has not come around for {self.pulse.age_s:.0f} s")
        if not self._slots.takes_calls:
            found.append("no slot of the accepted log is here, and no other process is known to have one")
        return found + self._dependencies.problems()

    def drawbacks(self) -> list[str]:
        """Return what is wrong although this engine takes calls. What it knows of graphs and leases stays in use."""
        found = []
        if self._slots.takes_calls and not self._slots.held:
            found.append("it holds no slot of the accepted log, so calls are handed on to others")
        if self._graphs.last_error:
            found.append(f"the active graphs cannot be read: {self._graphs.last_error}")
        if self._slots.last_error:
            found.append(f"the slots' leases are not looked after: {self._slots.last_error}")
        for served in self._graphs.directory.graphs.values():
            ways = served.own.ways.values()
            found += sorted({f"graph {served.graph.graph_id}: {each}" for way in ways for each in way.problems})
        return found + [f"{module} is down: {reason}" for module, reason in sorted(held_back_modules().items())]

    def probe(self) -> Health:
        """Return the health for probes, without asking any server."""
        blockers = self.blockers()
        graphs = {graph_id: served.version for graph_id, served in self._graphs.directory.graphs.items()}
        return Health(
            not blockers,
            {
                "instance": self.instance,
                "uptime_seconds": self._uptime_s,
                "active_calls": self.active,
                "slots": sorted(self._slots.held),
                "graphs": graphs,
                "problems": blockers + self.drawbacks(),
            },
            is_alive=self.stopping.is_set() or not self.pulse.is_stalled,
        )

    def beat(self) -> Health:
        """Return the same in the event loop, which shows by that that it comes around."""
        self.pulse.beat()
        return self.probe()

    async def health(self) -> pb.GetHealthResponse:
        """Return the health for callers. Their message has no field for what is wrong: ``probe`` says it."""
        is_degraded = bool(self.drawbacks())
        topics: list[str] = []
        slots: list[Assignment] = []
        try:
            topics, slots = await asyncio.to_thread(self._drained)
        except PipestreamError as error:
            log.warning("the lease store does not say which topics are streamed: %s", error)
            is_degraded = True
        health = pb.ENGINE_HEALTH_DEGRADED if is_degraded else pb.ENGINE_HEALTH_HEALTHY
        counts = self._counts
        return pb.GetHealthResponse(
            health=pb.ENGINE_HEALTH_UNHEALTHY if self.blockers() else health,
            active_streams=self.active,
            cache_hit_rate=100 * (counts.calls - counts.opened) // max(1, counts.calls),
            connected_clusters=self._clusters(),
            uptime_seconds=self._uptime_s,
            kafka_status=pb.KafkaSubscriptionStatus(
                active_listeners=sum(bool(slot.holder) for slot in slots),
                subscribed_topics=topics,
                total_messages_processed=counts.calls,
                average_processing_time_ms=1000 * counts.seconds / max(1, counts.calls),
            ),
        )

    async def subscriptions(self, instance: str) -> pb.GetTopicSubscriptionsResponse:
        """Return which topics are drained by streams, and by whom: one entry for each holder of leases."""
        topics, slots = await asyncio.to_thread(self._drained)
        by_holder = {self.instance: topics} if instance in ("", self.instance) else {}
        listeners: Counter[str] = Counter()
        for slot in slots:
            if slot.holder and instance in ("", slot.holder):
                listeners[slot.holder] += 1
                by_holder.setdefault(slot.holder, [])
                if slot.topic not in by_holder[slot.holder]:
                    by_holder[slot.holder].append(slot.topic)
        return pb.GetTopicSubscriptionsResponse(
            subscriptions=[self._subscription(name, held, listeners[name]) for name, held in by_holder.items()]
        )

    async def update_subscriptions(
        self, request: pb.UpdateTopicSubscriptionsRequest
    ) -> pb.UpdateTopicSubscriptionsResponse:
        """Start and stop topics. All or nothing where a topic is not known."""
        wanted = dict.fromkeys(request.topics_to_subscribe, True)
        both = [topic for topic in request.topics_to_unsubscribe if topic in wanted]
        wanted |= dict.fromkeys(request.topics_to_unsubscribe, False)
        message = await asyncio.to_thread(self._update, wanted, both)
        topics, slots = await asyncio.to_thread(self._drained)
        return pb.UpdateTopicSubscriptionsResponse(
            success=not message,
            message=message,
            active_subscriptions=topics,
            total_listeners=sum(bool(slot.holder) for slot in slots),
        )

    def datasource_instance(self, datasource_id: str) -> pb.GetDatasourceInstanceResponse:
        """Return where a datasource enters: the first graph by id, and the names of the others."""
        entries = self._graphs.directory.entries(datasource_id)
        if not entries:
            message = f"no applied graph has the datasource {datasource_id[:100]!r}"
            return pb.GetDatasourceInstanceResponse(found=False, message=message)
        others = ", ".join(served.graph.graph_id for served in entries[1:])
        return pb.GetDatasourceInstanceResponse(
            found=True,
            instance=_instance(entries[0], entries[0].graph.datasource_by_id[datasource_id]),
            message=f"it also enters {others}" if others else "",
        )

    @property
    def _uptime_s(self) -> int:
        return int(time.monotonic() - self._started)

    def _clusters(self) -> list[str]:
        graphs = [served.graph for served in self._graphs.directory.graphs.values()]
        own = {graph.cluster_id for graph in graphs}
        bridged = {edge.to_cluster_id for graph in graphs for edge in graph.edges if edge.is_cross_cluster}
        return sorted(own | bridged)

    def _drained(self) -> tuple[list[str], list[Assignment]]:
        """Return the topics that the operator wants streamed, and all their slots."""
        desired = desired_states(self._leases, self._leases.topics())
        topics = [topic for topic, state in desired.items() if state.started and state.mode is TopicMode.STREAMING]
        return topics, [slot for slot in self._leases.assignments() if slot.topic in topics]

    def _update(self, wanted: dict[str, bool], both: list[str]) -> str:
        known = set(self._leases.topics())
        problems = [f"{topic[:200]!r} is not a registered topic" for topic in wanted if topic not in known]
        problems += [f"{topic[:200]!r} is to be subscribed and unsubscribed" for topic in both]
        if problems:
            return "nothing was changed: " + "; ".join(problems)
        for topic, is_started in wanted.items():
            desired = self._leases.desired(topic)
            mode = TopicMode.STREAMING if is_started else desired.mode
            self._leases.set_desired(topic, replace(desired, started=is_started, mode=mode))
        return ""

    def _subscription(self, name: str, topics: list[str], listeners: int) -> pb.EngineTopicSubscription:
        subscription = pb.EngineTopicSubscription(
            engine_instance_id=name, subscribed_topics=topics, active_listeners=listeners
        )
        if name == self.instance:
            subscription.messages_processed = self._counts.calls
            subscription.cpu_usage_percent, subscription.memory_usage_percent = self._usage.read()
        return subscription


class _Usage:
    """What this process uses of the machine."""

    def __init__(self) -> None:
        import psutil

        # One object for all questions: it measures from one to the next, and answers 0 to its first.
        self._process = psutil.Process()
        self._process.cpu_percent()

    def read(self) -> tuple[float, float]:
        """Return this process's share of the CPU since the last question, and of the memory, in percent."""
        return self._process.cpu_percent(), self._process.memory_percent()


def _instance(served: ServedGraph, source: Datasource) -> pb.DatasourceInstance:
    instance = pb.DatasourceInstance(
        datasource_instance_id=f"{served.graph.graph_id}/{source.datasource_id}",
        datasource_id=source.datasource_id,
        entry_node_id=source.entry_node_id,
        graph_id=served.graph.graph_id,
        graph_version=served.version,
    )
    config = instance.node_config
    config.persistence_config.persist_pipedoc = source.persistence.persist_pipedoc
    config.persistence_config.max_inline_size_bytes = source.persistence.max_inline_size_bytes
    if source.hydration != NO_HYDRATION:
        fill_message(HYDRATION, source.hydration, config.hydration_config)
    config.custom_config.update({"path": source.path, "paused": source.paused})
    return instance
