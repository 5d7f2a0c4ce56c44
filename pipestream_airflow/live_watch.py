"""What a task of a live DAG sees of its server: health, throughput and lag for the log, and when to start it again.

A server is started again when it does not answer, or says that a restart helps. One that says that it is alive and not
healthy waits for something outside, such as a broker, and a restart would only lose what it has in work.
"""

from __future__ import annotations

import ssl
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from pipestream.errors import PipestreamError
from pipestream.graph.load import load_graph
from pipestream.leases import open_lease_store
from pipestream.live.owner import GuardGone, OwnedServer
from pipestream.live.tail import LogTail
from pipestream.live.watch import Sighting, look_at
from pipestream.views.standing import StandingView
from pipestream.wording import counted
from pipestream_airflow.connections import run_settings

if TYPE_CHECKING:
    from pipestream_airflow.live_operator import LiveServerOperator


class ServerWatch:
    """What a task has seen of its server so far, and what it does about it."""

    def __init__(
        self, operator: LiveServerOperator, url: str, owned: OwnedServer | None, https: ssl.SSLContext | None = None
    ) -> None:
        """:param https: how to reach a server with TLS."""
        self._operator = operator
        self._url = url
        self._https = https
        self._owned = owned
        self._tail = LogTail(owned.log_file) if owned else None
        self._last: Sighting | None = None
        self._reported: Sighting | None = None
        self._well_at = self._patient_since = time.monotonic()
        self._starts = owned.look().starts if owned else 0
        self._is_starting = True
        """Whether the server has not been healthy since it was started."""

    @property
    def is_healthy(self) -> bool:
        return self._last is not None and self._last.is_healthy

    def look(self) -> None:
        """Look at the server once, log what a person should see, and start the server again if it hangs.

        :raises AirflowException: it has not been healthy for too long.
        """
        self._pass_on_output()
        seen = look_at(self._url, self._https)
        self._note_starts()
        was_healthy, self._last = self.is_healthy, seen
        is_well = seen.is_healthy or (seen.is_alive and self._owned is not None)
        if is_well:
            self._well_at = self._patient_since = seen.at
            self._is_starting = False
        if seen.is_healthy != was_healthy or self._is_report_due(seen):
            self._operator.log.info("%s: %s%s", self._operator.server, seen.describe(self._reported), self._find_lag())
            self._reported = seen
        if not is_well:
            self._act(seen)

    def report(self) -> dict[str, Any]:
        seen = self._last
        return {
            "healthy": self.is_healthy,
            "starts": self._starts,
            "processed": seen.processed if seen else 0.0,
        }

    def _find_lag(self) -> str:
        """Return how far behind the graph's topics are, as the end of a line."""
        if self._operator.graph_file is None:
            return ""
        try:
            settings, _ = run_settings(self._operator.consul_conn_id)
            with closing(open_lease_store(settings)) as leases:
                graph = load_graph(Path(self._operator.graph_file))
                topics = StandingView(settings, leases).find([graph]).topics
        # Airflow's errors: it has no such connection, does not give it, or it cannot be used. The server may be well.
        except (PipestreamError, AirflowException, AirflowRuntimeError, PermissionError) as error:
            return f"; lag unknown: {error}"
        oldest = max((each.oldest_age_s for each in topics), default=0.0)
        lag = f"{sum(each.lag for each in topics)} in {counted(len(topics), 'topic')}"
        return f"; lag {lag}, the oldest record waits {oldest:.0f} s"

    def _is_report_due(self, seen: Sighting) -> bool:
        return self._reported is None or seen.at - self._reported.at >= self._operator.report_s

    def _pass_on_output(self) -> None:
        for line in self._tail.read() if self._tail else ():
            self._operator.log.info("[%s] %s", self._operator.server, line)

    def _note_starts(self) -> None:
        if self._owned is None:
            return
        try:
            look = self._owned.look()
        except GuardGone as error:
            raise AirflowException(f"{error}; it may have been killed, and its server with it") from error
        if look.starts > self._starts and self._starts:
            self._operator.log.warning("%s was started again: %s", self._operator.server, look.last_end)
            self._is_starting, self._patient_since = True, time.monotonic()
        self._starts = look.starts

    def _act(self, seen: Sighting) -> None:
        operator = self._operator
        if seen.at - self._well_at >= (operator.unhealthy_s if self._owned is None else operator.give_up_s):
            raise AirflowException(
                f"{operator.server} has not been healthy for {seen.at - self._well_at:.0f} s: {seen.problem}"
            )
        patience_s = operator.start_s if self._is_starting else operator.unhealthy_s
        if self._owned is not None and seen.at - self._patient_since >= patience_s:
            operator.log.warning("%s hangs (%s), so it is started again", operator.server, seen.problem)
            self._owned.restart()
            self._is_starting, self._patient_since = True, seen.at
