"""Say which slots a process is to drain, and open their streams, with what they share: graphs, broker, recorder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import partial

from pipestream.deployment.active import ActiveGraphs
from pipestream.kafka.broker import Broker
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.names import leased_lane
from pipestream.leases.store import DesiredState, LeaseStore, TopicMode
from pipestream.settings import Settings
from pipestream.stream.executors import Executor
from pipestream.stream.recorder import Recorder
from pipestream.stream.shares import SlotKey
from pipestream.stream.topic_stream import TopicStream
from pipestream.stream.wanted import StreamSpec, find_wanted


class OpenStreams(ABC):
    """The streams of a process. Who inherits from it says where their ranges are drained."""

    def __init__(
        self,
        settings: Settings,
        leases: LeaseStore,
        graphs: ActiveGraphs,
        recorder: Recorder,
        *,
        run_id: str,
        graph_ids: Collection[str] = (),
    ) -> None:
        """
        :param graph_ids: only the topics of these graphs; of all applied graphs, if it is empty.
        """
        self._settings = settings
        self._leases = leases
        self._graphs = graphs
        self._recorder = recorder
        self._run_id = run_id
        self._graph_ids = graph_ids
        self._broker = Broker(settings)

    def find_wanted(self) -> Mapping[SlotKey, StreamSpec]:
        """Return the slots that are to be drained now."""
        active = self._graphs.read()
        if self._graph_ids:
            active = {graph_id: found for graph_id, found in active.items() if graph_id in self._graph_ids}
        has_leases = self._settings.leases != "none"
        wanted = find_wanted(active, self._leases.desired, self._broker.existing(), has_leases=has_leases)
        if not has_leases:
            # This store forgets everything with the process; streams ask it whether a topic is to be streamed.
            for spec in wanted.values():
                self._leases.set_desired(spec.topic, DesiredState(mode=TopicMode.STREAMING))
        return wanted

    def open(self, spec: StreamSpec, keeper: LeaseKeeper) -> TopicStream:
        """Open the stream of a slot."""
        settings = self._settings_of(spec)
        return TopicStream(
            spec.topic,
            partial(self._graphs.find, leased_lane(keeper.lease.name)),
            keeper,
            self._leases,
            settings,
            self._open_executor(spec, settings),
            self._recorder,
            run_id=self._run_id,
            broker=self._broker,
        )

    def _settings_of(self, _spec: StreamSpec) -> Settings:
        """Return the settings of a stream."""
        return self._settings

    @abstractmethod
    def _open_executor(self, spec: StreamSpec, settings: Settings) -> Executor:
        """Return what drains the ranges of a stream."""
