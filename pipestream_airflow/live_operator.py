"""The operator that keeps a server up: it starts one or adopts it, watches it, and hands it over."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRuntimeError

from pipestream.errors import TerminalError
from pipestream.live.owner import GuardGone, OwnedServer, is_guarded, own_server, stop_abandoned
from pipestream.live.servers import server_command, server_environment, server_url
from pipestream.live.spec import Place, ServerSpec
from pipestream.live.watch import look_at
from pipestream.settings import load_settings
from pipestream.stop_times import server_stop_s
from pipestream_airflow.connections import run_settings
from pipestream_airflow.killed_tasks import KILL_WAIT_S
from pipestream_airflow.live_links import HealthLink, MetricsLink
from pipestream_airflow.live_watch import ServerWatch

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pipestream.settings import Settings


class LiveServerOperator(BaseOperator):
    """Keep a server up, or watch one that runs elsewhere.

    A server is started in the care of a guard, a process of its own (``pipestream/live/guard.py``), which starts it
    again when it dies. So the server outlives this task: when the run gets old, the task ends, and the task of the next
    run adopts the server on the same machine. On another machine, the next task starts a server of its own while the
    old one still runs.

    The server ends when the DAG is paused, and when the task is cleared, marked or killed. If the task's process is
    killed at once, the server ends a minute later, unless a retry has adopted it. Servers with the same command are
    shared: two graphs that want the same engine have one.

    Returns how the server was when the task ended.

    :param server: ``engine``, ``repository``, ``sidecar`` or ``stream``; any other name with a url and a command.
    :param external: whether the server runs elsewhere and is only watched.
    :param url: where the server answers ``/health`` and ``/metrics``: ``http://HOST:PORT``; None: as in the settings.
        (templated)
    :param command: starts the server; None: the product's own command. (templated)
    :param graph_file: a graph whose lag is shown; None: no lag is shown. (templated)
    :param environment: variables for the server in addition to this task's. (templated)
    :param consul_conn_id: the connection that says where Consul is; None: the settings say it.
    :param max_age: how long after the run's start the task hands over; None: the setting ``live_hours``.
    :param poll_s: the pause between two looks at the server.
    :param report_s: the pause between two lines about it in the log; a change is reported at once.
    :param start_s: how long a server may take from its start until it is healthy.
    :param unhealthy_s: a server that is not healthy for so long is started again, unless it says that it is alive; one
        that runs elsewhere fails the task.
    :param give_up_s: a server that is not healthy for so long, whatever was tried, fails the task.
    """

    template_fields: Sequence[str] = ("url", "command", "environment", "graph_file")
    ui_color = "#ede9fe"
    operator_extra_links = (HealthLink(), MetricsLink())

    def __init__(
        self,
        *,
        server: str,
        external: bool = False,
        url: str | None = None,
        command: Sequence[str] | None = None,
        graph_file: str | None = None,
        environment: Mapping[str, str] | None = None,
        consul_conn_id: str | None = None,
        max_age: timedelta | None = None,
        poll_s: float = 5.0,
        report_s: float = 60.0,
        start_s: float = 180.0,
        unhealthy_s: float = 60.0,
        give_up_s: float = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.server = server
        self.external = external
        self.url = url
        self.command = list(command) if command else None
        self.graph_file = graph_file
        self.environment = dict(environment or {})
        self.consul_conn_id = consul_conn_id
        self.max_age = max_age
        self.poll_s = poll_s
        self.report_s = report_s
        self.start_s = start_s
        self.unhealthy_s = unhealthy_s
        self.give_up_s = give_up_s
        self._owned: OwnedServer | None = None
        self._https: ssl.SSLContext | None = None
        self._is_killed = threading.Event()
        self._does_airflow_answer = True

    def execute(self, context: Context) -> dict[str, Any]:
        try:
            settings = load_settings()
            self.url = self.url or server_url(self.server, settings)
            if not self.external:
                self.command = self.command or server_command(self.server, settings)
            self._https = _https_context(self.url, settings)
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        self.max_age = self.max_age or timedelta(hours=settings.live_hours)
        for link in self.operator_extra_links:
            context["ti"].xcom_push(key=link.xcom_key, value=link.get_link(self, ti_key=None))
        if self.external:
            self.log.info("watching %s at %s, which runs elsewhere", self.server, self.url)
        else:
            self._own(context)
        watch = ServerWatch(self, self.url, self._owned, self._https)
        hand_over = False
        try:
            ended_by = self._watch(watch, context)
            hand_over = ended_by == "age"
        except AirflowException:  # the server is not well, or the task was killed
            raise
        except Exception:
            hand_over = True  # the server is well, and the next try adopts it
            raise
        finally:
            self._give_up_ownership(hand_over=hand_over)
        return {"server": self.server, "url": self.url, "ended_by": ended_by, **watch.report()}

    def on_kill(self) -> None:
        """Stop the server. Airflow calls this when the task is cleared, marked, or its worker ends."""
        self._is_killed.set()
        if self._owned is not None:
            self._owned.stop(KILL_WAIT_S)

    def _own(self, context: Context) -> None:
        ti = context["ti"]
        settings = load_settings()
        owner = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.try_number}@{socket.gethostname()}:{os.getpid()}"
        spec = ServerSpec(
            self.server,
            tuple(self.command or ()),
            {**server_environment(self.server), **self.environment, **run_settings(self.consul_conn_id)[1]},
            stop_timeout_s=server_stop_s(self.server, settings),
        )
        place = Place(settings.live_folder)
        try:
            is_running = is_guarded(spec, place)
            if not is_running:
                self._clear_the_way(spec, place)
            self._owned = own_server(spec, place, owner)
        except GuardGone as error:
            raise AirflowException(str(error)) from error
        except PermissionError as error:
            raise AirflowFailException(str(error)) from error
        how = "adopted" if is_running else "starting"
        self.log.info("%s %s; its output is in %s on %s", how, self.server, self._owned.log_file, socket.gethostname())

    def _clear_the_way(self, spec: ServerSpec, place: Place) -> None:
        """Stop what an earlier task with other settings left, and refuse to start next to somebody else's server.

        Otherwise the health of that server would be taken for the health of ours, which cannot have its port.
        """
        for key in stop_abandoned(spec, place, wait_s=spec.stop_timeout_s):
            self.log.info("stopped %s, which was started with other settings", key)
        if look_at(str(self.url), self._https).is_alive:
            raise AirflowException(
                f"another server answers at {self.url} already; if that is the one you want, let the graph say "
                f"`live: {{{self.server}: external}}`, else give {self.server} another address (live_*_url)"
            )

    def _watch(self, watch: ServerWatch, context: Context) -> str:
        """Look at the server until this task should end, and return why it ends."""
        dag_id = context["ti"].dag_id
        old_at = (context["dag_run"].start_date or datetime.now(UTC)) + (self.max_age or timedelta())
        while True:
            if self._is_killed.is_set():
                raise AirflowException(f"the task was stopped, and {self.server} with it")
            watch.look()
            if self._is_paused(dag_id, context):
                self.log.info("the DAG is paused, so %s stops", self.server)
                return "pause"
            # A server that is not healthy is not handed over: the next task would begin with a failure of this one.
            if datetime.now(UTC) >= old_at and watch.is_healthy:
                self.log.info("this run is old; the next one takes %s over", self.server)
                return "age"
            self._is_killed.wait(self.poll_s)

    def _is_paused(self, dag_id: str, context: Context) -> bool:
        """Ask Airflow whether the DAG is paused. While Airflow does not answer, it counts as running."""
        try:
            is_paused = bool(context["ti"].get_dag(dag_id).is_paused)
        except AirflowRuntimeError as error:
            if self._does_airflow_answer:
                self.log.warning(
                    "Airflow does not say whether the DAG is paused, so %s stays up: %s", self.server, error
                )
            self._does_airflow_answer = False
            return False
        self._does_airflow_answer = True
        return is_paused

    def _give_up_ownership(self, *, hand_over: bool) -> None:
        if self._owned is None:
            return
        try:
            if hand_over:
                self._owned.leave()
            elif not self._owned.stop(self._owned.spec.stop_timeout_s + KILL_WAIT_S):
                self.log.warning("%s has not ended yet; its guard kills it", self.server)
        except GuardGone as error:
            self.log.warning("%s", error)
        self._owned.close()


def _https_context(url: str, settings: Settings) -> ssl.SSLContext | None:
    """Return how a server with TLS is reached: with the CA and the certificate of the product's clients."""
    if not url.startswith("https://"):
        return None
    # Not at the top: it imports grpc, which no parse of a DAG file needs.
    from pipestream.rpc.security import channel_security

    return channel_security(settings, with_token=False).https_context()
