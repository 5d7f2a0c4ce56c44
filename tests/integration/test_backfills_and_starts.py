from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import psycopg
import pytest
from confluent_kafka import Producer

from pipestream.drain.backfill import Backfill, BackfillInvalid, estimate_backfill, hash_of_then
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.drain.task import drain_ranges
from pipestream.errors import OffsetsExpired, TopicReplaced
from pipestream.graph.load import load_graph
from pipestream.graph.proto import graph_hash
from pipestream.leases import open_lease_store
from pipestream.leases.names import lease_name
from pipestream.leases.none import NoLeaseStore
from pipestream.topics.admin import TopicAdmin
from pipestream_testing.retention import delete_before

pytestmark = pytest.mark.stack


@pytest.fixture
def pipeline(pipeline):
    pipeline.settings = pipeline.settings.model_copy(update={"chunk_records": 5})
    return pipeline


@pytest.fixture
def run(pipeline, unique):
    def drain(run_id, *, backfill=None, runner=None, topic=f"intake.{unique}", **rest):
        request = DrainRequest(pipeline.graph, topic, run_id, 1_000, backfill=backfill, **rest)
        return run_drain(request, pipeline.settings, runner or LocalRunner(pipeline.settings), leases=NoLeaseStore())

    return drain


def test_a_backfill_drains_its_range_again_and_leaves_the_live_head_alone(pipeline, unique, run, second):
    pipeline.send(f"intake.{unique}", [f"a{n}" for n in range(20)])
    run("live-1")
    live = pipeline.ledger.heads(unique, f"intake.{unique}", [0, 1])

    report = run("run-2", backfill=Backfill("again", offsets={0: (5, 12)}))

    assert (report.status, report.records) == ("drained", 7)
    assert pipeline.doc_ids(second) == {f"a{n}": 2 if 5 <= n < 12 else 1 for n in range(20)}
    assert pipeline.ledger.heads(unique, f"intake.{unique}", [0, 1]) == live


def test_a_backfilled_document_does_not_overwrite_the_live_one(pipeline, unique, run, second):
    pipeline.send(f"intake.{unique}", ["a0"])
    run("live-1")
    run("run-2", backfill=Backfill("again", offsets={0: (0, 1)}))

    assert len({letter.stream.stream_id for letter in pipeline.read(second)}) == 2


def test_repeating_a_finished_backfill_does_nothing_and_says_so(pipeline, unique, run, second):
    pipeline.send(f"intake.{unique}", [f"a{n}" for n in range(6)])
    backfill = Backfill("once", offsets={0: (0, 6)})
    run("run-1", backfill=backfill)

    report = run("run-2", backfill=backfill)

    assert report.status == "empty"
    assert report.reason == (
        f"backfill once of intake.{unique} is finished: it covered intake.{unique}[0] 0..6, see lane {unique}@once of "
        f"the ledger; another backfill needs another id"
    )
    assert sorted(pipeline.doc_ids(second).values()) == [1] * 6


@pytest.mark.parametrize(
    "chunks", [pytest.param(1, id="in the middle"), pytest.param(3, id="with all done but not entered")]
)
def test_an_interrupted_backfill_continues_where_it_stopped_under_another_run(pipeline, unique, run, second, chunks):
    topic = f"intake.{unique}"
    documents = [f"a{n}" for n in range(12)]
    pipeline.send(topic, documents)
    run("live-1")
    live = pipeline.ledger.heads(unique, topic, [0, 1]), pipeline.group_offsets(topic)
    backfill = Backfill("cut", offsets={0: (0, 12)})

    def die_after_some_chunks(tasks):
        transactions = count()

        def check_lease():
            if next(transactions) == chunks:
                raise KeyboardInterrupt

        for task in tasks:
            drain_ranges(task, pipeline.settings, check_lease)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("run-1", backfill=backfill, runner=die_after_some_chunks)
    done = documents[: chunks * pipeline.settings.chunk_records]
    assert pipeline.doc_ids(second) == Counter(documents + done)
    report = run("run-2", backfill=backfill)

    assert (report.status, report.records) == ("drained", 12)
    assert pipeline.doc_ids(second) == Counter(documents * 2)
    assert (pipeline.ledger.heads(unique, topic, [0, 1]), pipeline.group_offsets(topic)) == live
    (entry,) = pipeline.ledger.entries(lane=f"{unique}@cut", topic=topic)
    assert (entry.range.start, entry.range.end) == (0, 12)


def test_a_backfill_by_time_covers_the_records_of_that_time(pipeline, unique, run, second):
    topic = f"intake.{unique}"
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for hour in range(4):
        pipeline.send(topic, [f"h{hour}"], timestamp=noon + timedelta(hours=hour))

    window = Backfill("hours", since=noon + timedelta(hours=1), until=noon + timedelta(hours=3))
    run("run-1", backfill=window)

    assert pipeline.doc_ids(second) == {"h1": 1, "h2": 1}


def test_times_before_kafkas_count_begins_are_its_beginning(pipeline, unique, run, second):
    pipeline.send(f"intake.{unique}", ["a0", "a1"])

    run("run-1", backfill=Backfill("all", since=datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)))

    assert pipeline.doc_ids(second) == {"a0": 1, "a1": 1}


def test_times_that_share_a_millisecond_part_their_records_between_them(pipeline, unique, run, second):
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    pipeline.send(f"intake.{unique}", ["a0"], timestamp=noon)
    between = noon + timedelta(microseconds=500)

    run("run-1", backfill=Backfill("until", since=noon - timedelta(hours=1), until=between))
    run("run-2", backfill=Backfill("since", since=between, until=noon + timedelta(hours=1)))

    assert pipeline.doc_ids(second) == {"a0": 1}
    assert [e.range.end for e in pipeline.ledger.entries(lane=f"{unique}@until", topic=f"intake.{unique}")] == [1]


def test_a_backfill_waits_a_moment_for_records_that_are_being_committed(pipeline, unique, run, second):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a0"])
    (sent,) = pipeline.read(topic)
    producer = Producer({"bootstrap.servers": pipeline.settings.kafka_bootstrap, "transactional.id": unique})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, sent.record.value, b"a1", partition=0)
    producer.flush(60)
    committing = threading.Timer(0.5, producer.commit_transaction)

    committing.start()
    run("run-1", backfill=Backfill("all", since=datetime(2026, 1, 1, tzinfo=UTC)))

    committing.join()
    assert pipeline.doc_ids(second) == {"a0": 2}


def test_a_backfill_of_offsets_that_expired_says_where_it_can_begin(pipeline, unique, run):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a", "b", "c"])
    delete_before(pipeline.settings, topic, 0, 2)

    with pytest.raises(OffsetsExpired, match=r"offsets 0\.\.1 were deleted .*; a backfill can begin at 2$"):
        run("run-1", backfill=Backfill("gone", offsets={0: (0, 3)}))


def test_a_backfill_of_named_documents_passes_over_the_others(pipeline, unique, run, second):
    pipeline.send(f"intake.{unique}", [f"a{n}" for n in range(10)])

    run("run-1", backfill=Backfill("some", offsets={0: (0, 10)}, doc_ids=("a3", "a7")))

    assert pipeline.doc_ids(second) == {"a3": 1, "a7": 1}


def test_an_estimate_counts_and_prices_a_backfill_without_doing_it(pipeline, unique, run, second):
    topic = f"intake.{unique}"
    pipeline.send(topic, [f"a{n}" for n in range(10)])
    before = estimate_backfill(Backfill("later", offsets={0: (2, 8)}), pipeline.settings, unique, topic)
    run("live-1")

    after = estimate_backfill(Backfill("later", offsets={0: (2, 8)}), pipeline.settings, unique, topic)

    assert (before.offsets, before.seconds) == (6, None)
    assert after.offsets == 6
    assert after.seconds > 0
    assert sorted(pipeline.doc_ids(second).values()) == [1] * 10


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [({7: (0, 1)}, "no partition 7"), ({0: (0, 99)}, "ends at 3, before 99")],
)
def test_a_backfill_of_offsets_that_are_not_there_is_refused(pipeline, unique, run, offsets, reason):
    pipeline.send(f"intake.{unique}", ["a", "b", "c"])

    with pytest.raises(BackfillInvalid, match=reason):
        run("run-1", backfill=Backfill("wrong", offsets=offsets))


def test_the_graph_of_then_is_the_one_the_live_run_used(pipeline, unique, run):
    topic = f"intake.{unique}"
    pipeline.send(topic, [f"a{n}" for n in range(4)])
    with pytest.raises(BackfillInvalid, match="no live run"):
        hash_of_then(Backfill("x", offsets={0: (0, 4)}), pipeline.settings, unique, topic)
    run("live-1")
    first = graph_hash(pipeline.graph)
    pipeline.graph_file.write_text(
        pipeline.graph_file.read_text().replace("account: acme", "account: acme\n    name: files")
    )
    pipeline.graph = load_graph(pipeline.graph_file)
    pipeline.send(topic, ["b"])
    run("live-2")

    assert hash_of_then(Backfill("x", offsets={0: (1, 3)}), pipeline.settings, unique, topic) == first
    with pytest.raises(BackfillInvalid, match="several versions"):
        hash_of_then(Backfill("x", offsets={0: (1, 5)}), pipeline.settings, unique, topic)


def test_a_backfill_larger_than_the_budget_is_drained_whole_in_pieces(pipeline, unique, second):
    pipeline.send(f"intake.{unique}", [f"a{n}" for n in range(20)])
    backfill = Backfill("pieces", offsets={0: (0, 20)})
    request = DrainRequest(pipeline.graph, f"intake.{unique}", "run-1", 8, backfill=backfill)

    report = run_drain(request, pipeline.settings, LocalRunner(pipeline.settings), leases=NoLeaseStore())

    assert (report.records, report.ranges) == (20, 3)
    assert sorted(pipeline.doc_ids(second).values()) == [1] * 20
    entries = pipeline.ledger.entries(lane=f"{unique}@pieces", topic=f"intake.{unique}")
    assert [(entry.range.start, entry.range.end) for entry in entries] == [(0, 8), (8, 16), (16, 20)]


def test_a_backfill_runs_next_to_a_live_run_and_one_of_its_name_of_another_graph(pipeline, unique, second):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a0", "a1"])
    with closing(open_lease_store(pipeline.settings)) as leases:
        of_live = lease_name(topic, unique)
        live = leases.acquire(of_live, 0, "live@elsewhere:1", 600)
        others = lease_name(topic, "another-graph@beside")
        leases.acquire(others, 0, "other@elsewhere:1", 600)
        request = DrainRequest(pipeline.graph, topic, "run-1", 100, backfill=Backfill("beside", offsets={0: (0, 2)}))
        held = []

        def look(tasks):
            held.extend((each.name, each.holder) for each in leases.assignments() if each.holder)
            return LocalRunner(pipeline.settings)(tasks)

        report = run_drain(request, pipeline.settings, look, leases=leases)
        leases.release(live)
    with psycopg.connect(pipeline.settings.postgres_dsn.get_secret_value()) as connection:
        known = {name for (name,) in connection.execute("SELECT pipeline_id FROM pipeline_state")}

    assert (report.status, report.records) == ("drained", 2)
    ours = lease_name(topic, f"{unique}@beside")
    assert {name for name, _ in held} == {of_live, others, ours}
    assert {of_live, others} <= known
    assert ours not in known, "a backfill that is done is forgotten"


def test_a_backfill_of_a_topic_that_was_made_again_needs_another_id(pipeline, unique, run, second):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a0", "a1"])
    backfill = Backfill("old", offsets={0: (0, 2)})
    run("run-1", backfill=backfill)
    TopicAdmin(pipeline.settings).delete([topic])
    pipeline.create_topics()
    pipeline.send(topic, ["b0", "b1"])

    with pytest.raises(TopicReplaced, match="backfill old was of the old one; take another backfill id"):
        run("run-2", backfill=backfill)
    report = run("run-3", backfill=replace(backfill, backfill_id="new"))

    assert report.records == 2
    assert pipeline.doc_ids(second) == {"a0": 1, "a1": 1, "b0": 1, "b1": 1}


@pytest.mark.parametrize(
    "other", [Backfill("used", offsets={0: (0, 6)}), Backfill("used", offsets={0: (0, 4)}, doc_ids=("a1",))]
)
def test_another_backfill_under_a_used_id_is_refused(pipeline, unique, run, second, other):
    pipeline.send(f"intake.{unique}", [f"a{n}" for n in range(6)])
    run("run-1", backfill=Backfill("used", offsets={0: (0, 4)}))

    with pytest.raises(BackfillInvalid, match=r"planned at .* for all documents of .*0\.\.4; take another id"):
        run("run-2", backfill=other)

    assert pipeline.doc_ids(second).total() == 4
