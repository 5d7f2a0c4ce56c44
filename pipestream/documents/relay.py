"""The relay of one datasource: it publishes what waits in the outbox, each reference exactly once.

1. Take the lock of the datasource's lane while publishing, so that two relays seldom meet. Nothing depends on it.
2. Start the lane's transactional producer. It fences every earlier relay, and settles what that one left open.
3. Take over the lane in PostgreSQL: an earlier relay can claim and settle nothing any more.
4. A batch that was claimed and not settled is either published or not. The last batch id in the log topic tells: it is
   written in the same Kafka transaction as the references. Settle the batch, or publish it now.
5. Claim what waits as a batch with a new id, publish it together with its id in one transaction, settle it; repeat.

A relay that is not overtaken begins with step 5 the next time.

The log topic is compacted: it keeps the last batch id of every datasource forever. A group's committed offset would
serve as well, but Kafka forgets it after a week without use. The id is drawn at random and does not count up: a
database that was restored or created again would count the same numbers again, and take its batches for published.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream import faults
from pipestream.errors import BrokerUnavailable, Overtaken
from pipestream.kafka.compacted import CompactedTopic
from pipestream.kafka.records import OutputRecord
from pipestream.kafka.writer import TransactionalWriter
from pipestream.topic_names import intake_topic

if TYPE_CHECKING:
    from pipestream.documents.outbox import Batch, Outbox, Waiting
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

LOG_TOPIC = "repository.outbox"
_BATCH_RECORDS = 2_000
# What a dead relay left open holds back the readers of its intake topic for this long, unless a new relay starts.
_TRANSACTION_TIMEOUT_S = 10.0
# While another process has the lane: how often to look whether it has published ours, or has gone.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.2


def transactional_id(datasource_id: str) -> str:
    """Return the id under which the references of a datasource are published."""
    return f"{LOG_TOPIC}/{datasource_id}"


@dataclass(frozen=True, slots=True)
class _Lane:
    """What a relay has while nobody has overtaken it."""

    writer: TransactionalWriter
    token: int


class Relay:
    """Publishes the references of one datasource. Not safe to share between threads."""

    def __init__(self, settings: Settings, outbox: Outbox, datasource_id: str) -> None:
        self._settings = settings
        self._outbox = outbox
        self._datasource_id = datasource_id
        self._topic = intake_topic(datasource_id)
        self._log = CompactedTopic(settings, LOG_TOPIC)
        self._lane: _Lane | None = None

    def close(self) -> None:
        """End the producer."""
        self._leave()

    def start(self) -> None:
        """Start the producer, if no other process is at it, so that the first publication need not wait for it.

        :raises BrokerUnavailable, DatabaseUnavailable: it is tried again by the first publication.
        """
        with self._outbox.lock(self._datasource_id) as is_ours:
            if is_ours and self._lane is None:
                self._start()

    def publish_waiting(self) -> set[int] | None:
        """Publish what waits; return the numbers of the references, or None while another process is at it.

        :raises Overtaken: another relay took over, and publishes the rest.
        :raises BrokerUnavailable, DatabaseUnavailable: repeat it.
        """
        with self._outbox.lock(self._datasource_id) as is_ours:
            if not is_ours:
                return None
            faults.reach(faults.OUTBOX_LOCKED)
            published = self._start() if self._lane is None else set()
            while True:
                batch = self._publish_next()
                published.update(each.id for each in batch.waiting)
                if len(batch.waiting) < _BATCH_RECORDS:
                    return published

    def publish(self, ids: Collection[int]) -> None:
        """Return when these references are in Kafka, whichever process has published them.

        :raises BrokerUnavailable, DatabaseUnavailable: it is not known whether they are. They are published once, by
            whoever is next.
        """
        left = set(ids)
        timeout_s = 2 * self._settings.kafka_timeout_s
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while left:
            with suppress(Overtaken):
                left -= self.publish_waiting() or set()
            if left:
                left = self._outbox.which_wait(list(left))
            if left and time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"{self._topic}: another process has not published {len(left)} references for {timeout_s:g} s; "
                    f"look at its log"
                )
            if left:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _start(self) -> set[int]:
        """Fence who published before, and bring to its end what that one has begun; return its references."""
        self._log.ensure()
        with ExitStack() as started:
            writer = started.enter_context(
                TransactionalWriter(
                    self._settings, [transactional_id(self._datasource_id)], self._topic, _TRANSACTION_TIMEOUT_S
                )
            )
            faults.reach(faults.OUTBOX_FENCED)
            token, left = self._outbox.take_over(self._datasource_id)
            started.pop_all()
        self._lane = _Lane(writer, token)
        if left is None:
            return set()
        self._finish(left)
        return {each.id for each in left.waiting}

    def _publish_next(self) -> Batch:
        with self._step() as lane:
            batch = self._outbox.claim(self._datasource_id, lane.token, uuid.uuid4().hex, _BATCH_RECORDS)
            if batch.waiting:
                faults.reach(faults.OUTBOX_CLAIMED)
                self._send(lane, batch)
        return batch

    def _finish(self, batch: Batch) -> None:
        """Bring a batch to its end that an earlier relay has claimed."""
        with self._step() as lane:
            if self._log.latest(self._datasource_id.encode()) == batch.batch_id.encode():
                log.info("%s: batch %s was published, and is settled now", self._topic, batch.batch_id)
                self._outbox.settle(self._datasource_id, lane.token, batch)
            else:
                self._send(lane, batch)

    def _send(self, lane: _Lane, batch: Batch) -> None:
        if batch.waiting:
            lane.writer.commit([*(_record(self._topic, each) for each in batch.waiting), self._note(batch)])
        faults.reach(faults.OUTBOX_PUBLISHED)
        self._outbox.settle(self._datasource_id, lane.token, batch)
        faults.reach(faults.OUTBOX_SETTLED)

    def _note(self, batch: Batch) -> OutputRecord:
        return OutputRecord(LOG_TOPIC, self._datasource_id.encode(), batch.batch_id.encode())

    @contextmanager
    def _step(self) -> Iterator[_Lane]:
        """Do a step in the lane. Whatever fails, leave it: only the next start finds out how the step ended."""
        assert self._lane is not None
        try:
            yield self._lane
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.writer.close()


def _record(topic: str, waiting: Waiting) -> OutputRecord:
    headers = tuple((name, value.encode()) for name, value in waiting.headers.items())
    return OutputRecord(topic, waiting.doc_id.encode(), waiting.value, headers)
