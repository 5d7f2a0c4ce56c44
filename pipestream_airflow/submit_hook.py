"""The hook that submits a drain to Spark, and that can ask it to stop."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from pipestream.errors import ExtraMissing
from pipestream.local.process import kill_child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The provider's hook starts spark-submit and can only kill it. A drain holds leases, so it must be asked to stop.
# This hook starts the process itself. From its parent it uses only the code that builds the command line.


class DrainSubmitHook(SparkSubmitHook):
    """Submits a job to the Spark of a connection, in client mode, and stops it when asked.

    :param conn_id: the Spark connection. If it is missing, this hook fails; the provider's hook would submit to YARN.
    :param env_vars: variables for spark-submit in addition to those of this process.
    :param secret_vars: more variables, which the provider's hook must not see: for some masters it would write them on
        the command line.
    :param stop_timeout_s: how long a job may take to release its lease when the task has failed; then it is killed.
    :param options: any other parameter of ``SparkSubmitHook``.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        env_vars: Mapping[str, str],
        secret_vars: Mapping[str, str] | None = None,
        stop_timeout_s: float = 20.0,
        **options: Any,
    ) -> None:
        _require_connection(conn_id)
        super().__init__(conn_id=conn_id, env_vars=dict(env_vars), deploy_mode="client", **options)
        self._variables = {**env_vars, **(secret_vars or {})}
        self._stop_timeout_s = stop_timeout_s
        self._process: subprocess.Popen[str] | None = None
        # Re-entrant: Airflow calls on_kill from a signal handler, which may interrupt this very thread.
        self._guard = threading.RLock()
        self._is_stopped = False

    def submit(self, application: str = "", *, on_line: Callable[[str], None] | None = None, **kwargs: Any) -> None:
        """Run a job to its end, with its output in the task's log.

        :param application: the job's file.
        :param on_line: called with every line of the output.
        :param kwargs: more arguments for ``subprocess.Popen``.
        :raises AirflowFailException: there is no spark-submit.
        :raises AirflowException: it ended with an exit code other than 0, or was stopped before it began.
        """
        command = self._build_spark_submit_command(application)
        with self._guard:
            if self._is_stopped:
                raise AirflowException("the task was stopped before Spark was started")
            try:
                process = self._process = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**os.environ, **self._variables},
                    **kwargs,
                )
            except FileNotFoundError as error:
                raise AirflowFailException(str(ExtraMissing("spark", command[0]))) from error
        if self._is_stopped:  # by a signal handler that interrupted the start, and did not know of the process
            process.terminate()
        with process:
            try:
                for line in process.stdout or ():
                    self.log.info("%s", line.rstrip())
                    if on_line is not None:
                        on_line(line)
            except BaseException:
                # Otherwise the end of this block waits for a job that nobody listens to any more.
                self.stop(self._stop_timeout_s)
                raise
        if process.returncode:
            raise AirflowException(f"spark-submit failed. Error code is: {process.returncode}; its log is above")

    def stop(self, timeout_s: float) -> bool:
        """Ask the job to stop, and kill it if it has not ended in time. Return whether it ended by itself."""
        if self.ask_to_stop(timeout_s):
            return True
        if self._process is not None:
            kill_child(self._process)
        return False

    def ask_to_stop(self, timeout_s: float) -> bool:
        """Ask the job to stop, and return whether it has ended in time."""
        with self._guard:
            self._is_stopped = True
            process = self._process
        if process is None or process.poll() is not None:
            return True
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def on_kill(self) -> None:
        """Kill spark-submit at once."""
        self.stop(timeout_s=0)


def _require_connection(conn_id: str) -> None:
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        variable = f"AIRFLOW_CONN_{conn_id.upper()}"
        raise AirflowFailException(
            f"the connection {conn_id} is missing, which says where Spark is; set e.g. "
            f'{variable}=\'{{"conn_type": "spark", "host": "local[2]"}}\' '
            f'or \'{{"conn_type": "spark", "host": "spark://HOST:7077"}}\''
        ) from error
