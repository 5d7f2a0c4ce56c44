"""Cut a slot's ranges into tasks. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from pipestream.drain.range_task import RangeTask, ordered_transactional_id, transactional_id
from pipestream.drain.slot import HeldSlot
from pipestream.engine.built_graph import built
from pipestream.kafka.ranges import OffsetRange
from pipestream.topic_names import datasource_of


def range_tasks(slot: HeldSlot, ranges: Sequence[OffsetRange]) -> list[RangeTask]:
    """Return one task a range; one task for all of them where the node wants its records in order of time."""
    topic = slot.request.topic
    graph = b64encode(built(slot.graph).content).decode()
    ids = {partition: transactional_id(slot.group, topic, partition) for partition in slot.identity.partitions}
    if slot.is_ordered:
        # Of all partitions, not only those that have something to do now: an earlier task may be at work on them.
        return [_task(slot, ranges, (ordered_transactional_id(slot.group, topic), *ids.values()), graph)]
    return [_task(slot, [each], (ids[each.partition],), graph) for each in ranges]


def _task(slot: HeldSlot, ranges: Sequence[OffsetRange], transactional_ids: tuple[str, ...], graph: str) -> RangeTask:
    request = slot.request
    return RangeTask(
        topic=request.topic,
        topic_id=slot.identity.topic_id,
        offsets=tuple((each.partition, each.start, each.end) for each in ranges),
        lane=slot.lane.name,
        group=slot.group,
        run_id=request.run_id,
        node_id=slot.node_id,
        datasource_id=datasource_of(request.topic),
        accept_failures=request.accept_failures,
        doc_ids=slot.lane.doc_ids,
        is_live=slot.lane.is_live,
        transactional_ids=transactional_ids,
        slot=slot.lease.slot,
        graph=graph,
    )
