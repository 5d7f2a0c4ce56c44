from __future__ import annotations

import json
from textwrap import dedent

import pytest

from pipestream.graph.load import from_binary, from_json, load_graph

GRAPH = """\
graph: letters
cluster: main
datasources:
  - id: mail
    account: acme
    entry: sort
nodes:
  - id: sort
    type: connector
  - id: read
    module: python:pipestream_testing.steps:pass_on
edges:
  - id: texts
    from: sort
    to: read
    when: doc.search_metadata.mime_type == "text/plain"
"""


@pytest.fixture
def graph_file(tmp_path):
    file = tmp_path / "letters.yaml"
    file.write_text(GRAPH)
    return file


def test_a_valid_graph_is_confirmed(run, graph_file):
    ran = run("graph", "validate", graph_file)

    assert ran.code == 0
    assert f"{graph_file}: valid (graph letters, 2 nodes, 1 edge)" in ran.out


def test_a_folder_of_graphs_is_validated(run, graph_file):
    ran = run("graph", "validate", graph_file.parent, "--json")

    assert ran.code == 0
    assert json.loads(ran.out) == {"valid": True, "files": [str(graph_file)], "problems": [], "warnings": []}


def test_every_problem_is_shown_with_its_place(run, graph_file):
    graph_file.write_text(GRAPH.replace("to: read", "to: reed").replace("mime_type ==", "mime_typo =="))

    ran = run("graph", "validate", graph_file, "--json")
    found = json.loads(ran.out)

    assert ran.code == 2
    assert not found["valid"]
    assert {problem["line"] for problem in found["problems"]} == {15, 16}
    assert any("did you mean read?" in problem["hint"] for problem in found["problems"])


def test_graphs_that_do_not_go_together_are_refused(run, graph_file):
    other = graph_file.with_name("other.yaml")
    other.write_text(GRAPH)

    ran = run("graph", "validate", graph_file, other)

    assert ran.code == 2
    assert "letters" in ran.out


def test_an_empty_folder_has_nothing_to_validate(run, tmp_path):
    assert run("graph", "validate", tmp_path).code == 2


def test_a_graph_is_drawn_in_the_terminal_and_to_files(run, graph_file, tmp_path):
    ran = run("graph", "show", graph_file, "--svg", tmp_path / "g.svg", "--mermaid", tmp_path / "g.mmd", "--edges")

    assert ran.code == 0
    assert "intake.mail" in ran.out
    assert (tmp_path / "g.svg").read_text().startswith("<svg")
    assert (tmp_path / "g.mmd").read_text().startswith("flowchart")


def test_a_picture_that_cannot_be_written_is_an_error_of_ours(run, graph_file, tmp_path):
    ran = run("graph", "show", graph_file, "--svg", tmp_path / "missing" / "g.svg")

    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_a_missing_graph_file_is_reported(run, tmp_path):
    ran = run("graph", "show", tmp_path / "nowhere.yaml")

    assert ran.code == 2
    assert "nowhere.yaml: file: cannot be read" in ran.err


def test_the_way_of_a_document_is_explained(run, graph_file, tmp_path):
    (tmp_path / "note[1].txt").write_text("Hello")

    ran = run("graph", "explain", graph_file, tmp_path / "note[1].txt", "--json")
    first = json.loads(ran.out)["steps"][0]

    assert ran.code == 0
    assert first["node_id"] == "sort"
    assert [(edge["edge_id"], edge["matches"]) for edge in first["edges"]] == [("texts", True)]


def test_an_explanation_says_before_all_else_that_modules_are_not_run(run, graph_file, tmp_path):
    (tmp_path / "note.txt").write_text("Hello")

    from_the_start = run("graph", "explain", graph_file, tmp_path / "note.txt")
    at_a_node = run("graph", "explain", graph_file, tmp_path / "note.txt", "--at", "read")

    assert from_the_start.out.splitlines()[1].startswith("note: modules are not run")
    assert "(hop 2, from step 1, without python:pipestream_testing.steps:pass_on)" in from_the_start.out
    assert "--at NODE" in from_the_start.err
    assert "1. read (hop 1" in at_a_node.out
    assert at_a_node.err == ""


def test_a_document_that_is_not_there_cannot_be_explained(run, graph_file):
    ran = run("graph", "explain", graph_file, "nothing.txt")

    assert ran.code == 2
    assert "nothing.txt is not a file" in ran.err


def test_explaining_from_an_unknown_node_names_the_known_ones(run, graph_file):
    ran = run("graph", "explain", graph_file, graph_file, "--at", "reed")

    assert ran.code == 2
    assert "no node 'reed'; it has: sort, read" in ran.err


def test_an_exported_graph_is_the_same_graph(run, graph_file, tmp_path):
    graph = load_graph(graph_file)

    as_json = run("graph", "export", graph_file)
    run("graph", "export", graph_file, "--format", "binary", "--output", tmp_path / "g.pb")

    assert from_json(as_json.out) == graph
    assert from_binary((tmp_path / "g.pb").read_bytes()) == graph


@pytest.mark.parametrize("format_", ["json", "binary"])
def test_an_imported_graph_is_the_one_that_was_exported(run, graph_file, tmp_path, format_):
    run("graph", "export", graph_file, "--format", format_, "--output", tmp_path / "message")

    printed = run("graph", "import", tmp_path / "message")
    written = run("graph", "import", tmp_path / "message", "--output", tmp_path / "again.yaml")

    assert (printed.code, written.code) == (0, 0)
    assert load_graph(tmp_path / "again.yaml") == load_graph(graph_file)
    assert (tmp_path / "again.yaml").read_text() == printed.out


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"no message", "these bytes are not a PipelineGraph"), (b"{", "not a PipelineGraph in JSON"), (b"", "graph")],
)
def test_what_is_not_a_message_cannot_be_imported(run, tmp_path, content, reason):
    (tmp_path / "message").write_bytes(content)

    ran = run("graph", "import", tmp_path / "message")

    assert ran.code == 2
    assert reason in ran.err


def test_the_schema_is_json(run):
    assert json.loads(run("graph", "schema").out)["title"] == "Pipestream graph"


def test_an_unknown_datasource_names_the_known_ones(run, graph_file):
    ran = run("ingest", "--graph", graph_file, "--datasource", "male")

    assert ran.code == 2
    assert "graph letters has no datasource 'male'; it has: mail" in ran.err


def test_an_empty_ledger_has_no_entries(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_LEDGER_URI", (tmp_path / "ledger").as_uri())

    assert run("ledger", "heads").out == "the ledger has no entries yet\n"
    assert run("ledger", "entries").out == "no entries\n"
    assert json.loads(run("ledger", "plans", "--json").out) == []


def test_a_graph_with_a_bad_condition_shows_no_traceback(run, graph_file):
    graph_file.write_text(dedent(GRAPH).replace('== "text/plain"', "=="))

    ran = run("graph", "show", graph_file)

    assert ran.code == 2
    assert "letters.yaml:16" in ran.err
