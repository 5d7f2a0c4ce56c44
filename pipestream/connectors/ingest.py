"""Ingest a datasource's documents through its connector."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipestream.connectors.connector import Unreadable
from pipestream.connectors.registry import make_connector
from pipestream.documents.repository import Repository
from pipestream.errors import RequestInvalid
from pipestream.plugins import PluginContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipestream.connectors.connector import Connector
    from pipestream.errors import IdInvalid
    from pipestream.graph.model import Datasource, Graph
    from pipestream.settings import Settings
    from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)


@dataclass(slots=True)
class IngestReport:
    """What one ingestion did."""

    datasource_id: str
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    published: int = 0
    """Published references, including those that an earlier, interrupted ingestion had left."""
    failed: list[Unreadable] = field(default_factory=list)
    skipped: str = ""
    """Why the ingestion was skipped; empty if it was not."""

    @property
    def documents(self) -> int:
        return self.new + self.changed + self.unchanged


def find_datasource(graph: Graph, datasource_id: str) -> Datasource:
    """Return a datasource of a graph.

    :raises RequestInvalid: it has none of that id.
    """
    found = graph.datasource_by_id.get(datasource_id)
    if found is None:
        known = ", ".join(sorted(graph.datasource_by_id)) or "none"
        raise RequestInvalid(f"graph {graph.graph_id} has no datasource {datasource_id!r}; it has: {known}")
    return found


def ingest(
    settings: Settings,
    datasource: Datasource,
    connector: Connector | None = None,
    *,
    force: bool = False,
    progress: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """Upload everything that a connector finds; the datasource's own connector unless another is given.

    Documents that cannot be read are reported, and do not stop the others.

    :param force: publish also documents that are unchanged and published already.
    :param progress: called now and then with the report so far.
    :raises RequestInvalid: the datasource has no connector.
    :raises ConnectorInvalid: its connector cannot be made.
    :raises SourceUnreadable: its source as a whole cannot be read.
    :raises TopicMissing: the datasource has no intake topic: apply its graph first.
    :raises TransientError: a server did not answer; run it again, and it resumes.
    """
    if connector is None:
        if datasource.connector is None:
            raise RequestInvalid(
                f"datasource {datasource.datasource_id} has no connector; add one to the graph, or name a folder"
            )
        connector = make_connector(datasource.connector, PluginContext(settings))
    report = IngestReport(datasource.datasource_id)
    with Repository(settings) as repository:
        report.published = repository.publish_pending(datasource)
        found = _readable(connector, report)
        for upload in repository.upload_many(found, datasource, force=force, refused=_note_in(report)):
            setattr(report, upload.outcome, getattr(report, upload.outcome) + 1)
            report.published += upload.published
            if progress is not None and report.documents % 100 == 0:
                progress(report)
    if progress is not None:
        progress(report)
    for failure in report.failed:
        log.warning("%s: %s: %s", datasource.datasource_id, failure.source, failure.reason)
    return report


def _readable(connector: Connector, report: IngestReport) -> Iterator[PipeDoc]:
    for item in connector.documents():
        if isinstance(item, Unreadable):
            report.failed.append(item)
        else:
            yield item


def _note_in(report: IngestReport) -> Callable[[PipeDoc, IdInvalid], None]:
    def note(document: PipeDoc, error: IdInvalid) -> None:
        source = document.search_metadata.source_path or document.doc_id or "a document without a name"
        report.failed.append(Unreadable(source, str(error)))

    return note
