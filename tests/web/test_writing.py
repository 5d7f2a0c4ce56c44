"""What the API changes: state, graphs, dead letters. Each test leaves the pipeline as it found it."""

from __future__ import annotations

import pytest

from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


@pytest.fixture
def call(web, pipeline_id):
    """Call something of the pipeline as an administrator; it must have this status."""

    def call(method: str, path: str, body: object = None, status: int = 200):
        reply = web.call(method, f"/pipestream/api/pipelines/{pipeline_id}{path}", body)
        assert reply.status == status, reply
        return reply.json()

    return call


@pytest.fixture
def graph(call):
    """The graph's text and the version to start from."""
    shown = call("GET", "")
    return shown["yaml"], shown["pipeline"]["version"]


@pytest.fixture
def own_graph(web, unique):
    """A graph of the test's own: its id and its text."""
    return unique, (
        f"graph: {unique}\ncluster: {unique}\n"
        f"datasources: [{{id: {unique}, account: acme, entry: only}}]\nnodes: [{{id: only, type: connector}}]\n"
    )


def test_a_pipeline_is_stopped_scaled_and_started_again(call, pipeline_id):
    topic = f"intake.{pipeline_id}"

    stopped = call("PATCH", "/state", {"desired": "stopped", "replicas": 2, "topics": [topic]})
    slots = call("GET", f"/assignments?topic={topic}")
    started = call("PUT", "/state", {"desired": "started", "replicas": 1})

    assert (stopped["desired"], stopped["replicas"]) == ("mixed", None)
    assert next(each for each in stopped["topics"] if each["topic"] == topic)["replicas"] == 2
    assert [(each["slot"], each["holder"]) for each in slots["assignments"]] == [(0, ""), (1, "")]
    assert (started["desired"], started["replicas"], started["mode"]) == ("started", 1, "batch")
    assert (started["lease_store"], started["replicas_apply"], started["notice"]) == ("sql", True, "")


def test_a_problem_is_told_at_its_line_and_column(web, graph):
    text = graph[0].replace("module: python:pipestream_testing.steps:fail_on_bad", "modul: x")

    answer = web.call("POST", "/pipestream/api/pipelines/validate", text).json()

    problem = next(each for each in answer["problems"] if each["field"].endswith(".modul"))
    line = text.splitlines()[problem["line"] - 1]
    assert line[problem["column"] - 1 :].startswith("modul")
    assert not answer["valid"]
    assert "module" in problem["hint"]


def test_a_graph_is_created_edited_compared_and_rolled_back(web, own_graph):
    graph_id, text = own_graph
    place = f"/pipestream/api/pipelines/{graph_id}"
    changed = text.replace("{id: only, type: connector}", "{id: only, type: connector, timeout_s: 7}")

    created = web.call("POST", "/pipestream/api/pipelines", text)
    preview = web.call("POST", f"{place}/preview", changed).json()
    edited = web.call("PUT", f"{place}?base_version=1", changed).json()
    late = web.call("PUT", f"{place}?base_version=1", text)
    difference = web.call("GET", f"{place}/diff?from=1&to=2").json()
    rolled_back = web.call("POST", f"{place}/rollback", {"version": 1, "base_version": 2}).json()
    history = web.call("GET", f"{place}/history").json()

    assert created.status == 201
    assert created.json()["version"] == 1
    assert [change["field"] for change in preview["changes"]] == ["timeout_s"]
    assert edited["version"] == 2
    assert (late.status, "version 2 is active now" in late.json()["detail"]) == (409, True)
    assert [(change["kind"], change["what"], change["new"]) for change in difference] == [("+", "node only", 7)]
    assert rolled_back["version"] == 1
    assert [(each["version"], each["active"], each["applied_by"]) for each in history] == [
        (2, False, "admin"),
        (1, True, "admin"),
    ]
    assert web.call("POST", "/pipestream/api/pipelines", text).status == 409


def test_an_edit_writes_the_graph_file_if_asked_to(web, pipeline, own_graph):
    graph_id, text = own_graph
    file = pipeline.graph_file.with_name(f"{graph_id}.yaml")

    created = web.call("POST", "/pipestream/api/pipelines?write_file=true", f"# ours\n{text}")
    try:
        shown = web.get(f"/pipelines/{graph_id}")
        paused = web.call(
            "PATCH",
            f"/pipestream/api/pipelines/{graph_id}/datasources/{graph_id}?write_file=true",
            {"paused": True, "base_version": 1},
        )
        state = web.get(f"/pipelines/{graph_id}/state")
        written = file.read_text()
    finally:
        file.unlink()

    assert created.json()["file"] == file.name
    assert shown["yaml"].startswith("# ours")
    assert shown["pipeline"]["file"]["is_applied"]
    assert paused.status == 200
    assert state["datasources"] == [{"id": graph_id, "paused": True}]
    assert written == f"# ours\n{text}".replace(f"{{id: {graph_id},", f"{{id: {graph_id}, paused: true,", 1)


def test_a_file_that_differs_from_the_active_version_is_shown_and_kept(web, pipeline, own_graph):
    graph_id, text = own_graph
    place, file = f"/pipestream/api/pipelines/{graph_id}", pipeline.graph_file.with_name(f"{graph_id}.yaml")
    ahead = text.replace("type: connector", "type: connector, timeout_s: 7")
    web.call("POST", "/pipestream/api/pipelines?write_file=true", text)
    try:
        same = web.get(f"/pipelines/{graph_id}")
        file.write_text(ahead)
        shown = web.get(f"/pipelines/{graph_id}")
        pause = {"paused": True, "base_version": 1}
        paused = web.call("PATCH", f"{place}/datasources/{graph_id}?write_file=true", pause)
        kept = file.read_text()
        rolled_back = web.call("POST", f"{place}/rollback?write_file=true", {"version": 1, "base_version": 2}).json()
        after = web.get(f"/pipelines/{graph_id}")
    finally:
        file.unlink()

    assert (same["file_yaml"], shown["file_yaml"]) == ("", ahead)
    assert "timeout_s" not in shown["yaml"]
    assert paused.status == 200
    assert "timeout_s: 7" in kept
    assert "paused: true" in kept
    assert (rolled_back["version"], rolled_back["file"]) == (1, file.name)
    assert after["pipeline"]["file"]["is_applied"]


def test_a_stopped_pipeline_is_deleted_and_created_again(web, pipeline, own_graph):
    graph_id, text = own_graph
    place, file = f"/pipestream/api/pipelines/{graph_id}", pipeline.graph_file.with_name(f"{graph_id}.yaml")
    missing = web.call("DELETE", f"{place}?base_version=1")
    web.call("POST", "/pipestream/api/pipelines?write_file=true", text)
    pipeline.send(f"intake.{graph_id}", ["waits"])

    refused = web.call("DELETE", f"{place}?base_version=1&delete_file=true")
    web.call("PATCH", f"{place}/state", {"desired": "stopped"})
    late = web.call("DELETE", f"{place}?base_version=7&delete_file=true&leave_behind=true")
    kept = web.call("DELETE", f"{place}?base_version=1&leave_behind=true")
    deleted = web.call("DELETE", f"{place}?base_version=1&delete_file=true&leave_behind=true")
    listed = {each["id"] for each in web.get("/pipelines")["pipelines"]}
    history = web.get(f"/pipelines/{graph_id}/history")

    assert missing.status == 404
    assert (refused.status, late.status, kept.status) == (409, 409, 409)
    assert f"intake.{graph_id} is started" in refused.json()["detail"]
    assert f"records wait in intake.{graph_id} (1)" in refused.json()["detail"]
    assert f"from {file.name}" in kept.json()["detail"]
    assert (deleted.status, deleted.json()["waiting"]) == (200, {f"intake.{graph_id}": 1})
    assert deleted.json()["file"] == file.name
    assert not file.exists()
    assert graph_id not in listed
    assert web.call("GET", place).status == 404
    assert [(each["version"], each["active"]) for each in history] == [(1, False)]
    assert web.call("POST", f"{place}/rollback", {"version": 1, "base_version": 0}).json()["version"] == 1
    audit = web.call("GET", "/api/v2/eventLogs?event=pipestream_delete").json()
    assert audit["total_entries"] >= 5


@pytest.mark.parametrize(
    ("condition", "result", "error"),
    [
        ('doc.search_metadata.title == "a"', True, ""),
        ('doc.search_metadata.title == "b"', False, ""),
        ("int(doc.search_metadata.title) > 1", None, "a"),
    ],
)
def test_a_condition_is_tried_on_a_pasted_and_on_a_stored_document(call, condition, result, error):
    document = {"doc_id": "a", "search_metadata": {"title": "a"}}
    key = call("GET", "/documents/a")["objects"][0]["key"]

    pasted = call("POST", "/conditions/try", {"condition": condition, "sample": {"document": document}})
    stored = call("POST", "/conditions/try", {"condition": condition, "sample": {"doc_id": "a", "key": key}})

    assert pasted["result"] is result
    assert error in pasted["error"]
    assert stored == pasted


def test_a_condition_that_cannot_be_is_refused_with_its_place(call):
    tried = call("POST", "/conditions/try", {"condition": "doc.no_such", "sample": {"document": {}}})

    assert tried["result"] is None
    assert "no_such" in tried["problems"][0]


def test_mappings_are_previewed_on_samples(call):
    mapping = {"id": "m", "type": "transform", "from": ["search_metadata.title"], "to": ["search_metadata.body"]}
    samples = [{"document": {"doc_id": "a", "search_metadata": {"title": "Hello"}}}]

    done = call("POST", "/mappings/preview", {"mappings": [{**mapping, "rule": "uppercase"}], "samples": samples})
    wrong = call("POST", "/mappings/preview", {"mappings": [{**mapping, "rule": "no such"}], "samples": samples})

    assert done["results"][0]["after"]["search_metadata"]["body"] == "HELLO"
    assert "body" not in done["results"][0]["before"]["search_metadata"]
    assert wrong["problems"]


def test_the_route_of_a_document_is_explained(call):
    document = {"doc_id": "x", "search_metadata": {"title": "fused x"}}

    steps = call("POST", "/explain", {"sample": {"document": document}, "at": "first"})["steps"]

    matches = {edge["edge_id"]: edge["matches"] for edge in steps[0]["edges"]}
    assert matches == {"first--second": False, "first--fused": True}


def test_dead_letters_are_replayed_once_after_a_dry_run(call, unique):
    (group,) = call("GET", "/dead-letters/groups")["groups"]
    wanted = {"act": "quarantine", "fingerprints": [group["fingerprint"]], "action_id": unique}

    dry = call("POST", "/dead-letters/actions", wanted)
    untouched = call("GET", "/dead-letters")["total"]
    done = call("POST", "/dead-letters/actions", {**wanted, "dry_run": False})
    quarantined = call("GET", "/dead-letters?state=quarantined")["letters"]
    released = call("POST", "/dead-letters/actions", {"act": "release", "dry_run": False})
    replay = call("POST", "/dead-letters/actions", {"act": "replay"})
    actions = call("GET", "/dead-letters/actions")

    assert (dry["status"], dry["decided"], dry["by_node"]) == ("dry run", {"quarantined": 1}, {"second": 1})
    assert untouched == 1
    assert (done["status"], done["decided"]) == ("done", {"quarantined": 1})
    assert [letter["doc_id"] for letter in quarantined] == ["bad-one"]
    assert released["decided"] == {"released": 1}
    assert list(replay["sent"].values()) == [1]
    assert {(each["act"], each["by"], each["finished"]) for each in actions} >= {("quarantine", "admin", True)}


def test_a_refused_record_does_not_show_the_document_of_another_account_that_it_names(
    web, pipeline, own_graph, tmp_path
):
    graph_id, text = own_graph
    assert web.call("POST", "/pipestream/api/pipelines", text).status == 201
    file = tmp_path / "own.yaml"
    file.write_text(text)
    intruded = Pipeline(pipeline.settings, file)
    key = f"documents/rival-{graph_id}/source/theirs/{'0' * 64}.pb"
    stored = PipeDoc(doc_id="theirs")
    stored.search_metadata.title = "their secret"
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        store.put(key, stored.SerializeToString())
    record = PipeStream()
    record.document_ref.doc_id, record.document_ref.account_id = "theirs", f"rival-{graph_id}"
    record.document_ref.object_key = key
    intruded.send_streams(f"intake.{graph_id}", [record])
    intruded.drain(f"intake.{graph_id}", "run-1")

    place = f"/pipelines/{graph_id}/dead-letters"
    (letter,) = web.get(place)["letters"]
    reply = web.call("GET", f"/pipestream/api{place}/{letter['id']}", user="viewer")

    assert reply.status == 200
    assert reply.json()["document"] is None
    assert "account" in reply.json()["note"]
    assert "secret" not in reply.text


def test_a_changed_graph_is_compared_with_what_was_drained_and_nothing_changes(call, graph, pipeline):
    topics = [f"pipestream.{pipeline.graph.graph_id}.second", f"dlq.{pipeline.graph.graph_id}.second"]
    before = pipeline.read(*topics), pipeline.entries(f"intake.{pipeline.graph.graph_id}")
    changed = graph[0].replace('startsWith("fused")', 'startsWith("b")')

    found = call("POST", "/compare?documents=50", changed)

    routes = {each["doc_id"]: each["difference"] for each in found["documents"]}
    assert {"b", "bad-one", "fused-one"} <= routes.keys()
    assert "a" not in routes
    assert "failure" in routes["bad-one"]["kinds"]
    assert [leaf["edges"] for leaf in routes["b"]["before"]] == [["first--second"]]
    assert [leaf["edges"] for leaf in routes["b"]["after"]] == [["first--fused"]]
    assert found["failed_after"] < found["failed_before"]
    assert (pipeline.read(*topics), pipeline.entries(f"intake.{pipeline.graph.graph_id}")) == before


def test_a_replay_of_more_letters_than_allowed_is_refused_and_leads_to_the_approval_dag(call, pipeline_id):
    everything = {"act": "replay"}

    dry = call("POST", "/dead-letters/actions", everything)
    refused = call("POST", "/dead-letters/actions", {**everything, "dry_run": False}, status=409)

    assert dry["approval_dag"] == f"pipestream_{pipeline_id}.approve"
    assert f"start the DAG pipestream_{pipeline_id}.approve with the action replay" in refused["detail"]
    assert call("POST", "/dead-letters/actions", {"act": "quarantine"})["approval_dag"] == ""
    assert call("GET", "/dead-letters")["total"] == 1, "nothing was replayed"
