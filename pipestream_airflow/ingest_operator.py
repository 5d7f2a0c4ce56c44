"""The operator that ingests a datasource's documents through its connector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pipestream import TerminalError, ingest_datasource

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pipestream.connectors.ingest import IngestReport


class IngestOperator(BaseOperator):
    """Run a datasource's connector once: store what is new or changed and publish it to the intake topic.

    A transient failure is retried, and the retry resumes. Documents that the connector cannot read are counted and
    logged, and do not stop the others. Returns the counts.

    :param graph_file: the file of the graph that has the datasource.
    """

    ui_color = "#dcfce7"

    def __init__(self, *, datasource_id: str, graph_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.datasource_id = datasource_id
        self.graph_file = graph_file

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        try:
            report = ingest_datasource(self.graph_file, self.datasource_id, progress=self._log_progress)
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        if report.skipped:
            raise AirflowSkipException(report.skipped)
        return {
            "datasource": report.datasource_id,
            "new": report.new,
            "changed": report.changed,
            "unchanged": report.unchanged,
            "published": report.published,
            "failed": len(report.failed),
        }

    def _log_progress(self, report: IngestReport) -> None:
        self.log.info(
            "%s: %d documents so far, %d of them new, %d changed; %d could not be read",
            report.datasource_id,
            report.documents,
            report.new,
            report.changed,
            len(report.failed),
        )
