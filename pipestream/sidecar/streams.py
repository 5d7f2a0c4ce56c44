"""Open the streams of a sidecar, with what they share: graphs, broker, recorder, chunk sizes."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pipestream.deployment.active import ActiveGraphs
from pipestream.kafka.broker import Broker
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.names import leased_lane
from pipestream.leases.store import DesiredState, LeaseStore, TopicMode
from pipestream.settings import Settings
from pipestream.stream.executors import WarmExecutor
from pipestream.stream.recorder import Recorder
from pipestream.stream.shares import SlotKey
from pipestream.stream.topic_stream import TopicStream
from pipestream.stream.wanted import StreamSpec, find_wanted


class SidecarStreams:
    """Says which slots a sidecar is to drain, and opens their streams."""

    def __init__(
        self,
        settings: Settings,
        leases: LeaseStore,
        graphs: ActiveGraphs,
        recorder: Recorder,
        *,
        run_id: str,
        engine: str = "",
    ) -> None:
        """
        :param engine: the address of an engine that processes the documents; empty: this process does.
        """
        self._settings = settings
        self._leases = leases
        self._graphs = graphs
        self._recorder = recorder
        self._run_id = run_id
        self._engine = engine
        self._broker = Broker(settings)
        self._guard = threading.Lock()
        self._chunk_records: dict[str, int] = {}

    def find_wanted(self) -> Mapping[SlotKey, StreamSpec]:
        """Return the slots that are to be drained now."""
        has_leases = self._settings.leases != "none"
        wanted = find_wanted(self._graphs.read(), self._leases.desired, self._broker.existing(), has_leases=has_leases)
        if not has_leases:
            # This store forgets everything with the process; streams ask it whether a topic is to be streamed.
            for spec in wanted.values():
                self._leases.set_desired(spec.topic, DesiredState(mode=TopicMode.STREAMING))
        return wanted

    def open(self, spec: StreamSpec, keeper: LeaseKeeper) -> TopicStream:
        """Open the stream of a slot."""
        graph_id = leased_lane(keeper.lease.name)
        settings = self._settings.model_copy(update={"chunk_records": self.chunk_records(spec.graph.cluster_id)})
        return TopicStream(
            spec.topic,
            lambda: self._graphs.find(graph_id),
            keeper,
            self._leases,
            settings,
            WarmExecutor(settings, engine=self._engine),
            self._recorder,
            run_id=self._run_id,
            broker=self._broker,
        )

    def chunk_records(self, cluster_id: str) -> int:
        """Return how many records a transaction of a cluster's topics has at most."""
        with self._guard:
            return self._chunk_records.get(cluster_id, self._settings.chunk_records)

    def set_chunk_records(self, cluster_id: str, records: int) -> None:
        """Change that for streams that are opened from now on; 0 sets the default again."""
        with self._guard:
            if records:
                self._chunk_records[cluster_id] = records
            else:
                self._chunk_records.pop(cluster_id, None)
