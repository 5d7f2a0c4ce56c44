"""How many documents per second and core the conditions of five typical edges take, and what a large body adds."""

from __future__ import annotations

import time

import pytest
from cel_expr_python import cel
from google.protobuf import descriptor_pool

from pipestream.engine.graph_conditions import compile_conditions
from pipestream.graph.model import Edge, Graph, Node
from pipestream.routing.engine import CONTAINER
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.bench import sized

pytestmark = pytest.mark.slow

DOCUMENTS = sized(5_000, 1_000)
ROUNDS = sized(5, 3)
CONDITIONS = (
    'doc.search_metadata.document_type == "PDF"',
    "doc.blob_bag.blob.size_bytes > 10000000",
    'doc.search_metadata.source_uri.startsWith("s3://sensitive-bucket/")',
    '"legal" in doc.search_metadata.tags.tag_data',
    'doc.search_metadata.mime_type == "application/pdf" && doc.search_metadata.content_length > 1000000',
)


def typical_graph() -> Graph:
    ends = tuple(Node(f"end-{number}", "main") for number in range(len(CONDITIONS)))
    edges = tuple(
        Edge(f"edge-{number}", "start", f"end-{number}", condition=condition, priority=number)
        for number, condition in enumerate(CONDITIONS)
    )
    return Graph("bench", "main", nodes=(Node("start", "main"), *ends), edges=edges)


def typical_document(size_bytes: int) -> PipeDoc:
    document = PipeDoc(doc_id="doc-1")
    metadata = document.search_metadata
    metadata.title, metadata.document_type, metadata.mime_type = "A report", "PDF", "application/pdf"
    metadata.source_uri, metadata.content_length = "s3://sensitive-bucket/report.pdf", 2_000_000
    metadata.body = "x" * size_bytes
    metadata.tags.tag_data.update({"legal": "yes", "region": "eu"})
    metadata.keywords.keyword.extend(f"keyword-{number}" for number in range(20))
    document.blob_bag.blob.data = b"x" * size_bytes
    document.blob_bag.blob.size_bytes = size_bytes
    return document


def documents_per_s(engine: str, document: PipeDoc, count: int) -> float:
    """Return what one core does, in CPU time: however busy the machine is."""
    conditions = compile_conditions(typical_graph(), engine)
    stream = PipeStream(stream_id="stream-1", cluster_id="main")
    start = time.process_time()
    for _ in range(count):
        matched = conditions.matching_edges("start", conditions.activation(stream, document))
    rate = count / (time.process_time() - start)
    assert len(matched) >= 4
    return rate


def bare_documents_per_s(document: PipeDoc, count: int) -> float:
    """Return what the engine does if nobody stands around it: bind the document as it is, evaluate each condition."""
    environment = cel.NewEnv(
        descriptor_pool=descriptor_pool.Default(),
        variables={"doc": cel.Type(PipeDoc.DESCRIPTOR.full_name)},
        container=CONTAINER,
    )
    programs = [environment.compile(condition) for condition in CONDITIONS]
    start = time.process_time()
    for _ in range(count):
        bound = environment.Activation({"doc": document})
        found = [program.eval(bound).value() for program in programs]
    rate = count / (time.process_time() - start)
    assert found.count(True) >= 4
    return rate


def test_documents_per_second_over_five_edges(scenario):
    made = scenario("conditions", "Evaluate the conditions of five edges, per core")
    document = typical_document(1_000)
    made.compare(
        "documents per core second",
        {
            "pipestream": lambda: documents_per_s("cel-expr", document, DOCUMENTS),
            "the bare CEL engine": lambda: bare_documents_per_s(document, DOCUMENTS),
            "pipestream, celpy": lambda: documents_per_s("celpy", document, DOCUMENTS // 10),
        },
        ROUNDS,
        ours="pipestream",
    )
    for label, size_bytes in (("100 KB", 100_000), ("10 MB", 10_000_000)):
        made.add(
            f"pipestream, body of {label}",
            "documents per core second",
            *(documents_per_s("cel-expr", typical_document(size_bytes), DOCUMENTS) for _ in range(ROUNDS)),
        )
    made.want_ratio("of the bare engine", "pipestream", "the bare CEL engine", at_least=0.8)
