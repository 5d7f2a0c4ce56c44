"""Publishes what waits in the outbox, of every datasource, while the server runs.

It also publishes what other processes have recorded and not published, because they died.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from pipestream.documents.outbox import Outbox
from pipestream.documents.publish import IntakeTopics
from pipestream.documents.relay import Relay
from pipestream.documents.uploads import Uploads
from pipestream.errors import Overtaken, PipestreamError
from pipestream.telemetry.metrics import OUTBOX_WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipestream.documents.tables import Tables
    from pipestream.repository_server.datasources import Datasources
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

# How often to look for what other processes left.
_LOOK_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_THREADS = 4


class Publisher:
    """The relays of a server. A context manager; leaving it publishes what waits once more."""

    def __init__(self, settings: Settings, tables: Tables, uploads: Uploads, datasources: Datasources) -> None:
        self._settings = settings
        self._outbox = Outbox(tables)
        self._uploads = uploads
        self._datasources = datasources
        self._topics = IntakeTopics(settings)
        self._relays: dict[str, Relay] = {}
        self._busy: set[str] = set()
        self._resting: dict[str, tuple[float, float]] = {}
        self._wake = threading.Event()
        self._is_stopping = False
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="outbox")
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        self._wake.set()
        self._thread.join()
        self._pool.shutdown()
        for relay in self._relays.values():
            relay.close()

    def wake(self) -> None:
        """Say that something waits."""
        self._wake.set()

    def _run(self) -> None:
        self._try(self._adopt, "looking for unpublished documents")
        while True:
            is_last = self._is_stopping
            self._wake.clear()
            self._try(self._publish_all, "reading the outbox")
            if is_last:
                return
            self._wake.wait(_LOOK_S)

    def _try(self, work: Callable[[], None], what: str) -> None:
        """Do work that is tried again. Nothing may end this thread: the server would take uploads and publish none."""
        try:
            work()
        except PipestreamError as error:
            log.warning("%s: %s", what, error)
        except Exception:  # such as "too many open files"
            log.exception("%s: unexpected error", what)

    def _adopt(self) -> None:
        """Announce documents that a version without an outbox recorded and did not publish."""
        for datasource in self._datasources.all():
            self._uploads.announce_pending(datasource)

    def _publish_all(self) -> None:
        waiting = self._outbox.counts()
        for datasource_id in self._relays.keys() - waiting.keys():
            OUTBOX_WAITING.labels(datasource_id).set(0)
        for datasource_id, count in waiting.items():
            OUTBOX_WAITING.labels(datasource_id).set(count)
            rested_at, _ = self._resting.get(datasource_id, (0.0, 0.0))
            if datasource_id not in self._busy and time.monotonic() >= rested_at:
                self._busy.add(datasource_id)
                self._pool.submit(self._publish, datasource_id)

    def _publish(self, datasource_id: str) -> None:
        try:
            relay = self._relays.get(datasource_id)
            if relay is None:
                self._topics.check(datasource_id)
                relay = self._relays[datasource_id] = Relay(self._settings, self._outbox, datasource_id)
            with suppress(Overtaken):  # by another process, which publishes the rest
                if relay.publish_waiting():
                    self._wake.set()  # more may have come meanwhile
            self._resting.pop(datasource_id, None)
        except PipestreamError as error:
            self._rest(datasource_id, error)
        except Exception:
            log.exception("datasource %s: unexpected error of the relay", datasource_id)
            self._rest(datasource_id, None)
        finally:
            self._busy.discard(datasource_id)

    def _rest(self, datasource_id: str, error: PipestreamError | None) -> None:
        _, before = self._resting.get(datasource_id, (0.0, 0.0))
        pause_s = min(max(2 * before, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._resting[datasource_id] = (time.monotonic() + pause_s, pause_s)
        if error is not None:
            log.warning("datasource %s: nothing is published for %g s: %s", datasource_id, pause_s, error)
