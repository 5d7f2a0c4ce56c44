"""What a drain and an ingestion tell of their datasets, by OpenLineage's rules for names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipestream.connectors.report import IngestReport
from pipestream.drain.report import DrainReport
from pipestream.graph.load import check_graph_text
from pipestream.ledger import Tally
from pipestream.settings import Settings
from pipestream.views.lineage import DatasetUse, drain_lineage, ingest_lineage, place_dataset

KAFKA = "kafka://broker:9092"
GRAPH = """
graph: sample
cluster: main
datasources:
  - {id: files, account: acme, entry: parse, connector: CONNECTOR}
nodes:
  - {id: parse, module: "python:pipestream_testing.steps:pass_on"}
  - {id: fused, module: "python:pipestream_testing.steps:pass_on"}
  - {id: index, module: "python:pipestream_testing.steps:pass_on"}
edges:
  - {from: parse, to: index}
  - {from: parse, to: fused, transport: grpc}
"""


def make_graph(connector: str = "{kind: folder, path: in}"):
    return check_graph_text(GRAPH.replace("CONNECTOR", connector).encode(), "sample.yaml").graph


@pytest.fixture
def settings() -> Settings:
    return Settings(
        kafka_bootstrap="broker:9092, other:9092",
        store_uri="s3://documents/deep/er",
        ledger_uri="s3://ledger",
        sources_folder=Path("/sources"),
    )


def test_a_drain_reads_its_topic_and_writes_topics_objects_and_the_ledger(settings):
    tally = Tally(records=10, documents_out={"parse--index": 7, "parse--fused": 2}, dead_letters=1)

    found = drain_lineage(
        DrainReport("drained", "intake.files", ranges=2, tally=tally), make_graph(), "parse", settings
    )

    assert found.inputs == (DatasetUse(KAFKA, "intake.files", 10), DatasetUse("s3://documents", "deep/er"))
    assert found.outputs == (
        DatasetUse(KAFKA, "pipestream.main.index", 7),
        DatasetUse(KAFKA, "dlq.intake.files"),
        DatasetUse("s3://documents", "deep/er"),
        DatasetUse("s3://ledger", "/", 2),
    )


@pytest.mark.parametrize(
    ("connector", "source"),
    [
        ("{kind: folder, path: in}", DatasetUse("file", "/sources/in", 5)),
        ("{kind: s3, bucket: incoming, prefix: a/b}", DatasetUse("s3://incoming", "a/b", 5)),
    ],
)
def test_an_ingestion_reads_its_source_and_writes_the_intake_topic_and_objects(settings, connector, source):
    report = IngestReport("files", new=2, changed=1, unchanged=2, published=3)

    found = ingest_lineage(report, make_graph(connector).datasources[0], settings)

    assert found.inputs == (source,)
    assert found.outputs == (DatasetUse(KAFKA, "intake.files", 3), DatasetUse("s3://documents", "deep/er", 3))


def test_a_source_without_a_place_is_left_out(settings):
    connector = '{kind: feed, url: "https://example.org/feed.xml"}'

    assert ingest_lineage(IngestReport("files"), make_graph(connector).datasources[0], settings).inputs == ()


def test_a_folder_is_named_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert place_dataset("file://ledger") == DatasetUse("file", str(tmp_path / "ledger"))
