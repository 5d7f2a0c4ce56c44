"""Every way a document can take out of a node, on real topics."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from pipestream.dead_letters import Act, ActionRequest, run_action
from pipestream.engine.dead_letter_record import CONNECT
from pipestream.kafka.records import header
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack

STEPS = "python:pipestream_testing.steps"


@pytest.fixture
def make(settings, tmp_path, unique):
    """Make a pipeline of a graph's text; UNIQUE stands for the test's own name."""

    def pipeline(text, name="graph"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text.replace("UNIQUE", unique))
        made = Pipeline(settings, file)
        made.create_topics()
        return made

    return pipeline


def graph(body, name="UNIQUE"):
    # Records of any time are sent, and must not be too old for Kafka to keep.
    source = f"datasources: [{{id: {name}, account: acme, entry: first, retention_hours: 100000}}]"
    return f"graph: {name}\ncluster: {name}\n{source}\n{body}"


def test_a_document_crosses_to_another_cluster_by_its_bridge_topic(make, unique):
    here = make(
        graph(
            f"nodes: [{{id: first, module: '{STEPS}:pass_on'}}]\n"
            "edges: [{id: over, from: first, to: arrival, cluster: UNIQUE-b}]"
        )
    )
    there = make(
        "graph: UNIQUE-b\ncluster: UNIQUE-b\n"
        f"nodes: [{{id: arrival, module: '{STEPS}:pass_on', visibility: public}}]\n",
        name="there",
    )
    here.send(f"intake.{unique}", ["d1", "d2"])

    here.drain(f"intake.{unique}", "run-1")
    crossing = here.read(f"bridge.{unique}-b.arrival")
    report = there.drain(f"bridge.{unique}-b.arrival", "run-2")

    assert {(c.stream.cluster_id, c.stream.current_node_id) for c in crossing} == {(f"{unique}-b", "arrival")}
    assert report.documents_out == {"happy-end": 2}
    arrived = there.read(f"pipestream.{unique}-b.happy-end")
    assert sorted(letter.doc_id for letter in arrived) == ["d1", "d2"]
    assert {tuple(letter.stream.processing_path) for letter in arrived} == {("first", "arrival")}


def test_an_edge_with_a_topic_of_its_own_uses_that_topic(make, unique):
    pipeline = make(
        graph(
            f"nodes: [{{id: first, module: '{STEPS}:pass_on'}}, {{id: second, module: '{STEPS}:pass_on'}}]\n"
            "edges: [{from: first, to: second, topic: special.UNIQUE}]"
        )
    )
    pipeline.send(f"intake.{unique}", ["d1"])

    pipeline.drain(f"intake.{unique}", "run-1")
    pipeline.drain(f"special.{unique}", "run-2")

    assert pipeline.doc_ids(f"special.{unique}") == {"d1": 1}
    assert pipeline.doc_ids(f"pipestream.{unique}.happy-end") == {"d1": 1}


def test_several_documents_from_a_module_fan_out_to_every_matching_edge(make, unique):
    pipeline = make(
        graph(
            f"nodes: [{{id: first, module: '{STEPS}:split_in_three'}},"
            " {id: left, type: sink}, {id: right, type: sink}]\n"
            "edges: [{from: first, to: left}, {from: first, to: right, when: 'doc.doc_id.endsWith(\".1\")'}]"
        )
    )
    pipeline.send(f"intake.{unique}", ["d"])

    report = pipeline.drain(f"intake.{unique}", "run-1")

    assert report.documents_out == {"first--left": 3, "first--right": 1}
    assert pipeline.doc_ids(f"pipestream.{unique}.left") == {"d.0": 1, "d.1": 1, "d.2": 1}
    assert pipeline.doc_ids(f"pipestream.{unique}.right") == {"d.1": 1}
    streams = {
        letter.stream.stream_id for side in ("left", "right") for letter in pipeline.read(f"pipestream.{unique}.{side}")
    }
    assert len(streams) == 4


@pytest.mark.parametrize(
    ("module", "timeout_s", "error", "kind"),
    [
        pytest.param("pipestream_testing.modules:raising", 60, "ModuleFailed", "ValueError", id="a module that raises"),
        pytest.param(
            "pipestream_testing.modules:hanging",
            0.2,
            "ModuleTimeout",
            "ModuleTimeout",
            id="a module that hangs",
        ),
    ],
)
def test_a_document_that_fails_goes_to_the_error_end_that_the_graph_names(make, unique, module, timeout_s, error, kind):
    pipeline = make(
        graph(
            "error_end: failures\n"
            "nodes: [{id: failures, type: sink}, "
            f"{{id: first, module: 'python:{module}', timeout_s: {timeout_s}, dead_letters: {{max_attempts: 1}}}}]"
        )
    )
    pipeline.send(f"intake.{unique}", ["d1"])

    report = pipeline.drain(f"intake.{unique}", "run-1")

    assert report.documents_out == {"error-end": 1}
    (failed,) = pipeline.read(f"pipestream.{unique}.failures")
    assert failed.doc_id == "d1"
    assert failed.stream.metadata.stream_error.error_code == error
    assert failed.stream.metadata.stream_error.originating_node_id == "first"
    technical = json.loads(failed.stream.metadata.stream_error.technical_details)
    assert (technical["type"], technical["message"]) == (kind, failed.stream.metadata.stream_error.error_message)
    assert technical["traceback"]
    assert [(hop.node_id, hop.status) for hop in failed.stream.metadata.history] == [("first", "FAILED")]


def test_a_condition_that_errs_makes_a_dead_letter_that_names_the_edge(make, unique):
    pipeline = make(
        graph(
            f"nodes: [{{id: first, module: '{STEPS}:pass_on'}}, {{id: end, type: sink}}]\n"
            'edges: [{id: risky, from: first, to: end, when: \'doc.search_metadata.metadata["missing"] == "x"\'}]'
        )
    )
    pipeline.send(f"intake.{unique}", ["d1"])

    pipeline.drain(f"intake.{unique}", "run-1")

    (dead,) = pipeline.read(f"dlq.intake.{unique}")
    assert header(dead.record.headers, CONNECT + "exception.class.name") == "ConditionError"
    assert "risky" in header(dead.record.headers, CONNECT + "exception.message")


def test_a_cycle_ends_where_its_edge_allows_no_more_hops(make, unique):
    pipeline = make(
        graph(
            f"nodes: [{{id: first, module: '{STEPS}:pass_on'}}]\n"
            "edges: [{id: again, from: first, to: first, max_hops: 2}]"
        )
    )
    loop = f"pipestream.{unique}.first"
    pipeline.send(f"intake.{unique}", ["d1"])
    pipeline.drain(f"intake.{unique}", "run-0")

    reports = [pipeline.drain(loop, f"run-{number}") for number in (1, 2, 3)]

    assert [report.status for report in reports] == ["drained", "drained", "empty"]
    assert reports[0].documents_out == {"again": 1}
    assert reports[1].dead_letters == 1
    (dead,) = pipeline.read(f"dlq.{unique}.first")
    assert header(dead.record.headers, CONNECT + "exception.class.name") == "HopsExceeded"


def test_a_module_that_cannot_be_found_stops_the_run_before_any_dead_letter(make, unique):
    from pipestream.drain.range_task import RangeFailed

    pipeline = make(graph("nodes: [{id: first, module: 'python:nowhere.at_all:step'}]"))
    pipeline.send(f"intake.{unique}", ["d1"])

    with pytest.raises(RangeFailed, match=r"nowhere\.at_all") as caught:
        pipeline.drain(f"intake.{unique}", "run-1")

    assert not caught.value.transient
    assert pipeline.read(f"dlq.intake.{unique}") == []
    assert pipeline.entries(f"intake.{unique}") == []


def test_two_graphs_on_one_datasource_each_get_every_document(make, unique):
    body = "nodes: [{{id: {node}, module: '" + STEPS + ":pass_on'}}]\n"
    both = []
    for name in ("one", "two"):
        source = f"datasources: [{{id: UNIQUE, account: acme, entry: {name}}}]"
        both.append(make(f"graph: UNIQUE-{name}\ncluster: UNIQUE\n{source}\n" + body.format(node=name), name=name))
    both[0].send(f"intake.{unique}", ["d1", "d2"])

    reports = [each.drain(f"intake.{unique}", f"run-{number}") for number, each in enumerate(both)]

    assert [report.documents_out for report in reports] == [{"happy-end": 2}] * 2
    letters = both[0].read(f"pipestream.{unique}.happy-end")
    assert len({letter.stream.stream_id for letter in letters}) == 4


def test_a_replay_is_for_the_graph_the_document_failed_in(make, unique):
    intake, end = f"intake.{unique}", f"pipestream.{unique}.happy-end"
    sound, strict = (
        make(
            f"graph: UNIQUE-{name}\ncluster: UNIQUE\n"
            f"datasources: [{{id: UNIQUE, account: acme, entry: {name}}}]\n"
            f"nodes: [{{id: {name}, module: '{STEPS}:{module}'}}]\n",
            name=name,
        )
        for name, module in (("one", "pass_on"), ("two", "fail_on_bad"))
    )
    sound.send(intake, ["bad"])
    sound.drain(intake, "run-1")
    assert strict.drain(intake, "run-2").dead_letters == 1

    request = ActionRequest(Act.REPLAY, f"{unique}-again", (f"dlq.intake.{unique}",))
    assert run_action(request, sound.settings, [sound.graph, strict.graph]).sent == {intake: 1}
    passed_over, tried_again = sound.drain(intake, "run-3"), strict.drain(intake, "run-4")

    assert (passed_over.records, passed_over.documents_out) == (1, {})
    assert (tried_again.records, tried_again.dead_letters) == (1, 1)
    assert sound.doc_ids(end) == {"bad": 1}
    for pipeline in (sound, strict):
        pipeline.check_ledger_tiles(intake)


def test_a_node_that_wants_order_gets_records_of_all_partitions_by_time(make, unique):
    pipeline = make(
        graph(
            f"nodes: [{{id: first, module: '{STEPS}:pass_on', ordering: timestamp}},"
            " {id: end, type: sink, partitions: 1}]\n"
            "edges: [{from: first, to: end}]"
        )
    )
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for minute, partition in ((0, 0), (2, 1), (1, 0), (4, 1), (3, 0), (5, 1)):
        at = noon + timedelta(minutes=minute)
        pipeline.send(f"intake.{unique}", [f"m{minute}"], partition=partition, timestamp=at)

    report = pipeline.drain(f"intake.{unique}", "run-1")

    assert (report.ranges, report.records) == (2, 6)
    assert [letter.doc_id for letter in pipeline.read(f"pipestream.{unique}.end")] == [f"m{n}" for n in range(6)]
    pipeline.check_ledger_tiles(f"intake.{unique}")
