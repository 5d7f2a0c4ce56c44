"""Change how many replicas drain a topic while its documents flow: each arrives once, and in its order."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from pipestream.leases import TopicMode, open_lease_store
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, wait_drained
from pipestream_testing.streams import QUICK, set_mode
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

PARTITIONS = 4
REPLICAS = (3, 1)
WIDER = ("partitions: 2\n    # Records", f"partitions: {PARTITIONS}\n    # Records")
ORDERED = ("- id: first\n", "- id: first\n    ordering: timestamp\n")


@pytest.fixture
def start_sidecar():
    started = []

    def start(pipeline, label):
        started.append(SidecarProcess(pipeline, label))
        started[-1].wait_ready()

    yield start
    for process in started:
        process.kill()


@contextmanager
def under_load(pipeline, topic, sent):
    """Send documents ``PARTITION-NUMBER`` to all partitions all the time, and keep their ids in ``sent``."""
    is_over = threading.Event()

    def send():
        numbers = count()
        while not is_over.wait(0.05):
            for partition in range(PARTITIONS):
                documents = [f"{partition}-{number}" for number in (next(numbers), next(numbers))]
                pipeline.send(topic, documents, partition=partition)
                sent.extend(documents)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def let_flow(pipeline, topic):
    """Wait until every partition has moved on by some chunks, also those that nothing was committed of yet."""
    before = pipeline.group_offsets(topic)

    def have_moved():
        now = pipeline.group_offsets(topic)
        return all(now.get(each, 0) > before.get(each, 0) + 10 for each in range(PARTITIONS))

    wait_until(have_moved, "not all partitions move on", timeout_s=240)


def check_order(records):
    """Check that the documents of each source, in each partition of the target, are in the order they were sent in."""
    last: dict[tuple[int, str], int] = {}
    for each in records:
        source, _, number = each.doc_id.partition("-")
        place = (each.record.partition, source)
        assert int(number) > last.get(place, -1), f"{each.doc_id} is behind {source}-{last[place]} at {place}"
        last[place] = int(number)


def test_replicas_changed_while_documents_flow_lose_and_repeat_nothing_and_keep_the_order(
    make_pipeline, topic, unique, check, start_sidecar
):
    pipeline = make_pipeline(WIDER, reconcile_s=0.3, chunk_records=5, **QUICK)
    apply_streaming(pipeline, topic)
    sent = []
    start_sidecar(pipeline, "one")
    start_sidecar(pipeline, "two")
    with under_load(pipeline, topic, sent):
        let_flow(pipeline, topic)
        for replicas in REPLICAS:
            set_mode(pipeline.settings, topic, TopicMode.STREAMING, replicas=replicas)
            let_flow(pipeline, topic)
    wait_drained(pipeline, [topic], timeout_s=240)

    check("replicas changed from 1 to 3 and back under load", pipeline, sent)
    check_order(pipeline.read(f"pipestream.{unique}.second"))
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(sent)


def test_an_ordered_node_keeps_one_replica_in_a_stream_and_the_order_of_time(
    make_pipeline, topic, unique, check, start_sidecar
):
    pipeline = make_pipeline(WIDER, ORDERED, reconcile_s=0.3, chunk_records=5, **QUICK)
    apply_streaming(pipeline, topic, replicas=3)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    sent = [f"waiting-{number}" for number in range(24)]
    for number, doc_id in enumerate(sent):
        pipeline.send(topic, [doc_id], number % PARTITIONS, begin + timedelta(minutes=number))
    start_sidecar(pipeline, "one")
    with under_load(pipeline, topic, sent), closing(open_lease_store(pipeline.settings)) as leases:
        for replicas in REPLICAS:
            let_flow(pipeline, topic)
            held = [found.slot for found in leases.assignments(topic) if found.holder]
            assert held == [0], "one reader of all partitions keeps the order"
            set_mode(pipeline.settings, topic, TopicMode.STREAMING, replicas=replicas)
    wait_drained(pipeline, [topic], timeout_s=240)

    check("replicas of an ordered node changed under load", pipeline, sent)
    check_order(pipeline.read(f"pipestream.{unique}.second"))
