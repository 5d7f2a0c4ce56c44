"""A Spark session that stays open for many small jobs, and is opened again when it has died."""

from __future__ import annotations

import logging
import os
import threading

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from pipestream.errors import TerminalError
from pipestream_spark.runner import drain_session

log = logging.getLogger(__name__)


_IS_SUBMITTED = "PYSPARK_GATEWAY_PORT" in os.environ


class SparkGone(TerminalError):
    """The Spark that submitted this process has ended, and cannot be started again from here."""


class WarmSession:
    """Opens a session when it is first asked for, and another one when that has died. Safe to share between threads."""

    def __init__(self, app_name: str, master: str = "") -> None:
        """
        :param master: the Spark to use where this process was not started by spark-submit, which names it itself.
        """
        self._app_name = app_name
        self._master = "" if _IS_SUBMITTED else master
        self._guard = threading.Lock()
        self._session: SparkSession | None = None

    def find(self) -> SparkSession:
        """Return a session that is alive.

        :raises SparkGone: the Spark of spark-submit is gone.
        """
        with self._guard:
            if self._session is not None and not _is_alive(self._session):
                log.warning("the Spark session has died; opening another")
                _forget(self._session)
                self._session = None
            if self._session is None:
                # The Python workers of a stream are used again and again; a new one has everything imported.
                options = {"spark.python.daemon.module": "pipestream_spark.daemon"}
                if self._master:
                    options["spark.master"] = self._master
                self._session = drain_session(self._app_name, options)
            return self._session

    def find_most_windows(self) -> int:
        """Return how many tasks may stay for a window: all but one of those that run at once. See ``Windows``."""
        return self.find().sparkContext.defaultParallelism - 1

    def close(self) -> None:
        """Stop the session."""
        with self._guard:
            if self._session is not None and _is_alive(self._session):
                self._session.stop()
            self._session = None


def _is_alive(session: SparkSession) -> bool:
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):  # the JVM is gone, or the context was stopped
        return False


def _forget(session: SparkSession) -> None:
    """Let go of what is left of a dead session, so that PySpark starts another."""
    try:
        session.stop()
    except (Py4JError, OSError, AttributeError) as error:
        log.info("the dead session cannot be stopped: %s", error)
    if _has_jvm():
        return
    if _IS_SUBMITTED:
        raise SparkGone("the Spark that started this process with spark-submit is gone; start the job again")
    # PySpark keeps a JVM for the life of the process, and has no other way to give up one that is gone.
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _has_jvm() -> bool:
    try:
        SparkContext._gateway.jvm.System.currentTimeMillis()  # type: ignore[union-attr]
    except (Py4JError, OSError, AttributeError):
        return False
    return True
