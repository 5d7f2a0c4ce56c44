"""Records that cannot be processed: each becomes a dead letter or a clear failure, and nothing is lost with them.

A module that ends its own process takes the Spark task with it. Spark tries the task four times, each try goes on
where the last transaction ended and dies at the same document; then the run fails and says what to look for. Nothing
of that chunk was written, so a run with a mended graph takes it up.
"""

from __future__ import annotations

import base64
import os
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from pipestream.documents.references import key_of
from pipestream.documents.store import open_store
from pipestream.drain.broker import client_config
from pipestream.local.state import write_settings
from pipestream.testing.submit import submit_drain
from pipestream.wire import PipeDoc, PipeStream

pytestmark = pytest.mark.stack

FIRST = "  - id: first\n    module: python:pipestream.testing."
HEALTHY = FIRST + "steps:pass_on"
MB = 1_000_000


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

    started_at = time.monotonic()
    report = pipeline.drain(topic, "run-1")

    assert report.dead_letters == 2
    assert time.monotonic() - started_at < 30
    check("poison: module hangs", pipeline, {"slow-1", "slow-2"})
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"slow-1": 1, "slow-2": 1}


@pytest.mark.spark
def test_a_module_that_ends_its_process_fails_the_run_and_loses_nothing(
    make_pipeline, topic, stack, settings, tmp_path, check, fill, documents, drain_when_free
):
    deadly = make_pipeline((HEALTHY, FIRST + "modules:dying"))
    fill(deadly, documents)
    config = tmp_path / "spark.toml"
    write_settings(config, deadly.settings)
    environment = {**stack.environment(), "PIPESTREAM_CONFIG": str(config)}

    # Spark tries a task four times, and each try dies at the same document.
    failed = submit_drain(deadly, topic, "run-1", environment, master=settings.spark_master)

    assert failed.exit_code != 0
    assert failed.outcome["status"] == "failed"
    assert "a module that ends its process" in failed.outcome["error"], failed.outcome
    assert deadly.entries(topic) == []
    failed_at = time.monotonic()
    mended = make_pipeline()
    drain_when_free(mended, "run-2")
    check("poison: module ends the Spark worker", mended, documents, failed_at)


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


def test_an_output_that_kafka_refuses_for_its_size_is_a_clear_failure(
    pipeline, topic, unique, check, start_drain, drain_when_free
):
    stream = PipeStream()
    stream.document.doc_id = "wide"
    # Fits the topic's limit of 1,048,588 bytes as it is, but not with the hop that a node adds to its history.
    stream.metadata.context_params["wide"] = base64.b64encode(os.urandom(786_250)).decode()
    producer = Producer({**client_config(pipeline.settings), "message.max.bytes": 2 * MB})
    producer.produce(topic, stream.SerializeToString(), key=b"wide", partition=0)
    assert producer.flush(30) == 0
    pipeline.send(topic, ["after"])

    refused = start_drain(pipeline, "run-1")

    assert refused.wait() == 2, refused.log
    assert f"for pipestream.{unique}.second; raise max.message.bytes of that topic" in refused.log
    failed_at = time.monotonic()
    allow(pipeline, f"pipestream.{unique}.second", 2 * MB)
    drain_when_free(pipeline, "run-2")
    check("output larger than its topic allows", pipeline, {"wide", "after"}, failed_at)


def allow(pipeline, topic, size_bytes):
    admin = AdminClient(client_config(pipeline.settings))
    limit = ConfigEntry("max.message.bytes", str(size_bytes), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[limit])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
