"""What the API shows of a pipeline through which documents have gone, in the real API server of Airflow."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.stack


@pytest.fixture
def read(web, pipeline_id):
    """Ask for something of the pipeline, as a viewer."""
    return lambda path="": web.get(f"/pipelines/{pipeline_id}{path}", user="viewer")


def test_the_list_says_where_each_pipeline_stands(web, pipeline_id):
    answer = web.get("/pipelines", user="viewer")

    row = next(row for row in answer["pipelines"] if row["id"] == pipeline_id)
    assert answer["unavailable"] == []
    assert (row["state"], row["mode"], row["drained_by"]) == ("started", "production", "batch")
    assert row["waiting"] == 1
    assert row["oldest_age_s"] > 0
    assert row["dead_letters"] == 1
    assert row["file"]["name"] == f"{pipeline_id}.yaml"
    assert row["dag_id"] == f"pipestream_{pipeline_id}"


def test_a_file_that_breaks_rules_is_a_row_of_its_own_and_stops_no_other(web, pipeline):
    broken = pipeline.graph_file.with_name("broken.yaml")
    broken.write_text("graph: broken\ncluster: c\nnodes: [{id: a, modul: x}]\n")
    try:
        rows = {row["id"]: row for row in web.get("/pipelines")["pipelines"]}
        shown = web.get("/pipelines/broken")
    finally:
        broken.unlink()

    assert rows["broken"]["state"] == "broken"
    assert "unknown key" in rows["broken"]["problems"][0]
    assert rows[pipeline.graph.graph_id]["problems"] == []
    assert (shown["picture"], shown["layout"]) == (None, None)
    assert shown["yaml"].startswith("graph: broken")


def test_a_pipeline_is_shown_with_its_parts_and_where_to_draw_them(read, pipeline_id):
    answer = read()

    parts = answer["picture"]
    assert answer["yaml"].startswith("# A chain")
    assert [node["id"] for node in parts["nodes"]] == ["first", "second", "fused", "happy-end"]
    assert {edge["id"]: edge["way"] for edge in parts["edges"]} == {"first--second": "node", "first--fused": "fused"}
    assert parts["datasources"][0]["topic"] == f"intake.{pipeline_id}"
    assert {box["node_id"] for box in answer["layout"]["boxes"]} >= {"first", "second", "fused"}
    assert all(line["path"].startswith("M") for line in answer["layout"]["lines"])


def test_numbers_say_what_waits_what_was_drained_and_what_failed(read):
    answer = read("/numbers")

    nodes = {node["id"]: node for node in answer["nodes"]}
    edges = {edge["id"]: edge["taken"] for edge in answer["edges"]}
    assert answer["unavailable"] == []
    assert (nodes["first"]["waiting"], nodes["first"]["records"]) == (1, 4)
    assert (nodes["second"]["waiting"], nodes["second"]["dead_letters"], nodes["second"]["failed"]) == (0, 1, 1)
    assert edges == {"first--second": 3, "first--fused": 1}


def test_the_ledger_is_shown_as_ranges_runs_and_series(read, pipeline_id):
    topic = f"intake.{pipeline_id}"

    page = read("/ledger/entries?limit=1")["page"]
    own = read(f"/ledger/entries?topic={topic}")["page"]["entries"]
    runs = {run["run_id"]: run for run in read("/ledger/runs")["runs"]}
    plots = read("/ledger/series?points=4")

    assert (len(page["entries"]), page["total"]) == (1, 2)
    assert [(entry["start"], entry["end"], entry["records"]) for entry in own] == [(0, 4, 4)]
    assert (runs["run-1"]["records"], runs["run-1"]["topics"]) == (4, [topic])
    series = {each["topic"]: each for each in plots["plots"]["series"]}
    assert sum(series[topic]["records"]) == 4
    assert series[topic]["backlog"][-1] == 1
    assert plots["unavailable"] == []
    assert read("/ledger/gaps") == {"faults": []}


def test_the_documents_that_came_in_last_are_listed_newest_first(read, pipeline_id):
    found = read("/documents?limit=3")["documents"]

    assert len(found) == 3
    assert (found[0]["doc_id"], found[0]["datasource"]) == ("waiting", pipeline_id)
    assert found == sorted(found, key=lambda each: each["arrived_at"], reverse=True)


def test_the_receipt_of_a_document_has_its_ranges_hops_and_objects(read, pipeline_id):
    receipt = read("/documents/a")

    records = {record["topic"]: record for record in receipt["records"]}
    (drained,) = records[f"intake.{pipeline_id}"]["ranges"]
    assert receipt["complete"], receipt["note"]
    assert [record["kind"] for record in receipt["records"]] == ["intake", "node", "end"]
    assert (drained["run_id"], drained["graph_version"], drained["start"]) == ("run-1", 1, 0)
    assert drained["transactional_id"]
    assert records[f"pipestream.{pipeline_id}.second"]["edge"] == "first--second"
    assert [(hop["node"], hop["status"], hop["graph_version"]) for hop in receipt["hops"]] == [
        ("first", "SUCCESS", 1),
        ("second", "SUCCESS", 1),
    ]
    assert [each["node"] for each in receipt["objects"]] == ["first", "second"]
    assert receipt["dead_letters"] == []


def test_what_is_stored_of_a_document_is_shown_and_nothing_of_another_one(web, read, pipeline_id):
    key = read("/documents/a")["objects"][0]["key"]

    stored = read(f"/documents/a/stored?key={key}")
    foreign = web.call("GET", f"/pipestream/api/pipelines/{pipeline_id}/documents/b/stored?key={key}")

    assert stored["document"]["doc_id"] == "a"
    assert not stored["truncated"]
    assert foreign.status == 404


def test_the_receipt_of_a_failed_document_has_its_dead_letter(read):
    receipt = read("/documents/bad-one")

    (letter,) = receipt["dead_letters"]
    assert letter["node"] == "second"
    assert letter["state"] == "open"
    assert receipt["hops"][-1]["node"] == "first"


def test_a_document_that_nobody_knows_has_an_empty_receipt(read):
    receipt = read("/documents/nobody")

    assert (receipt["records"], receipt["hops"], receipt["objects"]) == ([], [], [])


def test_dead_letters_are_grouped_and_shown_with_document_and_error(read):
    groups = read("/dead-letters/groups")
    (group,) = groups["groups"]
    page = read(f"/dead-letters?fingerprint={group['fingerprint']}")
    detail = read(f"/dead-letters/{group['example']}")

    assert (group["count"], group["node"], groups["complete"]) == (1, "second", True)
    assert [letter["doc_id"] for letter in page["letters"]] == ["bad-one"]
    assert detail["document"]["document"]["doc_id"] == "bad-one"
    assert detail["letter"]["message"]
    assert read("/dead-letters?node=first")["total"] == 0


def test_metrics_are_computed_when_asked(web, pipeline_id):
    reply = web.call("GET", "/pipestream/metrics", user="viewer")

    assert reply.status == 200
    assert f'pipestream_topic_lag_records{{graph="{pipeline_id}",topic="intake.{pipeline_id}"}} 1.0' in reply.text
    assert (
        f'pipestream_drained_records_total{{graph="{pipeline_id}",lane="live",topic="intake.{pipeline_id}"}}'
        in reply.text
    )
    assert "pipestream_standing_up 1.0" in reply.text


def test_no_answer_has_a_secret_of_the_settings(web, pipeline, pipeline_id):
    secret = pipeline.settings.postgres_dsn.get_secret_value().split("@")[0].split(":")[-1]
    s3 = pipeline.settings.s3_secret_key.get_secret_value()
    paths = ["", "/numbers", "/state", "/assignments", "/history", "/ledger/entries", "/documents/a", "/dead-letters"]

    text = json.dumps([web.get(f"/pipelines/{pipeline_id}{path}") for path in paths] + [web.get("/pipelines")])

    assert len(secret) > 8
    assert secret not in text
    assert s3 not in text
