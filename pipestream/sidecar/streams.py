"""Open the streams of a sidecar, in chunks of the size that an operator has set for a cluster."""

from __future__ import annotations

import threading

from pipestream.deployment.active import ActiveGraphs
from pipestream.leases.store import LeaseStore
from pipestream.settings import Settings
from pipestream.stream.executors import Executor, WarmExecutor
from pipestream.stream.open_streams import OpenStreams
from pipestream.stream.recorder import Recorder
from pipestream.stream.wanted import StreamSpec


class SidecarStreams(OpenStreams):
    """The streams of a sidecar: warm in this process, or handed to an engine."""

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
        super().__init__(settings, leases, graphs, recorder, run_id=run_id)
        self._engine = engine
        self._guard = threading.Lock()
        self._chunk_records: dict[str, int] = {}

    def _settings_of(self, spec: StreamSpec) -> Settings:
        return self._settings.model_copy(update={"chunk_records": self.chunk_records(spec.graph.cluster_id)})

    def _open_executor(self, _spec: StreamSpec, settings: Settings) -> Executor:
        return WarmExecutor(settings, engine=self._engine)

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
