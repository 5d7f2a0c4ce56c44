"""Which datasets a drain or an ingestion read and wrote, named as OpenLineage's naming rules ask. Pure.

A topic is ``kafka://HOST:PORT`` and its name, with the first bootstrap server. An object store or a ledger on S3 is
``s3://BUCKET`` and the prefix, in a folder ``file`` and the path.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipestream.graph.flow import destination_of
from pipestream.topic_names import (
    datasource_of,
    dead_letter_topic,
    intake_dead_letter_topic,
    intake_topic,
    is_intake,
    node_topic,
)

if TYPE_CHECKING:
    from pipestream.connectors.report import IngestReport
    from pipestream.drain.report import DrainReport
    from pipestream.graph.model import Datasource, Graph
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class DatasetUse:
    """A dataset that was read or written, and how much of it."""

    namespace: str
    name: str
    records: int | None = None
    """None where nobody counted."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What was read and what was written."""

    inputs: tuple[DatasetUse, ...]
    outputs: tuple[DatasetUse, ...]


def drain_lineage(report: DrainReport, graph: Graph, node_id: str, settings: Settings) -> Lineage:
    """Return what a drain read and wrote.

    :param node_id: the node that the drained topic leads to.
    """
    written: Counter[str] = Counter()
    for edge in graph.edges:
        if count := report.documents_out.get(edge.edge_id, 0):
            written[destination_of(edge, graph).topic] += count
    for end in (graph.happy_end, graph.error_end):
        if count := report.documents_out.get(end, 0):
            written[node_topic(graph.cluster_id, end)] += count
    outputs = [topic_dataset(topic, settings, count) for topic, count in sorted(written.items()) if topic]
    if report.dead_letters:
        # Not counted: the letters of nodes that ran in the same task are in topics of their own.
        letters = (
            intake_dead_letter_topic(datasource_of(report.topic))
            if is_intake(report.topic)
            else dead_letter_topic(graph.cluster_id, node_id)
        )
        outputs.append(topic_dataset(letters, settings))
    outputs.append(place_dataset(settings.store_uri))
    outputs.append(place_dataset(settings.ledger_uri, report.ranges + report.recovered_ranges))
    inputs = (topic_dataset(report.topic, settings, report.records), place_dataset(settings.store_uri))
    return Lineage(inputs, tuple(outputs))


def ingest_lineage(report: IngestReport, datasource: Datasource, settings: Settings) -> Lineage:
    """Return what an ingestion read and wrote. A source that has no place, such as a feed, is left out."""
    outputs = (
        topic_dataset(intake_topic(datasource.datasource_id), settings, report.published),
        place_dataset(settings.store_uri, report.new + report.changed),
    )
    source = _source(datasource, settings)
    inputs = (DatasetUse(source.namespace, source.name, report.documents),) if source else ()
    return Lineage(inputs, outputs)


def topic_dataset(topic: str, settings: Settings, records: int | None = None) -> DatasetUse:
    server = settings.kafka_bootstrap.partition(",")[0].strip().rpartition("://")[2]
    return DatasetUse(f"kafka://{server}", topic, records)


def place_dataset(uri: str, records: int | None = None) -> DatasetUse:
    """Return the dataset of a folder or of a prefix in a bucket.

    :param uri: ``s3://BUCKET[/PREFIX]`` or ``file://FOLDER``, as in the settings.
    """
    if uri.startswith("s3://"):
        place = urlsplit(uri)
        return DatasetUse(f"s3://{place.netloc}", place.path.strip("/") or "/", records)
    return DatasetUse("file", str(Path(uri.removeprefix("file://")).absolute()), records)


def _source(datasource: Datasource, settings: Settings) -> DatasetUse | None:
    connector = datasource.connector
    options = connector.options if connector else {}
    if connector and connector.kind == "s3":
        return place_dataset(f"s3://{options['bucket']}/{options.get('prefix', '')}")
    if connector and connector.kind == "folder":
        return place_dataset(f"file://{settings.sources_folder / str(options['path'])}")
    return None
