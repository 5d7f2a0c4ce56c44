"""The calls of a slot that wait for a transaction or are in one, and who waits for each of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future

from pipestream.accepted.submission import Submission
from pipestream.errors import KeyReused, SlotFull

Outcome = bytes | BaseException

_NO_CONTENT = bytes(16)


class Group:
    """Calls that one coroutine waits for together: one future has the outcomes of all. Used in its event loop alone."""

    __slots__ = ("_count", "_outcomes", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self.future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._outcomes: dict[int, Outcome] = {}
        self._count = count

    def settle(self, index: int, outcome: Outcome) -> None:
        """Note the outcome of a call. A slot that is closed may tell a second one, while it still commits."""
        self._outcomes.setdefault(index, outcome)
        if len(self._outcomes) == self._count and not self.future.done():
            self.future.set_result([self._outcomes[each] for each in range(self._count)])


class Member:
    """Stands for the future of one call of a group. A future for each call costs more than the call's other work."""

    __slots__ = ("_group", "_index")

    def __init__(self, group: Group, index: int) -> None:
        self._group = group
        self._index = index

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._group.future.get_loop()

    def done(self) -> bool:
        """Tell whether nobody waits any more."""
        return self._group.future.done()

    def set_result(self, answer: bytes) -> None:
        self._group.settle(self._index, answer)

    def set_exception(self, error: BaseException) -> None:
        self._group.settle(self._index, error)


AnyFuture = Future[bytes] | asyncio.Future[bytes] | Member


class Pending:
    """One call that is not settled, and everyone who waits for it."""

    __slots__ = ("content", "digest", "futures", "size_bytes", "submission")

    def __init__(self, submission: Submission, digest: bytes, future: AnyFuture) -> None:
        self.submission = submission
        self.digest = digest
        self.content = submission.content or _NO_CONTENT
        self.size_bytes = submission.size_bytes
        self.futures = [future]


class Queue:
    """Bounded by number and by bytes. Not safe to share between threads: the slot locks it."""

    def __init__(self, slot: int, most: int, most_bytes: int) -> None:
        self._slot = slot
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[Pending] = deque()
        self._unsettled: dict[bytes, Pending] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, submission: Submission, digest: bytes, future: AnyFuture) -> bool:
        """Let a repeat wait for the first call with its key, if that one is not settled yet.

        :raises KeyReused: that one has other content.
        """
        first = self._unsettled.get(digest)
        if first is None:
            return False
        if first.content != (submission.content or _NO_CONTENT):
            raise KeyReused(submission.key)
        first.futures.append(future)
        return True

    def add(self, pending: Pending) -> None:
        """Take a call.

        :raises SlotFull: there is no room. A single call larger than the bound is taken when it is alone.
        """
        is_full = self._bytes + pending.size_bytes > self._most_bytes and self._unsettled
        if is_full or len(self._unsettled) >= self._most:
            raise SlotFull(self._slot, len(self._unsettled), self._bytes)
        self._waiting.append(pending)
        self._unsettled[pending.digest] = pending
        self._bytes += pending.size_bytes

    def take(self, most: int, most_bytes: int) -> list[Pending]:
        """Return the calls for the next transaction, oldest first: at least one, if any waits."""
        taken: list[Pending] = []
        size_bytes = 0
        while self._waiting and len(taken) < most:
            size_bytes += self._waiting[0].size_bytes
            if taken and size_bytes > most_bytes:
                break
            taken.append(self._waiting.popleft())
        return taken

    def settle(self, pending: Pending) -> None:
        """Forget a call that was taken: its outcome is known."""
        if self._unsettled.pop(pending.digest, None) is not None:
            self._bytes -= pending.size_bytes

    def settle_all(self) -> list[Pending]:
        """Forget every call, waiting or taken, and return them."""
        rest = list(self._unsettled.values())
        self._waiting.clear()
        self._unsettled.clear()
        self._bytes = 0
        return rest


def resolve(outcomes: Iterable[tuple[Pending, Outcome]]) -> None:
    """Tell everyone who waits. An event loop is woken once for all its futures: that costs more than the rest."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[bytes] | Member, Outcome]]] = {}
    for pending, outcome in outcomes:
        for future in pending.futures:
            if isinstance(future, Future):
                if future.set_running_or_notify_cancel():
                    _set(future, outcome)
            else:
                by_loop.setdefault(future.get_loop(), []).append((future, outcome))
    for loop, futures in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits any more
            loop.call_soon_threadsafe(_resolve_in_loop, futures)


def _resolve_in_loop(futures: Iterable[tuple[asyncio.Future[bytes] | Member, Outcome]]) -> None:
    for future, outcome in futures:
        if not future.done():
            _set(future, outcome)


def _set(future: AnyFuture, outcome: Outcome) -> None:
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
