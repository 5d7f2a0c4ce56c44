"""``SidecarManagementService``: what a sidecar holds, and pausing, resuming and tuning it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from pipestream.drain.live_lane import LiveLane
from pipestream.gen.ai.pipestream.engine.sidecar.v1 import management_service_pb2 as wire
from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2_grpc import SidecarManagementServiceServicer
from pipestream.stream.slot_thread import SlotStatus
from pipestream.stream.wanted import StreamSpec
from pipestream.stream.worker import StreamWorker
from pipestream.topic_names import is_intake

SERVICE = "ai.pipestream.engine.sidecar.v1.SidecarManagementService"
MAX_CHUNK_RECORDS = 100_000


class ChunkSizes(Protocol):
    """How many records a transaction has at most, per cluster."""

    def chunk_records(self, cluster_id: str) -> int: ...

    def set_chunk_records(self, cluster_id: str, records: int) -> None: ...


class ManagementService(SidecarManagementServiceServicer):
    """Answers from what the worker knows; nothing here asks a server."""

    def __init__(self, worker: StreamWorker, sizes: ChunkSizes) -> None:
        self._worker = worker
        self._sizes = sizes

    async def GetLeases(  # noqa: N802 - the wire's name
        self, _request: wire.GetLeasesRequest, _context: Any
    ) -> wire.GetLeasesResponse:
        statuses = sorted(self._worker.statuses(), key=lambda status: status.key)
        return wire.GetLeasesResponse(leases=map(lease_info, statuses))

    async def PauseConsumption(  # noqa: N802 - the wire's name
        self, request: wire.PauseConsumptionRequest, _context: Any
    ) -> wire.PauseConsumptionResponse:
        known = self._worker.pause(request.topic, True)
        message = f"{request.topic} is paused here; its leases stay" if known else self._unknown(request.topic)
        return wire.PauseConsumptionResponse(success=known, message=message)

    async def ResumeConsumption(  # noqa: N802 - the wire's name
        self, request: wire.ResumeConsumptionRequest, _context: Any
    ) -> wire.ResumeConsumptionResponse:
        known = self._worker.pause(request.topic, False)
        message = f"{request.topic} is drained again" if known else self._unknown(request.topic)
        return wire.ResumeConsumptionResponse(success=known, message=message)

    async def GetConsumerConfig(  # noqa: N802 - the wire's name
        self, request: wire.GetConsumerConfigRequest, _context: Any
    ) -> wire.GetConsumerConfigResponse:
        return wire.GetConsumerConfigResponse(configs=self._configs(request.cluster_id))

    async def SetConsumerConfig(  # noqa: N802 - the wire's name
        self, request: wire.SetConsumerConfigRequest, _context: Any
    ) -> wire.SetConsumerConfigResponse:
        cluster_id, records = request.cluster_id, request.max_poll_records
        if not 0 <= records <= MAX_CHUNK_RECORDS:
            message = f"max_poll_records must be between 0 (the default) and {MAX_CHUNK_RECORDS}, not {records}"
            return wire.SetConsumerConfigResponse(success=False, message=message)
        # Asked for once: the last slot of the cluster may end meanwhile.
        configs = self._configs(cluster_id) if cluster_id else []
        if not configs:
            known = ", ".join(sorted({config.cluster_id for config in self._configs("")})) or "none"
            message = f"this sidecar drains no topic of cluster {cluster_id[:100]!r}; it drains those of: {known}"
            return wire.SetConsumerConfigResponse(success=False, message=message)
        self._sizes.set_chunk_records(cluster_id, records)
        self._worker.restart(lambda spec: spec.graph.cluster_id == cluster_id)
        applied = configs[0]
        applied.max_poll_records = self._sizes.chunk_records(cluster_id)
        return wire.SetConsumerConfigResponse(
            success=True, message="used from the end of the current chunks on", applied_config=applied
        )

    def _configs(self, cluster_id: str) -> list[wire.GraphConsumerConfig]:
        """Return one entry per graph that this sidecar drains a topic of."""
        by_group: dict[str, list[SlotStatus]] = {}
        for status in self._worker.statuses():
            if cluster_id in ("", status.spec.graph.cluster_id):
                by_group.setdefault(_group(status.spec), []).append(status)
        return [self._config(group, found) for group, found in sorted(by_group.items())]

    def _config(self, group: str, statuses: Iterable[SlotStatus]) -> wire.GraphConsumerConfig:
        found = list(statuses)
        cluster_id = found[0].spec.graph.cluster_id
        return wire.GraphConsumerConfig(
            cluster_id=cluster_id,
            consumer_group=group,
            max_poll_records=self._sizes.chunk_records(cluster_id),
            topics=sorted({status.spec.topic for status in found}),
            in_flight_count=sum(status.in_flight for status in found),
        )

    def _unknown(self, topic: str) -> str:
        held = ", ".join(sorted({status.spec.topic for status in self._worker.statuses()})) or "nothing"
        return f"this sidecar does not drain {topic[:250]!r}; it drains {held}"


def lease_info(status: SlotStatus) -> wire.LeaseInfo:
    """Return a slot as the service tells it."""
    return wire.LeaseInfo(
        topic=status.spec.topic,
        type="INTAKE" if is_intake(status.spec.topic) else "NODE",
        current_offset=sum(status.positions.values()),
        status=status.state.value,
        retry_count=status.failures,
        cluster_id=status.spec.graph.cluster_id,
        consumer_group=_group(status.spec),
    )


def _group(spec: StreamSpec) -> str:
    return LiveLane.of(spec.graph).group
