"""The sidecar on real servers: it drains, shares, follows what is wanted, and ends with everything recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import closing

import pytest

from pipestream.gen.ai.pipestream.engine.sidecar.v1 import management_service_pb2 as wire
from pipestream.leases import DesiredState, open_lease_store
from pipestream.leases.store import TopicMode
from pipestream.settings import CONFIG_VARIABLE
from pipestream.wire import PipeStream
from pipestream_testing.oracle import Verdict, judge
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, holders, wait_drained
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

QUICK = {"reconcile_s": 0.3, "stream_follow_s": 0.3, "stream_record_s": 1.0, "chunk_records": 10, "lease_ttl_s": 30}


@pytest.fixture
def pipeline(pipeline):
    return Pipeline(pipeline.settings.model_copy(update=QUICK), pipeline.graph_file)


@pytest.fixture
def start(pipeline):
    started = []

    def start(label, *arguments, of=pipeline):
        started.append(SidecarProcess(of, label, *arguments))
        started[-1].wait_ready()
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def intake(unique):
    return f"intake.{unique}"


@pytest.fixture
def second(unique):
    return f"pipestream.{unique}.second"


def send(pipeline, topic, label, count=20):
    documents = [f"{label}-{number}" for number in range(count)]
    for partition in (0, 1):
        pipeline.send(topic, documents[partition::2], partition=partition)
    return documents


def run(sidecar, *arguments):
    command = [sys.executable, "-m", "pipestream.cli.main", "sidecar", *arguments, "--address", sidecar.address]
    environment = {**os.environ, CONFIG_VARIABLE: str(sidecar.config)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_sidecar_drains_pauses_resumes_and_ends_with_everything_recorded(pipeline, start, intake, second):
    apply_streaming(pipeline)
    documents = send(pipeline, intake, "a")
    sidecar = start("one")

    wait_drained(pipeline, [intake, second])
    wait_until(lambda: set(sidecar.statuses().values()) == {"ACTIVE"})
    by_topic = {lease.topic: lease for lease in sidecar.leases()}
    assert by_topic[intake].type == "INTAKE"
    assert by_topic[second].type == "NODE"
    assert by_topic[intake].current_offset == 20
    assert by_topic[intake].consumer_group == f"pipestream.{pipeline.graph.cluster_id}.{pipeline.graph.graph_id}"

    assert sidecar.call("PauseConsumption", wire.PauseConsumptionRequest(topic=intake)).success
    unknown = sidecar.call("PauseConsumption", wire.PauseConsumptionRequest(topic="intake.other"))
    assert not unknown.success
    assert "does not drain 'intake.other'" in unknown.message
    documents += send(pipeline, intake, "b")
    wait_until(lambda: sidecar.statuses() == {**dict.fromkeys(by_topic, "ACTIVE"), intake: "PAUSED"})
    assert holders(pipeline)[sidecar.name] == len(by_topic)  # nobody else may drain it
    assert sum(entry.tally.records for entry in pipeline.entries(intake)) == 20

    assert sidecar.call("ResumeConsumption", wire.ResumeConsumptionRequest(topic=intake)).success
    wait_drained(pipeline, [intake, second])

    documents += send(pipeline, intake, "c")
    assert sidecar.end() == 0, sidecar.log
    assert not holders(pipeline)
    start("two")
    wait_drained(pipeline, [intake, second])
    assert judge(pipeline, documents, [intake, second]) == Verdict(0, 0)


def test_a_sidecar_is_seen_and_steered_from_the_command_line(pipeline, start, intake):
    apply_streaming(pipeline, intake)
    sidecar = start("one")
    wait_until(lambda: sidecar.statuses() == {intake: "ACTIVE"})

    assert json.loads(run(sidecar, "leases", "--json").stdout)[0]["status"] == "ACTIVE"
    assert "is paused here" in run(sidecar, "pause", intake).stdout
    assert "PAUSED" in run(sidecar, "leases").stdout
    assert run(sidecar, "resume", intake).returncode == 0
    refused = run(sidecar, "pause", "intake.other")
    assert (refused.returncode, "does not drain" in refused.stderr) == (2, True)

    cluster = pipeline.graph.cluster_id
    assert run(sidecar, "config", cluster, "--max-poll-records", "7").returncode == 0
    [config] = json.loads(run(sidecar, "config", "--json").stdout)
    assert (config["max_poll_records"], config["topics"]) == (7, [intake])
    assert "drains no topic of cluster" in run(sidecar, "config", "nowhere", "--max-poll-records", "7").stderr
    assert run(sidecar, "config", cluster, "--max-poll-records", "0").returncode == 0
    assert json.loads(run(sidecar, "config", "--json").stdout)[0]["max_poll_records"] == 10

    with urllib.request.urlopen(f"http://{sidecar.telemetry}/health", timeout=30) as answer:
        assert json.load(answer)["slots"] == {"ACTIVE": 1}
    with urllib.request.urlopen(f"http://{sidecar.telemetry}/metrics", timeout=30) as answer:
        assert b"pipestream_messages_received_total" in answer.read()
    sidecar.end()
    gone = run(sidecar, "leases")
    assert (gone.returncode, "no sidecar answers" in gone.stderr) == (1, True)


def test_sidecars_share_topics_fairly_and_a_third_gets_its_share(pipeline, start, intake, second):
    apply_streaming(pipeline, replicas=2)  # three topics, two slots each
    documents = send(pipeline, intake, "a")
    first = start("one")
    wait_until(lambda: holders(pipeline)[first.name] == 6)
    other = start("two")
    wait_until(lambda: holders(pipeline) == {first.name: 3, other.name: 3})
    documents += send(pipeline, intake, "b")
    third = start("three")
    wait_until(lambda: holders(pipeline) == {first.name: 2, other.name: 2, third.name: 2})
    documents += send(pipeline, intake, "c")

    assert first.end() == 0

    wait_until(lambda: holders(pipeline) == {other.name: 3, third.name: 3})
    documents += send(pipeline, intake, "d")
    wait_drained(pipeline, [intake, second])
    assert judge(pipeline, documents, [intake, second]) == Verdict(0, 0)


def test_replicas_and_mode_change_while_documents_flow(pipeline, start, intake, second):
    apply_streaming(pipeline)
    start("one"), start("two")
    documents = []
    with closing(open_lease_store(pipeline.settings)) as leases:
        for round_, state in enumerate(
            [
                DesiredState(mode=TopicMode.STREAMING, replicas=2),
                DesiredState(mode=TopicMode.STREAMING, replicas=1),
                DesiredState(mode=TopicMode.BATCH),
                DesiredState(mode=TopicMode.STREAMING, replicas=2),
            ]
        ):
            documents += send(pipeline, intake, f"r{round_}")
            leases.set_desired(intake, state)
            wanted = state.replicas if state.mode is TopicMode.STREAMING else 0
            wait_until(lambda: sum(bool(a.holder) for a in leases.assignments(intake)) == wanted)  # noqa: B023
            if state.mode is TopicMode.BATCH:
                documents += send(pipeline, intake, "batch")
                assert pipeline.drain(intake, "batch-run").status == "drained"

    wait_drained(pipeline, [intake, second])
    assert judge(pipeline, documents, [intake, second]) == Verdict(0, 0)


def test_a_topic_that_is_missing_is_shown_as_error_and_the_others_are_drained(pipeline, start, intake, second):
    from pipestream.topics.admin import TopicAdmin
    from pipestream.topics.required import required_topics

    apply_streaming(pipeline)
    TopicAdmin(pipeline.settings).delete([intake])
    pipeline.send_streams(second, [on_the_way_to("second", f"d{number}") for number in range(5)])
    sidecar = start("one")

    wait_until(lambda: sidecar.statuses().get(intake) == "ERROR", timeout_s=120)
    assert next(lease for lease in sidecar.leases() if lease.topic == intake).retry_count >= 1
    wait_until(lambda: sidecar.statuses()[second] == "ACTIVE")
    wait_until(lambda: sum(entry.tally.records for entry in pipeline.entries(second)) == 5)

    TopicAdmin(pipeline.settings).create(
        [spec for spec in required_topics(pipeline.graph, pipeline.settings) if spec.name == intake]
    )
    wait_until(lambda: sidecar.statuses()[intake] == "ACTIVE", timeout_s=120)


def on_the_way_to(node_id, doc_id):
    stream = PipeStream(stream_id=f"s-{doc_id}", current_node_id=node_id)
    stream.metadata.account_id = "acme"
    stream.document.doc_id = stream.document.search_metadata.title = doc_id
    return stream


def test_without_leases_a_sidecar_drains_every_topic_in_one_stream_and_says_so(pipeline, start, intake, second):
    apply_streaming(pipeline, intake, replicas=2)
    documents = send(pipeline, intake, "a")
    free = Pipeline(pipeline.settings.model_copy(update={"leases": "none"}), pipeline.graph_file)

    sidecar = start("one", of=free)

    assert "Replicas, modes and max_leases do not apply" in sidecar.log
    wait_drained(pipeline, [intake, second])
    assert [lease.topic for lease in sidecar.leases()].count(intake) == 1
    assert sidecar.end() == 0
    assert judge(pipeline, documents, [intake, second]) == Verdict(0, 0)
