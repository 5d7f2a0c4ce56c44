"""Records that cannot be processed: each becomes a dead letter, nothing is lost with it, and none holds up its range.

A module that ends its own process takes the Spark task or the whole run with it, and so nothing is left that could
write the dead letter. The try after it finds the crash marker that the dead one left, and goes through what was in
progress chunk by chunk. If it dies too, the next one goes through that chunk one record at a time. After
``max_attempts`` deaths the record that they happened at is given up.
"""

from __future__ import annotations

import base64
import os
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from confluent_kafka import Producer

from pipestream import faults
from pipestream.documents.references import key_of
from pipestream.drain.crash_markers import ROOT
from pipestream.drain.range_task import RangeFailed
from pipestream.engine.dead_letter_record import CONNECT, OWN
from pipestream.kafka.connection import client_config
from pipestream.kafka.records import header
from pipestream.kafka.writer import TransactionalWriter
from pipestream.objects.store import open_store
from pipestream.topics.admin import TopicAdmin
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.settings_file import write_settings
from pipestream_testing.submit import submit_drain

pytestmark = pytest.mark.stack

FIRST = "  - id: first\n    module: python:pipestream_testing."
HEALTHY = FIRST + "steps:pass_on"
DEADLY = FIRST + "modules:dying\n    config: {only: deadly}"
OWN_PROCESS = DEADLY.replace("python:", "runtime:").replace("only: deadly", "only: deadly, signal: 11")
DIED = 9
MB = 1_000_000


def runtimes_of(process):
    """Return the processes of runtimes below a process."""
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # a server of the tests that has just ended
            if "pipestream.modules.runtime.serve" in child.cmdline():
                found.append(child)
    return found


def reference(doc_id):
    stream = PipeStream()
    stream.metadata.account_id = "acme"
    stream.stream_id = f"stream-{doc_id}"
    stream.document_ref.doc_id = doc_id
    stream.document_ref.account_id = "acme"
    stream.document_ref.source_node_id = "upload"
    return stream


def test_what_cannot_be_read_or_processed_becomes_a_dead_letter(make_pipeline, topic, unique, check):
    pipeline = make_pipeline((HEALTHY, FIRST + "steps:fail_on_bad"))
    pipeline.send(topic, ["good-1"])
    pipeline.send_bytes(topic, b"\xff\xfe\xfd", key=b"no-protobuf")
    pipeline.send_bytes(topic, None, key=b"no-value")
    pipeline.send_bytes(topic, reference("no-object").SerializeToString(), key=b"no-object")
    pipeline.send(topic, ["bad-1", "good-2"])

    report = pipeline.drain(topic, "run-1")

    assert report.dead_letters == 4
    everything = {"good-1", "no-protobuf", "no-value", "no-object", "bad-1", "good-2"}
    check("poison: unreadable, missing, raising", pipeline, everything)
    dead = pipeline.doc_ids(f"dlq.intake.{unique}")
    assert dead == dict.fromkeys(["no-protobuf", "no-value", "no-object", "bad-1"], 1)


def test_a_module_that_hangs_is_stopped_and_its_document_becomes_a_dead_letter(make_pipeline, topic, unique, check):
    slow = FIRST + "modules:hanging\n    timeout_s: 0.3"
    pipeline = make_pipeline((HEALTHY, slow), max_attempts=2)
    pipeline.send(topic, ["slow-1", "slow-2"])

    report = pipeline.drain(topic, "run-1")

    assert report.dead_letters == 2
    check("poison: module hangs", pipeline, {"slow-1", "slow-2"})
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"slow-1": 1, "slow-2": 1}


def test_in_a_runtime_a_crash_costs_one_document_and_the_same_run_drains_the_others(
    make_pipeline, topic, unique, check
):
    pipeline = make_pipeline((HEALTHY, OWN_PROCESS), max_attempts=2)
    documents = [f"doc-{number}" for number in range(12)]
    documents[3], documents[8] = "deadly-3", "deadly-8"
    pipeline.send(topic, documents)

    report = pipeline.drain(topic, "run-1")

    assert (report.status, report.dead_letters) == ("drained", 2)
    check("poison: document ends its runtime", pipeline, documents)
    letters = pipeline.read(f"dlq.intake.{unique}")
    assert sorted(letter.doc_id for letter in letters) == ["deadly-3", "deadly-8"]
    for letter in letters:
        assert header(letter.record.headers, CONNECT + "exception.class.name") == "ModuleUnavailable"
        assert "was killed by SIGSEGV" in header(letter.record.headers, CONNECT + "exception.message")
        assert header(letter.record.headers, OWN + "attempts") == "2"
    assert runtimes_of(psutil.Process()) == []
    assert marks_of(pipeline) == []


@pytest.mark.slow  # what it adds to the test before is the fork of a Spark worker
@pytest.mark.spark
def test_in_a_runtime_of_a_spark_worker_a_crash_costs_one_document(
    make_pipeline, topic, unique, stack, spark_master, tmp_path, check, fill, documents
):
    pipeline = make_pipeline((HEALTHY, OWN_PROCESS))
    documents[documents.index("0-13")] = "0-deadly"
    fill(pipeline, documents)
    config = tmp_path / "spark.toml"
    write_settings(config, pipeline.settings)
    environment = {**stack.environment(), "PIPESTREAM_CONFIG": str(config)}

    done = submit_drain(pipeline, topic, "run-1", environment, master=spark_master)

    assert done.exit_code == 0, done.log
    assert (done.outcome["status"], done.outcome["dead_letters"]) == ("drained", 1)
    check("poison: document ends the runtime of a Spark worker", pipeline, documents)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"0-deadly": 1}


@pytest.mark.spark
def test_a_document_that_ends_its_process_becomes_a_dead_letter_and_the_run_goes_through(
    make_pipeline, topic, unique, stack, spark_master, tmp_path, check, fill, documents
):
    pipeline = make_pipeline((HEALTHY, DEADLY))
    documents[documents.index("0-13")] = "0-deadly"
    documents[documents.index("1-20")] = "1-deadly"
    fill(pipeline, documents)
    config = tmp_path / "spark.toml"
    write_settings(config, pipeline.settings)
    environment = {**stack.environment(), "PIPESTREAM_CONFIG": str(config)}

    # Spark tries a task four times. Three die: one among several chunks, one in the document's chunk, one at it alone.
    done = submit_drain(pipeline, topic, "run-1", environment, master=spark_master)

    assert done.exit_code == 0, done.log
    assert (done.outcome["status"], done.outcome["dead_letters"]) == ("drained", 2)
    check("poison: document ends the Spark worker", pipeline, documents)
    letters = pipeline.read(f"dlq.intake.{unique}")
    assert sorted(letter.doc_id for letter in letters) == ["0-deadly", "1-deadly"]
    for letter in letters:
        assert header(letter.record.headers, CONNECT + "exception.class.name") == "ProcessDied"
        assert header(letter.record.headers, OWN + "attempts") == "3"
    assert marks_of(pipeline) == []


def test_a_deadly_document_is_given_up_after_as_many_deaths_as_it_may_have(
    make_pipeline, topic, unique, check, start_drain
):
    pipeline = make_pipeline((HEALTHY, DEADLY), max_attempts=4, leases="none")
    documents = [f"doc-{number}" for number in range(35)]
    documents[14] = "deadly-14"
    pipeline.send(topic, documents)

    assert drain_until_done(pipeline, start_drain) == 4

    check("poison: one document ends the process", pipeline, documents)
    [letter] = pipeline.read(f"dlq.intake.{unique}")
    assert (letter.doc_id, header(letter.record.headers, OWN + "attempts")) == ("deadly-14", "4")
    assert marks_of(pipeline) == []


def test_a_deadly_document_of_one_partition_costs_no_document_of_another(
    make_pipeline, topic, unique, check, start_drain, fill, documents
):
    pipeline = make_pipeline((HEALTHY, FIRST + "modules:dying_among_others"), leases="none")
    documents[0] = "0-deadly"
    fill(pipeline, documents)

    drain_until_done(pipeline, start_drain)

    check("poison: one partition's document ends the process of all", pipeline, documents)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"0-deadly": 1}
    assert marks_of(pipeline) == []


# Where only two deaths are allowed: one that nobody expected, then one at each deadly document. Else one more in the
# chunk of each. A chunk that was not hydrated yet when the first one killed the process costs a death of its own.
@pytest.mark.parametrize(
    ("max_attempts", "expected"), [(2, (1 + 3, (1 + 2) + (1 + 1))), (3, (1 + 3 + 2, (1 + 1 + 2) + (1 + 1 + 1)))]
)
def test_several_deadly_documents_cost_a_few_runs_and_each_run_gets_further(
    make_pipeline, topic, unique, check, start_drain, max_attempts, expected
):
    pipeline = make_pipeline((HEALTHY, DEADLY), max_attempts=max_attempts, leases="none")
    documents = [f"doc-{number}" for number in range(35)]
    for number in (3, 7, 24):  # two in the first chunk of ten, one in the third
        documents[number] = f"deadly-{number}"
    pipeline.send(topic, documents)

    deaths = drain_until_done(pipeline, start_drain)

    assert deaths in expected
    check("poison: documents end the process", pipeline, documents)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"deadly-3": 1, "deadly-7": 1, "deadly-24": 1}
    assert marks_of(pipeline) == []


def test_deadly_documents_of_several_partitions_are_found_in_a_task_that_reads_them_in_order_of_time(
    make_pipeline, topic, unique, check, start_drain
):
    ordered = DEADLY + "\n    ordering: timestamp"
    pipeline = make_pipeline((HEALTHY, ordered), max_attempts=2, leases="none")
    documents = []
    begun_at = datetime.now(UTC) - timedelta(minutes=1)
    for number in range(12):
        sent_at = begun_at + timedelta(seconds=number)
        for partition in (0, 1):
            kind = "deadly" if number == 5 else "doc"
            documents.append(f"{kind}-{partition}-{number}")
            pipeline.send(topic, documents[-1:], partition=partition, timestamp=sent_at)

    deaths = drain_until_done(pipeline, start_drain)

    # Both are in the second chunk of ten, which takes from both partitions in turn.
    assert deaths == 1 + 2
    check("poison: documents end an ordered task", pipeline, documents)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"deadly-0-5": 1, "deadly-1-5": 1}
    assert marks_of(pipeline) == []


def test_processes_killed_from_outside_make_no_dead_letter(make_pipeline, topic, check, start_drain):
    pipeline = make_pipeline(max_attempts=2, leases="none")
    documents = [f"doc-{number}" for number in range(8)]
    pipeline.send(topic, documents)

    for number in range(4):
        killed = start_drain(pipeline, f"run-{number}", f"{faults.CHUNK_PROCESSED}=kill")
        assert killed.wait() == -signal.SIGKILL, killed.log
    report = pipeline.drain(topic, "run-last")

    assert report.dead_letters == 0
    check("killed from outside in the same chunk, again and again", pipeline, documents)
    assert marks_of(pipeline) == []


def test_what_a_killed_process_had_in_hand_is_drained_chunk_by_chunk_and_not_record_by_record(
    make_pipeline, topic, check, start_drain, caplog
):
    pipeline = make_pipeline(leases="none")
    documents = [f"doc-{number}" for number in range(35)]
    pipeline.send(topic, documents)
    killed = start_drain(pipeline, "run-1", f"{faults.CHUNK_PROCESSED}=kill@2")
    assert killed.wait() == -signal.SIGKILL, killed.log

    report = pipeline.drain(topic, "run-2")

    assert report.dead_letters == 0
    check("killed from outside, once", pipeline, documents)
    assert "an earlier try died after" in caplog.text
    assert "one record at a time" not in caplog.text
    assert marks_of(pipeline) == []


def test_a_fixed_graph_tries_a_deadly_document_again(make_pipeline, topic, check, start_drain):
    deadly = make_pipeline((HEALTHY, DEADLY), max_attempts=2, leases="none")
    deadly.send(topic, ["doc-1", "deadly-1", "doc-2"])
    for number in range(2):
        assert start_drain(deadly, f"run-{number}").wait() == DIED

    mended = make_pipeline(max_attempts=2, leases="none")
    report = mended.drain(topic, "run-last")

    assert report.dead_letters == 0
    check("poison: the graph is mended in time", mended, {"doc-1", "deadly-1", "doc-2"})


def test_a_document_of_80_mb_passes_by_reference(pipeline, topic, check):
    stream = reference("large")
    document = PipeDoc(doc_id="large")
    document.search_metadata.title = "large"
    document.blob_bag.blob.data = os.urandom(MB) * 80
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        store.put(key_of(stream), document.SerializeToString())
    pipeline.send_bytes(topic, stream.SerializeToString(), key=b"large")
    pipeline.send(topic, ["small"])

    report = pipeline.drain(topic, "run-1")

    assert report.dead_letters == 0
    check("a document of 80 MB", pipeline, {"large", "small"})


def test_an_output_larger_than_its_topic_allows_makes_a_dead_letter_of_its_document_alone(
    pipeline, topic, unique, check
):
    pipeline.send(topic, ["before"])
    send_wide(pipeline, topic, "wide-1", "wide-2")
    pipeline.send(topic, ["after"])

    report = pipeline.drain(topic, "run-1")

    assert (report.documents_out, report.dead_letters) == ({"first--second": 2}, 2)
    check("output larger than its topic allows", pipeline, {"before", "wide-1", "wide-2", "after"})
    letters = pipeline.read(f"dlq.intake.{unique}")
    assert [letter.doc_id for letter in letters] == ["wide-1", "wide-2"]
    for letter in letters:
        assert header(letter.record.headers, CONNECT + "exception.class.name") == "RecordTooLarge"
        reason = header(letter.record.headers, CONNECT + "exception.message")
        assert f"bytes for pipestream.{unique}.second, which takes up to 1048588" in reason


def test_where_the_error_end_refuses_a_document_too_it_becomes_a_dead_letter(make_pipeline, topic, unique, check):
    error_end = ("nodes:\n", "error_end: failed\nnodes:\n  - {id: failed, type: sink}\n")
    pipeline = make_pipeline(error_end, (HEALTHY, FIRST + "steps:fail_on_bad"))
    send_wide(pipeline, topic, "wide")
    pipeline.send(topic, ["good", "bad"])

    report = pipeline.drain(topic, "run-1")

    assert (report.documents_out, report.dead_letters) == ({"first--second": 1, "error-end": 1}, 1)
    check("output larger than the error-end allows", pipeline, {"wide", "good", "bad"})
    assert pipeline.doc_ids(f"pipestream.{unique}.failed") == {"bad": 1}
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"wide": 1}


def test_small_outputs_that_are_only_together_larger_than_their_topic_allows_arrive(
    make_pipeline, topic, unique, check, monkeypatch
):
    deliver, deliveries = TransactionalWriter._deliver, []
    monkeypatch.setattr(TransactionalWriter, "_deliver", lambda writer: (deliveries.append(1), deliver(writer)))
    pipeline = make_pipeline(chunk_records=200)
    allow(pipeline, f"pipestream.{unique}.second", 5_000)
    documents = [f"{os.urandom(40).hex()}-{number}" for number in range(200)]
    pipeline.send(topic, documents)

    report = pipeline.drain(topic, "run-1")

    assert report.dead_letters == 0
    assert len(deliveries) < len(documents) / 2, "one by one, a large chunk would outlast its transaction"
    check("batch larger than its topic allows", pipeline, documents)
    arrived = pipeline.read(f"pipestream.{unique}.second")
    for partition in (0, 1):  # in the order they were sent
        numbers = [int(letter.doc_id.split("-")[1]) for letter in arrived if letter.record.partition == partition]
        assert numbers == sorted(numbers) != []


def test_a_dead_letter_that_kafka_refuses_is_a_clear_failure(pipeline, topic, unique, check):
    allow(pipeline, f"dlq.intake.{unique}", 2 * 1024)
    send_wide(pipeline, topic, "wide")
    pipeline.send(topic, ["after"])

    with pytest.raises(RangeFailed, match=rf"for dlq\.intake\.{unique}, .*; raise max\.message\.bytes of that topic"):
        pipeline.drain(topic, "run-1")

    assert pipeline.entries(topic) == []
    allow(pipeline, f"dlq.intake.{unique}", 2 * MB)
    pipeline.drain(topic, "run-2")
    check("dead letter larger than its topic allows", pipeline, {"wide", "after"})


def send_wide(pipeline, topic, *doc_ids):
    """Send documents that fit a topic's limit of 1,048,588 bytes, but not with the hop that a node adds."""
    producer = Producer({**client_config(pipeline.settings), "message.max.bytes": 2 * MB})
    for doc_id in doc_ids:
        stream = PipeStream()
        stream.document.doc_id = doc_id
        stream.metadata.context_params["wide"] = base64.b64encode(os.urandom(786_250)).decode()
        producer.produce(topic, stream.SerializeToString(), key=doc_id.encode(), partition=0)
        assert producer.flush(120) == 0


def drain_until_done(pipeline, start_drain):
    """Run after run, each in a process of its own; return how many of them died."""
    for deaths in range(20):
        process = start_drain(pipeline, f"run-{deaths}")
        code = process.wait()
        if code != DIED:
            assert code == 0, process.log
            return deaths
    raise AssertionError("20 runs died")


def marks_of(pipeline):
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        return list(store.list(ROOT))


def allow(pipeline, topic, size_bytes):
    TopicAdmin(pipeline.settings).set_max_message_bytes({topic: size_bytes})
