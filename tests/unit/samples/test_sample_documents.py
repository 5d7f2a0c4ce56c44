from __future__ import annotations

from pathlib import Path

import pytest

from pipestream.connectors.folder import FolderConnector
from pipestream.engine.graph_conditions import compile_conditions
from pipestream.errors import ModuleFailed
from pipestream.graph.load import load_graph
from pipestream.graph.model import Transport
from pipestream.modules.module import Answer, ModuleContext
from pipestream.modules.resolve import resolve_module
from pipestream.samples.generate import write_sample_documents
from pipestream.wire import PipeStream

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("samples")
    write_sample_documents(made)
    return made


@pytest.fixture(scope="module")
def graph():
    return load_graph(ROOT / "dags" / "graphs" / "sample.yaml")


@pytest.fixture(scope="module")
def conditions(graph):
    return compile_conditions(graph, "cel-expr")


def contents(folder: Path) -> dict[str, tuple[bytes, float]]:
    return {
        file.relative_to(folder).as_posix(): (file.read_bytes(), file.stat().st_mtime)
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_the_same_seed_writes_the_same_files_with_the_same_times(folder, tmp_path):
    write_sample_documents(tmp_path)

    assert contents(tmp_path) == contents(folder)


def test_another_seed_writes_other_files(folder, tmp_path):
    write_sample_documents(tmp_path, seed=8)

    assert contents(tmp_path).keys() == contents(folder).keys()
    assert contents(tmp_path) != contents(folder)


def test_the_report_says_what_was_written(tmp_path):
    report = write_sample_documents(tmp_path, count=50)

    assert len(contents(tmp_path)) == report.documents == sum(report.by_kind.values()) == 50
    assert sum(name.startswith("broken/") for name in contents(tmp_path)) == report.broken == 10


def test_there_are_hundreds_of_different_documents_of_nine_kinds(folder):
    files = contents(folder)

    assert len({data for data, _ in files.values()}) == len(files) == 240
    assert {name.rpartition(".")[2] for name in files} == {
        *("html", "csv", "json", "md", "txt", "eml", "pdf", "docx", "xlsx")
    }


def test_a_count_without_room_for_every_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="count must be at least 19, not 18"):
        write_sample_documents(tmp_path, count=18)


@pytest.fixture(scope="module")
def modules(graph):
    """The modules of the graph; that of PDF and Office files runs in processes of its own."""
    opened = {node.node_id: resolve_module(node.module) for node in graph.nodes}
    yield opened
    for module in opened.values():
        module.close()


def carry(graph, conditions, modules, document):
    """Take a document through the graph's nodes; return it and the nodes it passed."""
    node_id, path = graph.datasources[0].entry_node_id, []
    while True:
        node = graph.node_by_id[node_id]
        path.append(node_id)
        context = ModuleContext("sample", node_id, "s", config=node.config)
        answered = modules[node_id].process(document, context)
        (document,) = answered.documents if isinstance(answered, Answer) else answered
        matching = conditions.matching_edges(node_id, conditions.activation(PipeStream(), document))
        if not matching:
            return document, path
        assert len(matching) == 1, f"{document.doc_id} would end more than once"
        node_id = matching[0].to_node_id


def test_every_good_document_takes_exactly_one_way_through_the_sample_graph(graph, conditions, modules, folder):
    ways = set()
    for document in FolderConnector(folder).documents():
        if not document.search_metadata.source_path.startswith("broken/"):
            enriched, path = carry(graph, conditions, modules, document)
            ways.add(tuple(path))
            assert enriched.search_metadata.body
            assert enriched.search_metadata.title
            assert enriched.search_metadata.language in {"en", "de", "fr", "es"}
            assert enriched.search_metadata.keywords.keyword

    assert ways == {
        ("triage", parse, "enrich") for parse in ("parse-markup", "parse-data", "parse-office", "parse-text")
    }


def test_every_broken_document_fails_for_a_reason_of_its_own(graph, conditions, modules, folder):
    reasons = {}
    for document in FolderConnector(folder / "broken").documents():
        with pytest.raises(ModuleFailed) as caught:
            carry(graph, conditions, modules, document)
        reasons[document.search_metadata.source_path] = str(caught.value)

    assert len(set(reasons.values())) == len(reasons) == 10


def test_the_sample_graph_shows_kafka_and_fused_edges(graph):
    transports = {edge.edge_id: edge.transport for edge in graph.edges}

    assert transports.pop("text") is Transport.GRPC
    assert set(transports.values()) == {Transport.KAFKA}
