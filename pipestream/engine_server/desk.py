"""Carry what a call brings through its graphs, and make the results durable.

The same functions as in a drain; only the two ends differ. What arrives is a call, and what leaves goes into the shared
transaction of the engine's slot:

1. A key that was accepted before is answered as the first time, and nothing is done.
2. Take in, process, route: in the loop where nothing blocks, else in a thread.
3. Store the objects.
4. Submit outputs, key and answer to the slot; the call is answered when their transaction is committed.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pipestream.accepted import Submission
from pipestream.engine.carry import Carrier, RecordResult
from pipestream.engine.intake import Arrival, admit, decode_stream, take_in
from pipestream.engine.process import Emission
from pipestream.engine_server.objects import ObjectPutter
from pipestream.errors import Overloaded, PipestreamError, RecordTooLarge
from pipestream.kafka.records import OutputRecord
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.accepted import AcceptedSlot
    from pipestream.drain.packing import Packer
    from pipestream.engine.passing import Passage
    from pipestream.engine_server.inline_passage import InlinePassage
    from pipestream.engine_server.slots import Slots

log = logging.getLogger(__name__)


# Those of which one is made for every call are named tuples: a frozen dataclass takes three times as long.


class Job(NamedTuple):
    """One arrival at one graph."""

    carrier: Carrier
    arrival: Arrival
    is_blocking: bool
    """Whether it calls a module, or fetches a document, and so must not run in the event loop."""
    packer: Packer
    """Puts documents of the graph into segments."""
    seen: Callable[[Emission], None] = lambda _: None
    passage: Passage | None = None
    """What may pass its document on in the event loop."""
    inline_passage: InlinePassage | None = None
    """What may do so without writing the stream again."""


class Keyed(NamedTuple):
    """A call's idempotency key and content, in the slot that accepts them."""

    slot: AcceptedSlot
    key: str = ""
    content: bytes = b""

    def origin(self) -> str:
        """Return what the ids of this call's streams are derived from: the same for a repeat, and of no other call.

        A key may come again with other content once its window is over. So the content is a part of it: else the second
        document would overwrite the objects of the first, which may still be on its way.
        """
        return f"engine/{self.key}/{self.content.hex()}" if self.key else f"engine/{uuid.uuid4()}"

    def find(self) -> bytes | None:
        """Return the answer of an earlier call with the same key.

        :raises KeyReused: it had other content.
        """
        return self.slot.find(self.key, self.content) if self.key else None


@dataclass(slots=True)
class Counts:
    """What an engine process has done since it started."""

    calls: int = 0
    """Calls whose document was processed; a repeat of a key is not."""
    opened: int = 0
    """Those for which a graph had to be opened first."""
    seconds: float = 0.0


class Desk:
    """What all calls of one engine process share. Make it in the loop."""

    def __init__(self, settings: Settings, slots: Slots, store: ObjectStore) -> None:
        self.settings = settings
        self.store = store
        self._slots = slots
        self._pool = ThreadPoolExecutor(settings.engine_threads, thread_name_prefix="engine")
        self._io = ThreadPoolExecutor(4, thread_name_prefix="engine-objects")
        self._putter = ObjectPutter(store, self._io)
        self._in_threads = 0
        self.counts = Counts()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._io.shutdown(wait=False, cancel_futures=True)

    def keyed(self, key: str, content: bytes) -> Keyed:
        """Return the slot for a call.

        :raises NotOwner: the slot of this key is another process's.
        :raises SlotStopped: no slot takes calls.
        """
        return Keyed(self._slots.for_key(key) if key else self._slots.any(), key, content)

    async def carry(self, jobs: Sequence[Job], deadline: float | None) -> list[RecordResult]:
        """Process arrivals.

        :param deadline: when the caller stops waiting, by ``time.monotonic``.
        :raises TimeBudgetSpent: that is over. Nobody waits for the result, so it is not accepted.
        :raises Overloaded: as much waits for threads as may.
        :raises PipestreamError: nothing was done; for some, the same call may succeed later.
        """
        if not any(job.is_blocking for job in jobs):
            return self.carry_now(jobs, deadline)
        started = time.monotonic()
        results = [await self._carry(job, deadline) for job in jobs]
        self._count(started)
        return results

    def carry_now(self, jobs: Sequence[Job], deadline: float | None) -> list[RecordResult]:
        """Process arrivals that wait for nothing, in the event loop. Raises as ``carry``."""
        started = time.monotonic()
        results = [carry_job(job, self.store, deadline) for job in jobs]
        self._count(started)
        return results

    async def commit(
        self, jobs: Sequence[Job], results: list[RecordResult], keyed: Keyed, answer: Callable[[], bytes]
    ) -> bytes:
        """Make results durable, and return the answer of the call that counts: this one's, or the first with its key.

        An arrival whose output is too large for Kafka is given up, as in a drain.
        """
        while True:
            await self.put_results(jobs, results)
            try:
                return await self.submit_soon(outputs_of(results), keyed, answer())
            except RecordTooLarge as error:
                give_up_refused(jobs, results, error)

    async def put(self, objects: dict[str, bytes]) -> None:
        """Store objects, together with those of other calls."""
        if objects:
            await self._putter.put(objects)

    async def put_results(self, jobs: Sequence[Job], results: Sequence[RecordResult]) -> None:
        """Store the objects of results, together with those of other calls. The outputs may then refer to segments."""
        if not any(result.objects for result in results):
            return
        with ExitStack() as timing:
            # Calls of one graph that are stored together count as one step of it.
            for meter in dict.fromkeys(job.carrier.services.meter for job in jobs):
                timing.enter_context(meter.timed("dispatch"))
            await self._putter.put_results([(job.packer, result) for job, result in zip(jobs, results, strict=True)])

    def submit_soon(self, outputs: Sequence[OutputRecord], keyed: Keyed, answer: bytes) -> asyncio.Future[bytes]:
        """Submit to the slot. The future has the answer once it is committed."""
        submission = Submission(outputs, answer, keyed.key, keyed.content)
        return keyed.slot.submit_from(asyncio.get_running_loop(), submission)

    async def submit_together(
        self, calls: Sequence[tuple[Sequence[OutputRecord], Keyed, bytes]]
    ) -> list[bytes | BaseException]:
        """Submit outputs, key and answer of several calls; return the answer of each, or its error, once all are known.

        There is one wait for each slot, and not one for each call.
        """
        outcomes: list[bytes | BaseException] = [b""] * len(calls)
        by_slot: dict[AcceptedSlot, dict[int, Submission]] = {}
        for place, (outputs, keyed, answer) in enumerate(calls):
            try:
                submission = Submission(outputs, answer, keyed.key, keyed.content)
            except PipestreamError as error:
                outcomes[place] = error
            else:
                by_slot.setdefault(keyed.slot, {})[place] = submission
        loop = asyncio.get_running_loop()
        waiting = {slot: slot.submit_many_from(loop, list(own.values())) for slot, own in by_slot.items()}
        for slot, own in by_slot.items():
            for place, outcome in zip(own, await waiting[slot], strict=True):
                outcomes[place] = outcome
        return outcomes

    def _count(self, started: float) -> None:
        self.counts.calls += 1
        self.counts.seconds += time.monotonic() - started

    async def _carry(self, job: Job, deadline: float | None) -> RecordResult:
        if not job.is_blocking:
            return carry_job(job, self.store, deadline)
        if self._in_threads >= self.settings.engine_threads + self.settings.engine_threads_waiting:
            raise Overloaded(f"{self._in_threads} calls wait for modules, as many as may; try again")
        self._in_threads += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, carry_job, job, self.store, deadline)
        finally:
            self._in_threads -= 1


def carry_job(job: Job, store: ObjectStore, deadline: float | None) -> RecordResult:
    """Take an arrival in and carry it.

    :raises TimeBudgetSpent: the deadline has passed.
    :raises PipestreamError: it cannot enter. A drain would make a dead letter of it; a caller is told.
    """
    arrival, entrance = job.arrival, job.carrier.entrance
    if job.passage is None or job.is_blocking or (deadline is not None and deadline <= time.monotonic()):
        (stream,) = take_in([arrival], entrance, store, job.carrier.time_hydration)
        if isinstance(stream, PipestreamError):
            raise stream
        return job.carrier.carry(arrival, stream, job.seen, deadline)
    # As ``take_in``, of one arrival that has its document with it.
    stream = decode_stream(arrival.record.value) if arrival.stream is None else arrival.stream
    inline = _pass_on_inline(job, stream)
    if inline is not None:
        return inline
    admit(stream, entrance, arrival.origin)
    try:
        result = job.passage.pass_on(arrival.record, stream)
    except Exception:
        # As in a drain, a bug must not lose the document. The stream may have changed by now.
        log.exception("a document at node %s could not be passed on", entrance.node_id)
        return carry_job(job._replace(arrival=arrival._replace(stream=None), passage=None), store, deadline)
    return job.carrier.carry(arrival, stream, job.seen, deadline) if result is None else result


def _pass_on_inline(job: Job, stream: PipeStream) -> RecordResult | None:
    """Return the result of a document that stays in its record; None if it has to go the longer way."""
    if job.inline_passage is None:
        return None
    try:
        return job.inline_passage.pass_on(job.arrival, stream)
    except Exception:
        # A bug must not lose the document. The stream is as it was.
        log.exception("a document at node %s could not be passed on", job.carrier.entrance.node_id)
        return None


def outputs_of(results: Sequence[RecordResult]) -> list[OutputRecord]:
    return [output for result in results for output in result.outputs]


def give_up_refused(jobs: Sequence[Job], results: list[RecordResult], error: RecordTooLarge) -> None:
    """Replace the result whose output Kafka refuses for its size: its arrival is given up, as in a drain.

    :raises RecordTooLarge: it was given up before, and Kafka refuses even its dead letter.
    """
    index = _owner(results, error.index)
    results[index] = _give_up(jobs[index], results[index], error)


def _owner(results: Sequence[RecordResult], index: int) -> int:
    """Return which result has an output, by its place among all."""
    for place, result in enumerate(results):
        if index < len(result.outputs):
            return place
        index -= len(result.outputs)
    raise IndexError("the results have fewer outputs")


def _give_up(job: Job, refused: RecordResult, error: RecordTooLarge) -> RecordResult:
    if refused.is_given_up and refused.dead_letters:
        raise error
    # If it was given up before, and the error-end refuses it too, the first reason stays.
    reason: PipestreamError = refused.error if refused.is_given_up and refused.error else error
    return job.carrier.give_up(job.arrival, reason, attempts=1, as_dead_letter=refused.is_given_up)
