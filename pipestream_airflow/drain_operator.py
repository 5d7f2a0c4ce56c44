"""The operator that drains one topic: a cheap check, then a Spark job."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from pipestream.drain.check import find_reason_to_skip
from pipestream.drain.job import find_drain_job, job_arguments
from pipestream.drain.job_outcome import read_outcome
from pipestream.drain.report import EMPTY, SKIPPED, DrainFailure
from pipestream.drain.request import DrainRequest
from pipestream.errors import TerminalError
from pipestream.graph.load import load_graph
from pipestream.settings import load_settings
from pipestream.topic_names import is_intake
from pipestream_airflow.run_params import RunParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context

    from pipestream.drain.backfill import Backfill

STOP_TIMEOUT_S = 20.0
"""For Spark to end its tasks and the driver to give back the lease. Airflow itself waits 60 s, then kills."""
LEASE_PAUSE = timedelta(seconds=30)
"""How long a backfill waits before it asks again for a lease that someone else holds."""


class DrainOperator(SparkSubmitOperator):
    """Drain one topic of a graph, up to the run's budget.

    Ends as skipped, before Spark is started where possible, when the run did not choose the topic, its
    datasource is paused, the operator stopped it, nothing waits in it, or other runs hold all its slots. A
    backfill of an intake topic is also skipped when it is finished or covers nothing, and waits for a lease. A
    transient failure is retried by Airflow; the retry has the same run id, so it takes up the plan of the try
    before it. A terminal failure is not retried. Returns the job's counts.

    The Spark master comes from the connection ``conn_id``, the driver runs in the task (client deploy mode).

    :param topic: the topic to drain.
    :param graph_file: the graph's file, which the job reads again.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "topic")
    ui_color = "#dbeafe"

    def __init__(self, *, topic: str, graph_file: str, **kwargs: Any) -> None:
        # durable reattaches to a driver on the cluster; ours runs in the task and dies with it.
        super().__init__(name=f"pipestream {topic}", deploy_mode="client", durable=False, **kwargs)
        self.topic = topic
        self.graph_file = graph_file

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override] # Spark's own returns nothing
        try:
            request = self._request(context)
            self._skip_if_pointless(request)
            self.application = find_drain_job()
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        with tempfile.TemporaryDirectory(prefix="pipestream-drain-") as folder:
            outcome_file = Path(folder) / "outcome.json"
            self._hook = None  # `airflow dags test` retries on this same object, and a hook keeps its arguments
            self.application_args = job_arguments(request, Path(self.graph_file), outcome_file)
            self.env_vars = submit_environment()
            try:
                super().execute(context)
            except AirflowException as error:
                _explain_failure(outcome_file, error)
                raise
            finally:
                self._close_output()
            return self._take_outcome(outcome_file, is_live=request.lane.is_live)

    def on_kill(self) -> None:
        """Ask Spark to stop, and give it time: a killed one leaves its lease and its files behind."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.log.info("stopping the drain of %s", self.topic)
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.log.warning("the drain of %s did not stop in %.0f s and is killed", self.topic, STOP_TIMEOUT_S)
            super().on_kill()

    @property
    def _process(self) -> subprocess.Popen[str] | None:
        return self._hook._submit_sp if self._hook is not None else None

    def _close_output(self) -> None:
        # The hook reads spark-submit's output to its end but leaves the pipe open.
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _request(self, context: Context) -> DrainRequest:
        """Return what this task is to drain.

        :raises AirflowSkipException: nothing, whatever waits.
        """
        params = RunParams.read(context["params"])
        backfill = self._backfill(params, context)
        if self.topic not in params.topics:
            raise AirflowSkipException(f"{self.topic} is not among the topics of this run")
        return DrainRequest(
            graph=load_graph(Path(self.graph_file)),
            topic=self.topic,
            run_id=name_run(context, self.task_id),
            budget=params.budget,
            backfill=backfill,
            accept_failures=params.accept_failures,
        )

    def _backfill(self, params: RunParams, context: Context) -> Backfill | None:
        """Return what to drain again. Only intake is: what comes of it waits in the other topics like anything."""
        if not is_intake(self.topic):
            return None
        run = context["dag_run"]
        interval = (context.get("data_interval_start"), context.get("data_interval_end"))
        return params.backfill(run.run_type, interval, run.run_after)

    def _skip_if_pointless(self, request: DrainRequest) -> None:
        if reason := find_reason_to_skip(load_settings(), request):
            raise AirflowSkipException(reason)

    def _come_back_later(self, reason: str) -> NoReturn:
        """Give the task's place away for a while. A backfill is not skipped: no later run would make up for it."""
        self.log.info("%s; this backfill waits, and looks again in %.0f s", reason, LEASE_PAUSE.total_seconds())
        raise AirflowRescheduleException(datetime.now(UTC) + LEASE_PAUSE)  # type: ignore[no-untyped-call]

    def _take_outcome(self, outcome_file: Path, *, is_live: bool) -> dict[str, Any]:
        outcome = read_outcome(outcome_file)
        if outcome is None or isinstance(outcome, DrainFailure):
            raise AirflowException(f"the drain of {self.topic} ended without saying how; see its log above")
        if outcome.status == SKIPPED and not is_live:
            self._come_back_later(outcome.reason)
        if outcome.status in (SKIPPED, EMPTY):
            raise AirflowSkipException(outcome.reason)
        for line in outcome.describe():
            self.log.info("%s", line)
        return outcome.to_fields()

    def _get_hook(self) -> SparkSubmitHook:
        # The hook would quietly submit to YARN instead.
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            variable = f"AIRFLOW_CONN_{self._conn_id.upper()}"
            raise AirflowFailException(
                f"the connection {self._conn_id} is missing, which says where Spark is; set e.g. "
                f'{variable}=\'{{"conn_type": "spark", "host": "local[2]"}}\' '
                f'or \'{{"conn_type": "spark", "host": "spark://HOST:7077"}}\''
            ) from error
        return super()._get_hook()


def name_run(context: Context, task_id: str) -> str:
    """Return the run's name in the ledger.

    A retry has the same, and so takes up the plan of the try before it. A run that was cleared has another, as it is
    to drain what waits now: a person clears it, and so does a backfill that reprocesses it.
    """
    name = f"{context['dag'].dag_id}/{context['run_id']}/{task_id}"
    cleared = context["dag_run"].clear_number
    return f"{name}/{cleared}" if cleared else name


def submit_environment() -> dict[str, str]:
    """Return the variables spark-submit needs besides those of this process.

    Spark takes the first python3 on the PATH unless told. And where Airflow was started by its full path, its
    environment's own spark-submit is not on the PATH; one that is there already comes first.
    """
    scripts = str(Path(sys.executable).parent)
    return {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
        "PATH": os.pathsep.join([*filter(None, [os.environ.get("PATH")]), scripts]),
    }


def _explain_failure(outcome_file: Path, error: AirflowException) -> None:
    """Raise what the failed job said of itself. Says nothing if it died before it could: then try again."""
    outcome = read_outcome(outcome_file)
    if not isinstance(outcome, DrainFailure) or not outcome.error:
        return
    if outcome.transient:
        raise AirflowException(outcome.describe()) from error
    raise AirflowFailException(outcome.describe()) from error
