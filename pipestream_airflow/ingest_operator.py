"""The operator that ingests a datasource's documents through its connector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pipestream import TerminalError, ingest_datasource
from pipestream.graph.load import load_graph
from pipestream.views.lineage import ingest_lineage
from pipestream_airflow.connections import run_settings
from pipestream_airflow.lineage import to_openlineage

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from pipestream.connectors.report import IngestReport


class IngestOperator(BaseOperator):
    """Run a datasource's connector once: store what is new or changed and publish it to the intake topic.

    A transient failure is retried, and the retry resumes. Documents that the connector cannot read are counted and
    logged, and do not stop the others. The datasource's asset is updated if anything was published. Returns the counts.

    :param graph_file: the file of the graph that has the datasource.
    """

    ui_color = "#dcfce7"

    def __init__(self, *, datasource_id: str, graph_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.datasource_id = datasource_id
        self.graph_file = graph_file
        self._report: IngestReport | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:  # noqa: ARG002
        """Tell OpenLineage what the ingestion read and wrote. Its provider calls this, where it is installed."""
        if self._report is None:
            return to_openlineage(None)
        datasources = load_graph(Path(self.graph_file)).datasources
        source = next(each for each in datasources if each.datasource_id == self.datasource_id)
        return to_openlineage(ingest_lineage(self._report, source, run_settings()[0]))

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        try:
            settings, _ = run_settings()
            report = ingest_datasource(
                self.graph_file, self.datasource_id, progress=self._log_progress, settings=settings
            )
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        if report.skipped:
            raise AirflowSkipException(report.skipped)
        self._report = report
        if not report.published:
            # Airflow updates the assets that stand here when the task ends. Nothing arrived, so no run need start.
            self.outlets = []
        return {
            "datasource": report.datasource_id,
            "new": report.new,
            "changed": report.changed,
            "unchanged": report.unchanged,
            "published": report.published,
            "failed": report.failed_count,
            "left_out": {reason: tally.count for reason, tally in sorted(report.left_out.items())},
            "stopped": report.stopped,
        }

    def _log_progress(self, report: IngestReport) -> None:
        self.log.info(
            "%s: %d documents so far, %d of them new, %d changed; %d could not be read",
            report.datasource_id,
            report.documents,
            report.new,
            report.changed,
            report.failed_count,
        )
