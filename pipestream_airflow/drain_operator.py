"""The operator that drains one topic: a cheap check, then a drain on Spark."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowRuntimeError,
    AirflowSkipException,
)

from pipestream.api.requests import run_request
from pipestream.deployment.versions import find_version
from pipestream.drain.backfill import hash_of_then
from pipestream.drain.check import find_reason_to_skip
from pipestream.drain.job import find_drain_job, job_arguments
from pipestream.drain.report import EMPTY, SKIPPED, DrainFailure, DrainReport, read_outcome
from pipestream.drain.request import DrainRequest
from pipestream.errors import PipestreamError, TerminalError
from pipestream.graph.flow import topic_targets
from pipestream.graph.load import load_graph
from pipestream.graph.proto import graph_hash
from pipestream.graph.write import to_yaml
from pipestream.local.spark_driver import SUBMIT_OPTIONS, spark_python, submit_options
from pipestream.topic_names import is_intake
from pipestream.views.lineage import drain_lineage
from pipestream_airflow.assets import find_updated
from pipestream_airflow.connections import run_settings
from pipestream_airflow.drain_links import DeadLettersLink, LedgerLink, SparkUiLink, TopicLink
from pipestream_airflow.killed_tasks import KILL_WAIT_S
from pipestream_airflow.lineage import to_openlineage
from pipestream_airflow.run_params import RunParams
from pipestream_airflow.submit_hook import DrainSubmitHook
from pipestream_spark.choice import find_connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from pipestream.drain.backfill import Backfill
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings
    from pipestream_spark.connect_runner import ConnectRunner

_SPARK_OPTIONS = (
    "conf",
    "files",
    "py_files",
    "archives",
    "properties_file",
    "driver_memory",
    "executor_memory",
    "executor_cores",
    "total_executor_cores",
    "num_executors",
    "verbose",
)
"""Parameters that are passed on to spark-submit as they are."""
_DRIVER_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
LEASE_PAUSE = timedelta(seconds=30)
"""How long a backfill waits before it asks again for a lease that another run holds."""
SPARK_CONNECTION = "spark_default"
STOPPED_EARLY = "the task was stopped before Spark was started"
SPARK_UI = re.compile(r"Spark UI at (https?://\S+)")
"""How ``pipestream_spark/runner.py`` says where Spark's pages are."""

Number = TypeVar("Number", int, float)


class DrainOperator(BaseOperator):
    """Drain one topic of a graph, up to the run's budget.

    Ends as skipped, before Spark is started where possible, when the run did not choose the topic, its
    datasource is paused, the operator stopped it, nothing waits in it, or other runs hold all its slots. A
    backfill of an intake topic is also skipped when it is finished or covers nothing, and waits for a lease. A
    transient failure is retried by Airflow; the retry has the same run id, so it resumes the plan of the try
    before it. A terminal failure is not retried. Returns the run's report.

    The setting ``spark_mode`` says how it uses Spark. On a Spark Connect server the task itself plans the drain and
    records it, and only the ranges run on the server. Otherwise the task submits a job, whose driver runs next to it
    (client deploy mode). In both cases a task that is killed ends what it has started. With ``auto``, a task that has
    options of spark-submit, or another connection than ``spark_default``, is submitted.

    :param topic: the topic to drain. (templated)
    :param graph_file: path of the graph's file, which the job reads again. (templated)
    :param conn_id: the Spark connection, which says to which master a drain is submitted.
    :param consul_conn_id: the connection that says where Consul is; None: the settings say it.
    :param conf: Spark configuration properties. (templated)
    :param files: files for the working folder of each executor, separated by commas. (templated)
    :param py_files: Python files, ``.zip`` or ``.egg``, for driver and executors, separated by commas. (templated)
    :param archives: archives to unpack on each executor, such as a packed environment. (templated)
    :param properties_file: a file of more Spark properties. (templated)
    :param driver_memory: memory of the driver, such as ``1g``.
    :param executor_memory: memory of each executor, such as ``2g``.
    :param executor_cores: cores of each executor.
    :param total_executor_cores: cores of all executors together, on a standalone cluster.
    :param num_executors: how many executors, on YARN and Kubernetes.
    :param verbose: whether spark-submit logs more.
    :param stop_timeout_s: how long Spark may take to stop and to release the lease, when ``execution_timeout`` is over
        or the task fails; then it is killed. If Airflow kills the task, the task waits for 4 s at most
        (``KILL_WAIT_S``), and a Spark that needs longer continues to stop without it.
    """

    template_fields: Sequence[str] = (
        "topic",
        "graph_file",
        "conf",
        "files",
        "py_files",
        "archives",
        "properties_file",
    )
    ui_color = "#dbeafe"
    operator_extra_links = (SparkUiLink(), TopicLink(), LedgerLink(), DeadLettersLink())

    # Defaults of the class: Airflow takes microseconds for each attribute that is set on a task, and a folder of graphs
    # has thousands of tasks.
    conf: dict[str, str] | None = None
    files: str | None = None
    py_files: str | None = None
    archives: str | None = None
    properties_file: str | None = None
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    total_executor_cores: int | None = None
    num_executors: int | None = None
    verbose: bool = False
    spark_ui: str = ""
    """Where Spark's pages about the job of this try are, once the job has said so."""
    _hook: DrainSubmitHook | None = None
    _runner: ConnectRunner | None = None
    _is_killed: bool = False
    _drained: tuple[DrainReport, Graph] | None = None

    def __init__(
        self,
        *,
        topic: str,
        graph_file: str,
        conn_id: str = SPARK_CONNECTION,
        consul_conn_id: str | None = None,
        conf: dict[str, str] | None = None,
        files: str | None = None,
        py_files: str | None = None,
        archives: str | None = None,
        properties_file: str | None = None,
        driver_memory: str | None = None,
        executor_memory: str | None = None,
        executor_cores: int | None = None,
        total_executor_cores: int | None = None,
        num_executors: int | None = None,
        verbose: bool = False,
        stop_timeout_s: float = 20.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.graph_file = graph_file
        self.conn_id = conn_id
        self.consul_conn_id = consul_conn_id
        given = {
            "conf": conf,
            "files": files,
            "py_files": py_files,
            "archives": archives,
            "properties_file": properties_file,
            "driver_memory": _memory("driver_memory", driver_memory),
            "executor_memory": _memory("executor_memory", executor_memory),
            "executor_cores": _positive("executor_cores", executor_cores),
            "total_executor_cores": _positive("total_executor_cores", total_executor_cores),
            "num_executors": _positive("num_executors", num_executors),
            "verbose": verbose,
        }
        for name, value in given.items():
            if value:
                setattr(self, name, value)
        _positive("stop_timeout_s", stop_timeout_s)
        self.stop_timeout_s = stop_timeout_s

    def execute(self, context: Context) -> dict[str, Any]:
        try:
            request = self.request(context)
            self._skip_if_pointless(request)
            settings, variables = run_settings(self.consul_conn_id)
            self._runner = find_connect(settings, needs_submit=self._needs_submit(), variables=variables)
            job = "" if self._runner else find_drain_job()
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        if self._runner is not None:
            return self._drain_here(request, settings, self._runner)
        return self._submit(request, job, context)

    def _needs_submit(self) -> str:
        """Return why this drain must be submitted; empty if it need not."""
        if options := [name for name in _SPARK_OPTIONS if getattr(self, name)]:
            return f"the task has options of spark-submit: {', '.join(options)}"
        return "" if self.conn_id == SPARK_CONNECTION else f"the task names the Spark connection {self.conn_id}"

    def _drain_here(self, request: DrainRequest, settings: Settings, runner: ConnectRunner) -> dict[str, Any]:
        """Drain in this process, with the ranges on a Spark Connect server."""
        with closing(runner):
            if self._is_killed:  # before there was a runner to cancel
                raise AirflowException(STOPPED_EARLY)
            try:
                report = run_request(request, settings, runner)
            except PipestreamError as error:
                _raise_failure(DrainFailure.of(error), error)
            return self._take_report(report, request)

    def _submit(self, request: DrainRequest, job: str, context: Context) -> dict[str, Any]:
        """Drain by a Spark job."""
        if self._is_killed:
            raise AirflowException(STOPPED_EARLY)
        with tempfile.TemporaryDirectory(prefix="pipestream-drain-") as folder:
            outcome_file = Path(folder) / "outcome.json"
            # A new hook for every try: `airflow dags test` retries on the same operator object.
            self._hook = self.make_hook(job_arguments(request, self._graph_file(request, Path(folder)), outcome_file))
            try:
                self._hook.submit(job, on_line=partial(self._find_spark_ui, context))
            except AirflowException:
                _explain_failure(outcome_file)
                raise
            return self._take_outcome(outcome_file, request)

    def _graph_file(self, request: DrainRequest, folder: Path) -> Path:
        """Return a file with the request's graph: the DAG's, or one of an earlier version, written to a folder."""
        if graph_hash(request.graph) == graph_hash(load_graph(Path(self.graph_file))):
            return Path(self.graph_file)
        file = folder / "graph.yaml"
        file.write_text(to_yaml(request.graph), encoding="utf-8")
        return file

    def make_hook(self, arguments: list[str]) -> DrainSubmitHook:
        """Return the hook that submits the drain job with these arguments."""
        return DrainSubmitHook(
            conn_id=self.conn_id,
            name=f"pipestream {self.topic}",
            application_args=arguments,
            env_vars=submit_environment(self._driver_properties()),
            secret_vars=run_settings(self.consul_conn_id)[1],
            stop_timeout_s=self.stop_timeout_s,
            **{name: getattr(self, name) for name in _SPARK_OPTIONS},
        )

    def _driver_properties(self) -> str:
        """Return the text of what this task sets for the driver's JVM."""
        texts = [value for name, value in (self.conf or {}).items() if name in _DRIVER_OPTIONS]
        if self.properties_file and (file := Path(self.properties_file)).is_file():
            texts.append(file.read_text(errors="replace"))
        return "\n".join(texts)

    def on_kill(self) -> None:
        """Ask Spark to stop, and give a job time: a killed one leaves its lease and its files behind."""
        self._is_killed = True  # the task continues after this, and must not start Spark
        if self._runner is not None:
            self.log.info("cancelling the drain of %s", self.topic)
            self._runner.cancel_all()
        if self._hook is None:
            return
        self.log.info("stopping the drain of %s", self.topic)
        if self.stop_timeout_s <= KILL_WAIT_S:
            if not self._hook.stop(self.stop_timeout_s):
                self.log.warning("the drain of %s did not stop in %g s and was killed", self.topic, self.stop_timeout_s)
        elif not self._hook.ask_to_stop(KILL_WAIT_S):
            self.log.warning("the drain of %s is still stopping, and ends without this task", self.topic)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:  # noqa: ARG002
        """Tell OpenLineage what the drain read and wrote. Its provider calls this, where it is installed."""
        if self._drained is None:
            return to_openlineage(None)
        report, graph = self._drained
        settings, _ = run_settings(self.consul_conn_id)
        return to_openlineage(drain_lineage(report, graph, topic_targets(graph)[self.topic], settings))

    def request(self, context: Context) -> DrainRequest:
        """Return what this task is to drain.

        :raises AirflowSkipException: this run does not drain the topic, even if records wait.
        """
        params = RunParams.read(context["params"], context["dag_run"].run_type)
        backfill = self._backfill(params, context)
        if self.topic not in params.topics:
            raise AirflowSkipException(f"{self.topic} is not among the topics of this run")
        graph = load_graph(Path(self.graph_file))
        if backfill is not None and params.graph_version == "then":
            settings, _ = run_settings(self.consul_conn_id)
            then = hash_of_then(backfill, settings, graph.graph_id, self.topic)
            graph = find_version(settings, graph.graph_id, then)
        return DrainRequest(
            graph=graph,
            topic=self.topic,
            run_id=name_run(context, self.task_id),
            budget=params.budget,
            backfill=backfill,
            accept_failures=params.accept_failures,
        )

    def _backfill(self, params: RunParams, context: Context) -> Backfill | None:
        """Return what to drain again. Only intake topics are: the results wait in the other topics like all records."""
        if not is_intake(self.topic):
            return None
        run = context["dag_run"]
        interval = (context.get("data_interval_start"), context.get("data_interval_end"))
        return params.backfill(run.run_type, interval, run.run_after)

    def _skip_if_pointless(self, request: DrainRequest) -> None:
        settings, _ = run_settings(self.consul_conn_id)
        if reason := find_reason_to_skip(settings, request):
            raise AirflowSkipException(reason)

    def _find_spark_ui(self, context: Context, line: str) -> None:
        """Offer the link to Spark's pages while the job runs, because they end with it."""
        if found := SPARK_UI.search(line):
            self.spark_ui = found[1]
            try:
                context["ti"].xcom_push(key=SparkUiLink().xcom_key, value=self.spark_ui)
            except AirflowRuntimeError as error:  # the drain is well, and the link is there when it has ended
                self.log.warning("Airflow does not take the link to Spark's pages: %s", error)

    def _come_back_later(self, reason: str) -> NoReturn:
        """Free the task's slot for a while. A backfill is not skipped: no later run would cover its interval."""
        self.log.info("%s; this backfill waits, and looks again in %.0f s", reason, LEASE_PAUSE.total_seconds())
        raise AirflowRescheduleException(datetime.now(UTC) + LEASE_PAUSE)  # type: ignore[no-untyped-call]

    def _take_outcome(self, outcome_file: Path, request: DrainRequest) -> dict[str, Any]:
        outcome = read_outcome(outcome_file)
        if outcome is None or isinstance(outcome, DrainFailure):
            raise AirflowException(f"the drain of {self.topic} ended without a report; see its log above")
        return self._take_report(outcome, request)

    def _take_report(self, outcome: DrainReport, request: DrainRequest) -> dict[str, Any]:
        if outcome.status == SKIPPED and not request.lane.is_live:
            self._come_back_later(outcome.reason)
        if outcome.status in (SKIPPED, EMPTY):
            raise AirflowSkipException(outcome.reason)
        for line in outcome.describe():
            self.log.info("%s", line)
        self._drained = outcome, request.graph
        # Airflow updates the assets that stand here when the task ends.
        self.outlets = find_updated(self.outlets, request.graph, outcome.documents_out)
        return outcome.to_fields()


def name_run(context: Context, task_id: str) -> str:
    """Return the run's name in the ledger.

    A retry has the same name, so it resumes the plan of the try before it. A run that was cleared, by a person or by a
    backfill that reprocesses it, has another name, because it should drain what waits now.
    """
    name = f"{context['dag'].dag_id}/{context['run_id']}/{task_id}"
    cleared = context["dag_run"].clear_number
    return f"{name}/{cleared}" if cleared else name


def submit_environment(driver_properties: str = "") -> dict[str, str]:
    """Return the variables that spark-submit needs in addition to those of this process.

    If Airflow was started by its full path, the spark-submit of its environment is not on the PATH, so it is added at
    the end; another one on the PATH comes first.
    """
    scripts = str(Path(sys.executable).parent)
    return {
        **spark_python(),
        "PATH": os.pathsep.join([*filter(None, [os.environ.get("PATH")]), scripts]),
        SUBMIT_OPTIONS: submit_options(properties=driver_properties),
    }


def _explain_failure(outcome_file: Path) -> None:
    """Raise the error that the failed job reported. Return if the job died before it could report: then retry."""
    outcome = read_outcome(outcome_file)
    if not isinstance(outcome, DrainFailure) or not outcome.error:
        return
    _raise_failure(outcome, outcome.to_error())


def _raise_failure(failure: DrainFailure, cause: PipestreamError) -> NoReturn:
    """Raise an error that Airflow retries, or one that it does not. Its cause says to ``ErrorTreePolicy`` when."""
    raise (AirflowException if failure.transient else AirflowFailException)(failure.describe()) from cause


def _positive(name: str, value: Number | None) -> Number | None:
    if value is not None and value <= 0:
        raise ValueError(f"{name} must be more than 0, not {value}")
    return value


def _memory(name: str, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[1-9][0-9]*[bkmgtpBKMGTP]?[bB]?", value):
        raise ValueError(f"{name} must be a size as Spark writes it, such as 512m or 2g, not {value!r}")
    return value
