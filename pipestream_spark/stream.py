"""Drain the topics that are in streaming mode, in one warm Spark session: ``spark-submit spark_jobs/stream.py``.

The same worker as a sidecar's decides which slots this process holds, so streaming drains and sidecars share the
topics. With ``--graph`` it takes what is free of these graphs, and shares nothing. A backlog is drained in bounded
ranges, one Spark task each; documents that come one by one, by a task that stays for a moment. Ends with 0 when it is
asked to (SIGTERM, Ctrl-C), after every slot has recorded what it did; with 1 if Spark is gone, and the job may be
started again; with 2 if it cannot work with its settings.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from functools import partial

from pipestream.deployment.active import ActiveGraphs
from pipestream.deployment.versions import GraphVersions
from pipestream.drain.caller import watch_caller
from pipestream.errors import PipestreamError
from pipestream.ids import new_run_id
from pipestream.leases import LeaseStore, open_lease_store
from pipestream.leases.names import name_holder
from pipestream.settings import Settings, load_settings
from pipestream.stream.executors import Executor, RunnerExecutor
from pipestream.stream.health import health_of
from pipestream.stream.open_streams import OpenStreams
from pipestream.stream.recorder import Recorder
from pipestream.stream.shares import SlotKey
from pipestream.stream.wanted import StreamSpec
from pipestream.stream.windows import Windows
from pipestream.stream.worker import StreamWorker
from pipestream.telemetry.endpoint import TelemetryEndpoint
from pipestream.telemetry.logs import setup_logging
from pipestream_spark.runner import SparkRunner
from pipestream_spark.warm_session import SparkGone, WarmSession

log = logging.getLogger("pipestream.stream")


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    arguments = _parse_arguments(sys.argv[1:])
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if arguments.caller:
        watch_caller(arguments.caller, stop.set)
    try:
        settings = load_settings()
        setup_logging(settings)
        return run_streams(
            settings,
            stop,
            graphs=arguments.graph,
            max_leases=arguments.max_leases,
            telemetry_port=arguments.telemetry_port,
        )
    except PipestreamError as error:
        log.error("%s", error)
        return 1 if error.transient else 2


def run_streams(
    settings: Settings,
    stop: threading.Event,
    *,
    graphs: list[str] | None = None,
    max_leases: int | None = None,
    telemetry_port: int = 0,
) -> int:
    """Drain until asked to stop, and return the exit code.

    :param graphs: only the topics of these graphs, by id; of all applied graphs, unless given.
    :param max_leases: how many slots to hold at most; the setting ``sidecar_max_leases`` unless given.
    :param telemetry_port: where to answer ``/metrics`` and ``/health``; 0 takes a free port.
    """
    run_id = new_run_id("stream")
    with (
        closing(WarmSession("pipestream stream", settings.spark_master)) as session,
        closing(open_lease_store(settings)) as leases,
        closing(GraphVersions(settings)) as versions,
        Recorder(settings) as recorder,
    ):
        session.find()  # now, and not when the first document waits
        streams = SparkStreams(settings, leases, ActiveGraphs(versions), recorder, session, run_id, graphs, stop)
        worker = StreamWorker(
            settings,
            leases,
            streams.find_wanted,
            streams.open,
            name=name_holder(run_id),
            max_leases=max_leases,
            is_sharing=not graphs,
        )
        health = partial(health_of, worker, stop, settings.health_stall_s)
        with TelemetryEndpoint(settings.telemetry_host, telemetry_port, health) as telemetry:
            log.info("/metrics and /health at %s", telemetry.address)
            worker.run(stop)
    return 1 if streams.is_spark_gone else 0


class SparkStreams(OpenStreams):
    """The streams of this process, on the shared session."""

    def __init__(
        self,
        settings: Settings,
        leases: LeaseStore,
        graphs: ActiveGraphs,
        recorder: Recorder,
        session: WarmSession,
        run_id: str,
        graph_ids: list[str] | None,
        stop: threading.Event,
    ) -> None:
        super().__init__(settings, leases, graphs, recorder, run_id=run_id, graph_ids=graph_ids or ())
        self._session = session
        self._windows = Windows(session.find_most_windows)
        self._stop = stop
        self.is_spark_gone = False

    def find_wanted(self) -> Mapping[SlotKey, StreamSpec]:
        """Return the slots that are to be drained now. Asked every few seconds, so it also looks after the session."""
        try:
            self._session.find()
        except SparkGone as error:
            log.error("%s", error)
            self.is_spark_gone = True
            self._stop.set()
        return super().find_wanted()

    def _open_executor(self, spec: StreamSpec, settings: Settings) -> Executor:
        runner = SparkRunner(f"stream {spec.topic}", self._session.find)
        return RunnerExecutor(settings, runner, runner.cancel, self._broker, self._windows)


def _parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Drain the topics in streaming mode over Spark, until it is stopped.")
    parser.add_argument("--graph", action="append", metavar="ID", help="only topics of this graph; may be repeated")
    parser.add_argument("--max-leases", type=int, help="most slots to hold (default: the setting sidecar_max_leases)")
    parser.add_argument("--telemetry-port", type=int, default=0, help="of /metrics and /health; 0 takes a free one")
    parser.add_argument("--caller", metavar="HOST:PID", help="end when this process of this machine is gone")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
