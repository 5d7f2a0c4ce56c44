"""The Engine's other methods, graphs that change while it runs, and engines that call each other."""

from __future__ import annotations

import threading
from dataclasses import replace
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pipestream.engine_server.server import EngineOptions
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.graph.load import check_graph_text
from pipestream.leases import open_lease_store
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.objects.store import open_store
from pipestream.wire import GraphNode
from pipestream_testing.engines import apply, at_node, engine, handoff, save
from pipestream_testing.pipeline import read_topic
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack
STEPS = "python:pipestream_testing.steps"


def graph_text(unique, replace=None, graph="one"):
    text = f"""
graph: {unique}-{graph}
cluster: {unique}
datasources: [{{id: {unique}, account: acme, entry: first}}]
nodes:
  - {{id: first, module: "{STEPS}:fail_on_bad"}}
  - {{id: second, module: "{STEPS}:pass_on"}}
edges: [{{from: first, to: second}}]
"""
    for old, new in (replace or {}).items():
        assert old in text
        text = text.replace(old, new)
    return text


def process(live, unique, doc_id, node_id="first", key="", graph="one", **fields):
    stream = at_node(node_id, doc_id)
    if graph:
        stream.metadata.graph_id = f"{unique}-{graph}"
    metadata = [(IDEMPOTENCY_KEY, key)] if key else []
    return live.stub.ProcessNode(pb.ProcessNodeRequest(stream=stream, **fields), timeout=120, metadata=metadata)


def test_process_node_runs_the_module_routes_the_document_and_answers_with_it(live, unique):
    live.apply(graph_text(unique))

    answer = process(live, unique, "doc-1")
    (found,) = read_topic(live.settings, f"pipestream.{unique}.second")

    assert answer.success
    assert answer.error_message == ""
    assert answer.module_id == f"{STEPS}:fail_on_bad"
    assert answer.output_doc.doc_id == "doc-1"
    assert answer.HasField("processing_time_ms")
    assert answer.completed_at.seconds > 0
    assert found.stream.stream_id == "stream-doc-1"


def test_a_repeated_key_of_process_node_is_processed_once(live, unique):
    live.apply(graph_text(unique))

    first, second = (process(live, unique, "doc-1", key=f"{unique}-k") for _ in range(2))
    with pytest.raises(grpc.RpcError) as other:
        process(live, unique, "doc-2", key=f"{unique}-k")
    found = read_topic(live.settings, f"pipestream.{unique}.second")

    assert first == second
    assert other.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert [each.doc_id for each in found] == ["doc-1"]


def test_a_document_that_fails_is_a_success_of_the_call_and_a_dead_letter(live, unique):
    live.apply(graph_text(unique))

    answer = process(live, unique, "bad-1")
    (letter,) = read_topic(live.settings, f"dlq.{unique}.first")

    assert answer.success
    assert answer.error_message.startswith("a dead letter: INVALID_STATE: ")
    assert letter.doc_id == "bad-1"


def test_what_cannot_be_processed_is_answered_with_all_problems(live, unique):
    live.apply(graph_text(unique))
    empty = live.stub.ProcessNode(pb.ProcessNodeRequest(stream={"current_node_id": "nowhere"}), timeout=120)
    override = GraphNode(node_id="first", module_id="python:os:system")
    overridden = process(live, unique, "doc-1", node_override=override)
    no_stream = live.stub.ProcessNode(pb.ProcessNodeRequest(), timeout=120)

    assert not empty.success
    assert empty.error_message.startswith("INVALID_ARGUMENT: ")
    for problem in ("neither a document", "no stream_id", "no account_id", "no applied graph has a node 'nowhere'"):
        assert problem in empty.error_message
    assert not overridden.success
    assert "node_override" in overridden.error_message
    assert not no_stream.success


def test_a_stream_whose_node_is_not_served_is_told_from_one_that_is_wrong(live, unique):
    live.apply(graph_text(unique))
    right = {"stream_id": unique, "metadata": {"account_id": "acme"}, "document": {"doc_id": "doc-1"}}

    answer = live.stub.ProcessNode(pb.ProcessNodeRequest(stream={**right, "current_node_id": "nowhere"}), timeout=120)

    assert not answer.success
    assert answer.error_message == "INVALID_STATE: no applied graph has a node 'nowhere'"


def test_an_unregistered_module_and_a_missing_edge_target_are_both_named(live, unique):
    text = graph_text(
        unique, {f'"{STEPS}:pass_on"': '"python:nowhere.at_all:f"', "to: second}": "to: second, transport: grpc}"}
    )
    graph = check_graph_text(text.encode(), "g").require()
    missing = replace(graph.edges[0], edge_id="lost", to_node_id="gone")
    broken = replace(graph, edges=(*graph.edges, missing))
    save(live.settings, broken)
    live.wait_for(broken)

    answer = process(live, unique, "doc-1")
    handed = live.hand_off(unique, "doc-1")
    health = live.stub.GetHealth(pb.GetHealthRequest(), timeout=120)

    assert not answer.success
    assert answer.error_message.startswith("INVALID_STATE: ")
    assert "cannot import nowhere.at_all" in answer.error_message
    assert "edge lost leads to gone" in answer.error_message
    assert not handed.accepted
    assert "cannot import nowhere.at_all" in handed.message
    assert health.health == pb.ENGINE_HEALTH_DEGRADED
    live.apply(graph_text(unique))


def test_process_stream_answers_in_order_with_the_updated_streams(live, unique):
    live.apply(graph_text(unique))
    streams = [at_node("first", f"doc-{number}") for number in range(20)]
    for stream in streams:
        stream.metadata.graph_id = f"{unique}-one"
    requests = [pb.ProcessStreamRequest(stream=stream) for stream in streams]
    requests[7].stream.current_node_id = "nowhere"

    answers = list(live.stub.ProcessStream(iter(requests), timeout=120))

    assert [answer.success for answer in answers] == [number != 7 for number in range(20)]
    assert "nowhere" in answers[7].message
    assert answers[3].updated_stream.document.doc_id == "doc-3"
    assert answers[3].updated_stream.current_node_id == "second"
    assert answers[3].metrics.node_id == "first"
    assert answers[3].metrics.hop_count == 1


def test_a_repeat_of_process_node_gets_the_first_answer_also_when_its_graph_is_in_design(live, unique):
    live.apply(graph_text(unique))
    first = process(live, unique, "doc-1", key=f"{unique}-k")
    live.apply(graph_text(unique, {"cluster: ": "mode: design\ncluster: "}))

    assert process(live, unique, "doc-1", key=f"{unique}-k") == first
    assert not process(live, unique, "doc-2").success


@pytest.fixture
def shared(settings, unique):
    """Two engines that share the slots, so that the first has to forward the calls of some keys."""
    apply(settings, graph_text(unique, {"id: first,": "id: first, visibility: public,"}))
    changes = {"engine_name": unique, "engine_slots": 2, "lease_ttl_s": 5.0}
    with engine(settings, **changes) as first, engine(settings, **changes) as second:
        slots = [each.running.overview._slots for each in (first, second)]
        wait_until(lambda: [len(each.held) for each in slots] == [1, 1])
        (number,) = slots[1].held
        wait_until(lambda: slots[0]._owner(number) == second.address)
        yield first


def test_each_message_of_process_stream_has_its_own_key_and_is_forwarded_to_the_owner_of_it(shared, unique):
    streams = [at_node("first", f"doc-{number}") for number in range(10)]
    requests = [pb.ProcessStreamRequest(stream=stream) for stream in streams]

    first, second = (
        list(shared.stub.ProcessStream(iter(requests), timeout=120, metadata=[(IDEMPOTENCY_KEY, "k")]))
        for _ in range(2)
    )
    found = read_topic(shared.settings, f"pipestream.{unique}.second")

    assert [(answer.success, answer.message) for answer in (*first, *second)] == [(True, "")] * 20
    assert [answer.updated_stream.document.doc_id for answer in first] == [f"doc-{number}" for number in range(10)]
    assert [answer.metrics.cache_hit for answer in (*first, *second)] == [False] * 10 + [True] * 10
    assert sorted(each.doc_id for each in found) == [f"doc-{number}" for number in range(10)]


def test_a_route_to_a_cluster_is_forwarded_to_the_owner_of_its_key(shared, unique):
    requests = [
        pb.RouteToClusterRequest(
            target_cluster_id=unique, target_node_id="first", stream=at_node("elsewhere", f"doc-{number}")
        )
        for number in range(10)
    ]

    answers = [
        shared.stub.RouteToCluster(request, timeout=120, metadata=[(IDEMPOTENCY_KEY, request.stream.stream_id)])
        for request in requests * 2
    ]
    found = read_topic(shared.settings, f"bridge.{unique}.first")

    assert all(answer.success for answer in answers)
    assert sorted(each.doc_id for each in found) == [f"doc-{number}" for number in range(10)]


def test_route_to_cluster_writes_to_the_bridge_topic(live, unique):
    live.apply(graph_text(unique, {"id: first,": "id: first, visibility: public,"}))
    stream = at_node("elsewhere", "doc-1")

    routed = live.stub.RouteToCluster(
        pb.RouteToClusterRequest(target_cluster_id=unique, target_node_id="first", stream=stream), timeout=120
    )
    missing = live.stub.RouteToCluster(
        pb.RouteToClusterRequest(target_cluster_id=unique, target_node_id="unknown", stream=stream), timeout=120
    )
    wrong = live.stub.RouteToCluster(pb.RouteToClusterRequest(target_cluster_id="../x"), timeout=120)
    (found,) = read_topic(live.settings, f"bridge.{unique}.first")

    assert routed.success
    assert routed.routing_method == "KAFKA"
    assert found.stream.current_node_id == "first"
    assert found.stream.cluster_id == unique
    assert not missing.success
    assert "NOT_FOUND" in missing.message
    assert not wrong.success
    assert "target_cluster_id" in wrong.message
    assert "neither a document" in wrong.message


def test_health_has_real_values(live, unique):
    live.apply(graph_text(unique))
    before = live.stub.GetHealth(pb.GetHealthRequest(), timeout=120)

    for number in range(3):
        live.hand_off(unique, f"doc-{number}")
    after = live.stub.GetHealth(pb.GetHealthRequest(), timeout=120)
    health = health_pb2_grpc.HealthStub(live.channel)
    serving = health.Check(health_pb2.HealthCheckRequest(service="ai.pipestream.engine.v1.EngineV1Service"), timeout=60)

    assert after.kafka_status.total_messages_processed - before.kafka_status.total_messages_processed == 3
    assert after.kafka_status.average_processing_time_ms > 0
    assert unique in after.connected_clusters
    assert after.active_streams >= 1
    assert serving.status == health_pb2.HealthCheckResponse.SERVING


def test_metrics_listen_where_the_settings_say(settings, unique):
    options = EngineOptions(metrics_port=0)
    with (
        engine(settings, options, engine_name=unique, telemetry_host="127.0.0.2") as running,
        urlopen(f"http://{running.running.metrics}/health", timeout=60) as answer,
    ):
        status = answer.status

    assert running.running.metrics.startswith("127.0.0.2:")
    assert running.address.startswith("127.0.0.1:")
    assert status == 200


def test_subscriptions_are_the_desired_state_of_topics(live, unique):
    live.apply(graph_text(unique))
    topic, store = f"intake.{unique}", open_lease_store(live.settings)
    store.register([topic])

    subscribed = live.stub.UpdateTopicSubscriptions(
        pb.UpdateTopicSubscriptionsRequest(topics_to_subscribe=[topic]), timeout=120
    )
    shown = live.stub.GetTopicSubscriptions(pb.GetTopicSubscriptionsRequest(), timeout=120)
    stopped = live.stub.UpdateTopicSubscriptions(
        pb.UpdateTopicSubscriptionsRequest(topics_to_unsubscribe=[topic]), timeout=120
    )
    unknown = live.stub.UpdateTopicSubscriptions(
        pb.UpdateTopicSubscriptionsRequest(topics_to_subscribe=[topic, "intake.unknown"]), timeout=120
    )
    is_started = store.desired(topic).started
    store.close()

    assert subscribed.success
    assert topic in subscribed.active_subscriptions
    assert topic in shown.subscriptions[0].subscribed_topics
    assert shown.subscriptions[0].cpu_usage_percent > 0
    assert shown.subscriptions[0].memory_usage_percent > 0
    assert stopped.success
    assert topic not in stopped.active_subscriptions
    assert not unknown.success
    assert "intake.unknown" in unknown.message
    assert not is_started


def test_a_datasource_instance_says_where_it_enters(live, unique):
    live.apply(graph_text(unique))

    found = live.stub.GetDatasourceInstance(pb.GetDatasourceInstanceRequest(datasource_id=unique), timeout=120)
    missing = live.stub.GetDatasourceInstance(pb.GetDatasourceInstanceRequest(datasource_id="x"), timeout=120)

    assert found.found
    assert found.instance.entry_node_id == "first"
    assert found.instance.graph_id == f"{unique}-one"
    assert found.instance.graph_version == 1
    assert not missing.found
    assert missing.message


def test_a_new_version_is_used_under_load_and_nothing_is_lost(live, unique):
    live.apply(graph_text(unique))
    sent, failed, is_over = [], [], threading.Event()

    def send(thread):
        number = 0
        while not is_over.is_set():
            number += 1
            answer = live.hand_off(unique, f"doc-{thread}-{number}", key=f"{thread}-{number}")
            (sent if answer.accepted else failed).append(f"doc-{thread}-{number}")

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(sent) > 20)
    live.apply(graph_text(unique, {"second": "third"}))
    seen = len(sent)
    wait_until(lambda: len(sent) > seen + 20)
    is_over.set()
    for thread in threads:
        thread.join()
    before = read_topic(live.settings, f"pipestream.{unique}.second")
    after = read_topic(live.settings, f"pipestream.{unique}.third")

    assert not failed
    assert before
    assert after
    assert sorted(each.doc_id for each in (*before, *after)) == sorted(sent)
    assert {each.stream.metadata.history[0].graph_hash for each in before}.isdisjoint(
        each.stream.metadata.history[0].graph_hash for each in after
    )


def test_a_node_of_another_engine_is_processed_there_once_by_its_key(live, unique):
    with engine(live.settings, engine_name=f"{unique}-other") as other:
        remote = {f'second, module: "{STEPS}:pass_on"': f'second, module: "{STEPS}:pass_on", engine: "{other.address}"'}
        text = graph_text(unique, {**remote, "to: second}": "to: second, transport: grpc}"})
        graph = live.apply(text)
        other.wait_for(graph)

        first, second = (live.hand_off(unique, "doc-1", key="k") for _ in range(2))
        ended = read_topic(live.settings, f"pipestream.{unique}.happy-end")
        calls = other.stub.GetHealth(pb.GetHealthRequest(), timeout=120).kafka_status.total_messages_processed

    assert first == second
    assert [each.doc_id for each in ended] == ["doc-1"]
    assert [hop.node_id for hop in ended[0].stream.metadata.history] == ["first", "second"]
    assert calls == 1


def test_a_document_too_large_for_a_message_goes_to_another_engine_by_reference(live, unique):
    with engine(live.settings, engine_name=f"{unique}-other", grpc_max_message_bytes=20_000) as other:
        remote = {f'second, module: "{STEPS}:pass_on"': f'second, module: "{STEPS}:pass_on", engine: "{other.address}"'}
        graph = live.apply(graph_text(unique, {**remote, "to: second}": "to: second, transport: grpc}"}))
        other.wait_for(graph)
        with engine(live.settings, engine_name=f"{unique}-small", grpc_max_message_bytes=20_000) as small:
            # It takes the document by reference, too: its own limit is as small.
            key = f"documents/acme/{unique}/large.pb"
            with open_store(live.settings.store_uri, live.settings) as store:
                document = handoff(unique, "large", body="x" * 50_000).stream.document
                store.put(key, document.SerializeToString(deterministic=True))
            answer = small.hand_off(unique, "large", stream={"document_ref": {"doc_id": "large", "object_key": key}})
            (ended,) = read_topic(live.settings, f"pipestream.{unique}.happy-end")

    assert answer.accepted
    assert [hop.node_id for hop in ended.stream.metadata.history] == ["first", "second"]


def test_a_repeat_with_another_history_is_still_the_same_call(live, unique):
    live.apply(graph_text(unique))
    stream = at_node("first", "doc-1")
    stream.metadata.graph_id = f"{unique}-one"
    answers = []
    for instance in ("host:1", "host:2"):
        del stream.metadata.history[:]
        stream.metadata.history.add(hop_number=1, service_instance_id=instance)
        request = pb.ProcessNodeRequest(stream=stream)
        answers.append(live.stub.ProcessNode(request, timeout=120, metadata=[(IDEMPOTENCY_KEY, f"{unique}-h")]))

    assert answers[0] == answers[1]
    assert len(read_topic(live.settings, f"pipestream.{unique}.second")) == 1


def test_a_call_whose_time_is_over_is_not_accepted(live, unique):
    live.apply(graph_text(unique, {"fail_on_bad": "take_a_minute"}))

    with pytest.raises(grpc.RpcError) as failed:
        live.stub.IntakeHandoff(handoff(unique, "doc-1"), timeout=0.5)

    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    topics = [f"pipestream.{unique}.second", f"dlq.intake.{unique}", f"pipestream.{unique}.happy-end"]
    assert read_topic(live.settings, *topics) == []


def test_an_engine_that_stops_finishes_the_stream_in_progress(settings, unique):
    apply(settings, graph_text(unique))
    with engine(settings, engine_name=unique) as running:
        go_on = threading.Event()

        def requests():
            for number in range(5):
                yield pb.IntakeHandoffStreamRequest(handoff_id=str(number), request=handoff(unique, f"doc-{number}"))
            go_on.wait(120)

        answers = running.stub.IntakeHandoffStream(requests(), timeout=120)
        accepted = [next(answers) for _ in range(5)]
        stopped = running.stop()
        with pytest.raises(grpc.RpcError) as ended:
            next(answers)
        go_on.set()
        with pytest.raises(grpc.RpcError) as refused:
            running.hand_off(unique, "late", timeout_s=30)

    assert all(each.status == pb.IntakeHandoffStreamResponse.STATUS_ACCEPTED for each in accepted)
    assert stopped
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
