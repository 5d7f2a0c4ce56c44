"""One slot of the accepted log: gathers calls into transactions, and recognises repeated keys."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from pipestream import faults
from pipestream.accepted.calls import Calls, now_ms
from pipestream.accepted.queue import Group, Outcome, Pending
from pipestream.accepted.record import Accepted
from pipestream.accepted.submission import Submission
from pipestream.accepted.topic import accepted_topic
from pipestream.accepted.transactions import Transactions
from pipestream.errors import PipestreamError, ProducerFenced, SlotStopped, TransientError
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# A transaction of 1,000 small records commits in about 20 ms, so more at once would gain little and hold up the rest.
_MOST_CALLS = 1_000
_MOST_BYTES = 8_000_000
# A call whose transaction fails so often in passing ways gets one more try without the calls to other topics, and is
# given up then; the caller may repeat it.
_MOST_TRIES = 4
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


class AcceptedSlot:
    """The one process that accepts the keys of a slot.

    With a key, a call is accepted once within the window, whatever dies: the outputs and the key are in one
    transaction, and whoever has the slot next reads the keys before it takes calls. Without a key, a caller that
    repeats a call after a lost answer is accepted twice.

    Safe to share between threads once it is started.
    """

    def __init__(
        self,
        settings: Settings,
        slot: int,
        slots: int,
        name: str = "",
        check_ours: Callable[[], None] | None = None,
        on_stopped: Callable[[PipestreamError], None] | None = None,
    ) -> None:
        """:param name: of the group of engines that share the log; ``engine_name`` unless given.
        :param check_ours: raises where another process may have taken the slot over. Asked before a restart.
        :param on_stopped: called once, in the slot's thread, when it stops without being closed.
        """
        if not 0 <= slot < slots:
            raise ValueError(f"slot must be between 0 and {slots - 1}, not {slot}")
        self.slot = slot
        self.topic = accepted_topic(name or settings.engine_name)
        self.stopped = threading.Event()
        """Set once it takes no more calls, for whatever reason."""
        self._check_ours = check_ours or (lambda: None)
        self._on_stopped = on_stopped
        self._transactions = Transactions(settings, self.topic, slot, slots)
        self._calls = Calls(settings, slot)
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"accepted {slot}", daemon=True)

    def start(self) -> None:
        """Take the slot over, and take calls.

        1. Make or check the topic.
        2. Fence the predecessor, and settle what it left open.
        3. Read the keys it accepted.

        :raises AcceptedLogInvalid: the topic is set up for another number of slots or a shorter window.
        :raises BrokerUnavailable: no broker answered; start again.
        """
        try:
            self._transactions.prepare()
            self._read_log(set())
        except BaseException:
            self._transactions.close()
            raise
        self._calls.open()
        self._thread.start()

    def find(self, key: str, content: bytes) -> bytes | None:
        """Return the answer of an accepted call with this key, if there was one within the window.

        :raises KeyReused: it had other content.
        """
        return self._calls.find(key, content)

    def submit(self, submission: Submission) -> Future[bytes]:
        """Take a call. Its answer is there once its outputs are committed.

        The future raises RecordTooLarge, whose index is that of one of its outputs, or TopicMissing where Kafka cannot
        take them, and SlotStopped where the slot was lost on the way.

        :raises KeyReused: the key was used with other content.
        :raises SlotFull: too much waits already.
        :raises SlotStopped: the slot takes no calls.
        """
        future: Future[bytes] = Future()
        if (answer := self._calls.take(submission, future)) is not None:
            future.set_result(answer)
        return future

    def submit_from(self, loop: asyncio.AbstractEventLoop, submission: Submission) -> asyncio.Future[bytes]:
        """Do the same for a coroutine of the loop. Cheaper than to wrap a future of ``submit``."""
        future: asyncio.Future[bytes] = loop.create_future()
        if (answer := self._calls.take(submission, future)) is not None:
            future.set_result(answer)
        return future

    def submit_many_from(
        self, loop: asyncio.AbstractEventLoop, submissions: Sequence[Submission]
    ) -> asyncio.Future[list[Outcome]]:
        """Take calls as one unit, for a coroutine of the loop. The future has the outcome of each: answer or error."""
        group = Group(loop, len(submissions))
        self._calls.take_many(submissions, group)
        return group.future

    def close(self, timeout_s: float = 30.0) -> None:
        """Take no more calls, finish those that were taken, and give the slot back.

        What is not committed by then fails with SlotStopped.
        """
        self._calls.shut("it was closed")
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
            self._give_up.set()
        self._calls.fail_rest(SlotStopped(self.slot, "it was closed before the call was committed"))
        self.stopped.set()

    def _run(self) -> None:
        try:
            while batch := self._calls.next_batch(_MOST_CALLS, _MOST_BYTES):
                faults.reach(faults.CALLS_GATHERED)
                self._commit(batch)
        except PipestreamError as error:
            self._stop(error)
        except Exception as error:  # a bug must not leave callers waiting
            log.exception("slot %d of %s", self.slot, self.topic)
            self._stop(TransientError(f"unexpected {type(error).__name__}: {error}"))
        finally:
            self._transactions.close()

    def _commit(self, batch: list[Pending]) -> None:
        """Commit calls, and settle each of them.

        A call that Kafka refuses fails alone. After any other failure the outcome is unknown: the slot starts again,
        and the log says which calls were accepted. The others are sent again; see ``plan_tries``.
        """
        todo = [(batch, 1)]
        while todo:
            calls, attempt = todo.pop()
            try:
                todo += self._try(calls, attempt)
            except ProducerFenced:
                raise
            except PipestreamError as error:
                log.warning("slot %d of %s starts again: %s", self.slot, self.topic, error)
                rest = self._start_again(calls)
                todo += self._plan_again(rest, attempt, error)

    def _try(self, calls: list[Pending], attempt: int) -> list[tuple[list[Pending], int]]:
        """Commit calls in one transaction; return those to try again because one among them was refused."""
        calls = self._calls.settle_known(calls)
        calls = self._calls.fail(calls, self._transactions.find_unwritable(calls))
        if not calls:
            return []
        time_ms = now_ms()
        accepted = [_accepted(call, time_ms) for call in calls]
        refused = self._transactions.commit(calls, accepted, time_ms)
        if refused is not None:
            return [(self._calls.fail(calls, [refused]), attempt)]
        faults.reach(faults.CALLS_COMMITTED)
        self._calls.settle(calls, {each.digest: each for each in accepted})
        return []

    def _plan_again(
        self, calls: list[Pending], attempt: int, error: PipestreamError
    ) -> list[tuple[list[Pending], int]]:
        """Return what to commit after a failure. Where nothing more can be tried, the calls fail."""
        parts = plan_tries(calls, attempt, error)
        if not parts:
            self._calls.fail(calls, [(call, error) for call in calls])
        return parts

    def _start_again(self, calls: list[Pending]) -> list[Pending]:
        """Fence the own producer, read the log, settle what it has, and return the calls that were not accepted.

        :raises SlotStopped: the slot was closed meanwhile.
        :raises LeaseLost: another process may have the slot.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            self._check_ours()
            try:
                self._transactions.restart()
                found = self._read_log({call.digest for call in calls})
            except TransientError as error:
                log.warning("slot %d of %s cannot start yet: %s", self.slot, self.topic, error)
                if self._give_up.wait(pause_s):
                    raise SlotStopped(self.slot, "it was closed while the broker was away") from error
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._calls.settle([call for call in calls if call.digest in found], found)
                return [call for call in calls if call.digest not in found]

    def _read_log(self, wanted: set[bytes]) -> dict[bytes, Accepted]:
        """Remember the keys of the log, and return the calls that are wanted, with a key or not."""
        found: dict[bytes, Accepted] = {}
        for accepted in self._transactions.read():
            if accepted.digest in wanted:
                found[accepted.digest] = accepted
            if accepted.is_keyed:
                self._calls.remember(accepted)
        return found

    def _stop(self, error: PipestreamError) -> None:
        reason = "another process has taken it over" if isinstance(error, ProducerFenced) else str(error)
        log.error("slot %d of %s stops: %s", self.slot, self.topic, error)
        was_open = self._calls.shut(reason)
        self._calls.fail_rest(SlotStopped(self.slot, reason))
        self.stopped.set()
        if was_open and self._on_stopped is not None:
            self._on_stopped(error)


def plan_tries(calls: list[Pending], attempt: int, error: PipestreamError) -> list[tuple[list[Pending], int]]:
    """Return which calls of a failed transaction to commit together next, the last ones first. None: they are given up.

    A passing failure is tried again as a whole. If it stays, the calls are divided once, by the topics that they write
    to: halves would fail one by one for as long as a topic cannot be written to, and hold up all others. After any
    other failure, halves find the call to blame.
    """
    if error.transient and attempt < _MOST_TRIES:
        return [(calls, attempt + 1)] if calls else []
    parts = _by_topics(calls) if error.transient else [calls[len(calls) // 2 :], calls[: len(calls) // 2]]
    return [(part, attempt) for part in parts] if len(calls) > 1 and len(parts) > 1 else []


def _by_topics(calls: list[Pending]) -> list[list[Pending]]:
    parts: dict[frozenset[str], list[Pending]] = {}
    for call in calls:
        parts.setdefault(frozenset(output.topic for output in call.submission.outputs), []).append(call)
    return list(parts.values())


def _accepted(call: Pending, time_ms: int) -> Accepted:
    return Accepted(call.digest, call.content, call.submission.answer, bool(call.submission.key), time_ms)
