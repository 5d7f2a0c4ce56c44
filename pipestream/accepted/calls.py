"""The calls that a slot has taken, and the keys that it has accepted, under one lock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence

from pipestream.accepted.queue import AnyFuture, Group, Member, Outcome, Pending, Queue, resolve
from pipestream.accepted.record import Accepted
from pipestream.accepted.submission import DIGEST_BYTES, Submission, key_digest
from pipestream.accepted.window import Window
from pipestream.errors import KeyReused, PipestreamError, SlotFull, SlotStopped
from pipestream.settings import Settings

# How often a slot without calls forgets old keys.
_IDLE_S = 30.0
_NO_CONTENT = bytes(DIGEST_BYTES)


class Calls:
    """Takes calls, hands them out for transactions, and answers them. Safe to share between threads.

    A call is either unsettled, so that a repeat waits for it, or its key is in the window. ``settle`` moves it from the
    one to the other in one step.
    """

    def __init__(self, settings: Settings, slot: int) -> None:
        self._slot = slot
        self._window = Window(settings.engine_window_s, settings.engine_window_keys)
        self._queue = Queue(slot, settings.engine_waiting, settings.engine_waiting_bytes)
        self._changed = threading.Condition()
        self._is_open = False
        self._reason = "it is not started"

    def open(self) -> None:
        """Take calls from now on."""
        with self._changed:
            self._is_open = True

    def shut(self, reason: str) -> bool:
        """Take no more calls, and return whether they were taken until now. Those that were taken stay."""
        with self._changed:
            was_open, self._is_open = self._is_open, False
            self._reason = reason
            self._changed.notify_all()
            return was_open

    def find(self, key: str, content: bytes) -> bytes | None:
        """Return the answer of an accepted call with this key, if there was one within the window.

        :raises KeyReused: it had other content.
        """
        with self._changed:
            return self._find(key_digest(key), key, content)

    def take(self, submission: Submission, future: AnyFuture) -> bytes | None:
        """Return the answer of a call that was accepted before; else let the future wait for it.

        :raises KeyReused, SlotFull, SlotStopped: it is not taken.
        """
        digest = _digest_of(submission)
        with self._changed:
            return self._take(submission, digest, future)

    def take_many(self, submissions: Sequence[Submission], group: Group) -> None:
        """Take calls as one unit: those that are taken wait for the same transaction, if it has room.

        What is known at once is settled in the group: the answer of an earlier call, or why one is not taken.
        """
        digests = [_digest_of(submission) for submission in submissions]
        with self._changed:
            for index, (submission, digest) in enumerate(zip(submissions, digests, strict=True)):
                try:
                    outcome: Outcome | None = self._take(submission, digest, Member(group, index))
                except (KeyReused, SlotFull, SlotStopped) as error:
                    outcome = error
                if outcome is not None:
                    group.settle(index, outcome)

    def _take(self, submission: Submission, digest: bytes, future: AnyFuture) -> bytes | None:
        if not self._is_open:
            raise SlotStopped(self._slot, self._reason)
        if submission.key:
            if (answer := self._find(digest, submission.key, submission.content)) is not None:
                return answer
            if self._queue.join(submission, digest, future):
                return None
        self._queue.add(Pending(submission, digest, future))
        self._changed.notify()
        return None

    def next_batch(self, most: int, most_bytes: int) -> list[Pending]:
        """Wait for calls, and return those for the next transaction; nothing once it is shut and none waits."""
        with self._changed:
            while not self._changed.wait_for(lambda: len(self._queue) or not self._is_open, _IDLE_S):
                self._window.expire(now_ms())
            return self._queue.take(most, most_bytes)

    def remember(self, accepted: Accepted) -> None:
        """Keep a key that the log has."""
        with self._changed:
            self._window.remember(accepted)

    def settle(self, calls: list[Pending], accepted: Mapping[bytes, Accepted]) -> None:
        """Remember the keys and answer the calls, in one step: a repeat finds either the call or its answer.

        Another process may have had the slot for a moment and accepted a repeat, so what was accepted counts.
        """
        outcomes: list[tuple[Pending, Outcome]] = []
        with self._changed:
            self._window.expire(now_ms())
            for call in calls:
                found = accepted[call.digest]
                if found.is_keyed:
                    self._window.remember(found)
                self._queue.settle(call)
                is_same = found.content == call.content
                outcomes.append((call, found.answer if is_same else KeyReused(call.submission.key)))
        resolve(outcomes)

    def settle_known(self, calls: list[Pending]) -> list[Pending]:
        """Settle calls whose keys were accepted while they waited, and return the others.

        Another process may have had the slot for a moment; the slot read what it accepted when it started again.
        """
        known: dict[bytes, Accepted] = {}
        with self._changed:
            time_ms = now_ms()
            for call in calls:
                if call.submission.key and (found := self._window.find(call.digest, time_ms)) is not None:
                    known[call.digest] = Accepted(call.digest, *found, is_keyed=True, time_ms=time_ms)
        if not known:
            return calls
        self.settle([call for call in calls if call.digest in known], known)
        return [call for call in calls if call.digest not in known]

    def fail(self, calls: list[Pending], failed: list[tuple[Pending, PipestreamError]]) -> list[Pending]:
        """Fail some calls, and return the others."""
        if not failed:
            return calls
        with self._changed:
            for call, _ in failed:
                self._queue.settle(call)
        resolve(failed)
        digests = {call.digest for call, _ in failed}
        return [call for call in calls if call.digest not in digests]

    def fail_rest(self, error: SlotStopped) -> None:
        """Fail every call that is not settled."""
        with self._changed:
            rest = self._queue.settle_all()
        resolve((call, error) for call in rest)

    def _find(self, digest: bytes, key: str, content: bytes) -> bytes | None:
        found = self._window.find(digest, now_ms())
        if found is None:
            return None
        if found[0] != (content or _NO_CONTENT):
            raise KeyReused(key)
        return found[1]


def _digest_of(submission: Submission) -> bytes:
    return key_digest(submission.key) if submission.key else os.urandom(DIGEST_BYTES)


def now_ms() -> int:
    return int(time.time() * 1_000)
