"""Records what the streams of a process have drained: every few seconds, all topics in one Delta commit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from pipestream import faults
from pipestream.errors import LedgerConflict, Overtaken, PipestreamError
from pipestream.ledger import Entry, Ledger
from pipestream.settings import Settings
from pipestream.stream.unrecorded import Unrecorded

log = logging.getLogger(__name__)


class EntersRanges(Protocol):
    """As much of the ledger as the recorder needs."""

    def enter(self, entries: Sequence[Entry]) -> None: ...


class Recorder:
    """Enters the unrecorded parts of all streams that have joined it.

    ::

        with Recorder(settings) as recorder:
            TopicStream(..., recorder=recorder).run(stop)

    A failure never stops a stream: what is not recorded now is tried again, and after a crash the next holder of the
    slot records it. Only a conflict concerns a stream: another run has recorded its ranges, so it has to start over.
    """

    def __init__(self, settings: Settings, ledger: EntersRanges | None = None) -> None:
        self._ledger = ledger or Ledger(settings)
        self._interval_s = settings.stream_record_s
        self._guard = threading.Lock()
        """Held while parts are taken and entered, so that one thread does so at a time."""
        self._joined: dict[Unrecorded, Callable[[], None]] = {}
        self._conflicts: dict[Unrecorded, PipestreamError] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_recording, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self.record()

    def join(self, parts: Unrecorded, on_conflict: Callable[[], None]) -> None:
        """Record these parts from now on.

        :param on_conflict: called once if another run has recorded a part of it. The stream then has to end its pass;
            ``leave`` raises the error.
        """
        with self._guard:
            self._joined[parts] = on_conflict

    def leave(self, parts: Unrecorded) -> None:
        """Record what is left of these parts now, and no more of them later.

        :raises LedgerConflict: another run has recorded a part of it.
        :raises TransientError: the ledger did not answer. The next holder of the slot records what is left.
        """
        with self._guard:
            del self._joined[parts]
            if conflict := self._conflicts.pop(parts, None):
                raise conflict
            entries = _take(parts)
            try:
                self._enter(entries)
            except BaseException:
                parts.put_back()
                raise
            parts.settle()

    def record(self) -> None:
        """Record everything now, in one commit. A failure is logged, and what it concerns is kept for the next time."""
        with self._guard:
            taken = [(parts, entries) for parts in self._joined if (entries := self._take(parts))]
            if not taken:
                return
            try:
                self._enter([entry for _, entries in taken for entry in entries])
            except LedgerConflict:
                # It changed nothing. Find out whose it is, so that the others are recorded.
                for parts, entries in taken:
                    self._enter_alone(parts, entries)
            except Exception as error:
                _warn("what was drained", error)
                for parts, _ in taken:
                    parts.put_back()
            else:
                for parts, _ in taken:
                    parts.settle()

    def _enter_alone(self, parts: Unrecorded, entries: Sequence[Entry]) -> None:
        try:
            self._enter(entries)
        except LedgerConflict as error:
            log.warning("%s slot %d starts over: %s", parts.topic, parts.slot.lease.slot, error)
            self._conflicts[parts] = error
            parts.put_back()
            self._joined[parts]()
        except Exception as error:
            _warn(parts.topic, error)
            parts.put_back()
        else:
            parts.settle()

    def _take(self, parts: Unrecorded) -> list[Entry]:
        if parts in self._conflicts:
            return []
        try:
            return _take(parts)
        except Overtaken as error:
            log.debug("%s: %s", parts.topic, error)  # the stream ends for the same reason, and says so
            return []

    def _enter(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        faults.reach(faults.STREAM_TAKEN)
        self._ledger.enter(entries)
        faults.reach(faults.STREAM_RECORDED)

    def _keep_recording(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self.record()
            except Exception:  # a bug must not end the recording silently
                log.exception("recording failed")


def _warn(what: str, error: Exception) -> None:
    """Say that something is tried again. An error that is not ours is a bug, so its trace is wanted."""
    log.warning("%s: not recorded for now: %s", what, error, exc_info=not isinstance(error, PipestreamError))


def _take(parts: Unrecorded) -> list[Entry]:
    """Return the entries of parts whose lease is held.

    :raises LeaseLost: it is not held any more, so the next holder records them.
    """
    parts.check_lease()
    return parts.take()
