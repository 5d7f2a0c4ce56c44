"""Ingest a datasource's documents through its connector."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipestream import faults
from pipestream.connectors.connector import IncrementalConnector, LeftOut, NoMemory, Seen, Unreadable
from pipestream.connectors.registry import make_connector
from pipestream.connectors.report import IngestReport
from pipestream.documents.repository import Repository
from pipestream.errors import RequestInvalid
from pipestream.plugins import PluginContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pipestream.connectors.connector import Connector, Found
    from pipestream.documents.memory import ConnectorMemory
    from pipestream.errors import IdInvalid
    from pipestream.graph.model import Datasource, Graph
    from pipestream.settings import Settings
    from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)

_PROGRESS_DOCUMENTS = 100
_PROGRESS_LEFT_OUT = 10_000
# One statement for many states: a source of small files brings a state with each document.
_STATES_AT_ONCE = 500


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
    connector: Connector | IncrementalConnector | None = None,
    *,
    force: bool = False,
    progress: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """Upload everything that a connector finds; the datasource's own connector unless another is given.

    Documents that cannot be read are reported, and do not stop the others.

    :param force: look also at what earlier runs have seen, and publish also documents that are published already.
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
        if isinstance(connector, IncrementalConnector):
            memory = repository.memory(datasource, connector.scope)
            found = connector.changes(NoMemory() if force else memory)
            run = _Run(report, memory, connector.max_documents, progress)
            run.take(repository, datasource, found, force)
            memory.forget_other_scopes()
        else:
            _Run(report, None, 0, progress).take(repository, datasource, connector.documents(), force)
    for failure in report.failed:
        log.warning("%s: %s: %s", datasource.datasource_id, failure.source, failure.reason)
    for reason, tally in sorted(report.left_out.items()):
        log.info("%s: left out %d: %s (%s)", report.datasource_id, tally.count, reason, ", ".join(tally.examples))
    if report.stopped:
        log.info("%s: stopped %s", report.datasource_id, report.stopped)
    return report


@dataclass(slots=True)
class _Run:
    """One run over a source: counts what it finds, and remembers what it has seen once that is uploaded."""

    report: IngestReport
    memory: ConnectorMemory | None
    max_documents: int
    progress: Callable[[IngestReport], None] | None
    found: int = 0
    """Documents that the connector found and the Repository did not refuse."""
    uploaded: int = 0
    pending: deque[tuple[int, Seen]] = field(default_factory=deque)
    """States, each with how many documents must be uploaded before it may be remembered."""
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """States that may be remembered; only the last of an item counts."""
    settled: int = 0
    """How many states came since the last were remembered."""

    def take(self, repository: Repository, datasource: Datasource, found: Iterable[Found], force: bool) -> None:
        uploads = repository.upload_many(self._documents(found), datasource, force=force, refused=self._refuse)
        try:
            for upload in uploads:
                setattr(self.report, upload.outcome, getattr(self.report, upload.outcome) + 1)
                self.report.published += upload.published
                self.uploaded += 1
                self._settle(at_least=_STATES_AT_ONCE)
                if self.report.documents % _PROGRESS_DOCUMENTS == 0:
                    self._tell()
        finally:
            if isinstance(found, Generator):
                found.close()
            # Also after an error: the next run need not look again at what is uploaded.
            self._settle(at_least=1)
        self._tell()

    def _documents(self, found: Iterable[Found]) -> Iterator[PipeDoc]:
        is_full = False
        for item in found:
            match item:
                case Unreadable():
                    self.report.note_failed(item)
                case LeftOut():
                    self.report.note_left_out(item)
                    if self.report.left_out_count % _PROGRESS_LEFT_OUT == 0:
                        self._tell()
                case Seen():
                    self.pending.append((self.found, item))
                    self._settle(at_least=_STATES_AT_ONCE)
                    is_full = 0 < self.max_documents <= self.found
                case _ if is_full:
                    self.report.stopped = f"after {self.found} documents, as max_documents says; the next run continues"
                    return
                case _:
                    self.found += 1
                    yield item

    def _refuse(self, document: PipeDoc, error: IdInvalid) -> None:
        self.found -= 1
        source = document.search_metadata.source_path or document.doc_id or "a document without a name"
        self.report.note_failed(Unreadable(source, str(error)))

    def _settle(self, at_least: int) -> None:
        """Remember the states whose documents are uploaded, if there are enough of them."""
        while self.pending and self.pending[0][0] <= self.uploaded:
            _, seen = self.pending.popleft()
            self.states[seen.item] = seen.state
            self.settled += 1
        if self.memory is not None and self.settled >= at_least:
            faults.reach(faults.CONNECTOR_UPLOADED)
            self.memory.remember(self.states)
            self.states, self.settled = {}, 0

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self.report)
