"""Every error this package raises on purpose, as a tree.

Those of one part only are defined beside what they are about; their module stands in brackets.

* PipestreamError
  - TransientError            a retry of the same work may succeed
    - LeaseUnavailable        another holder has the slot
    - LeaseLost               the slot was ours and no longer is
    - LeaseStoreUnavailable   Consul did not answer
    - BrokerUnavailable       no Kafka broker answered
    - StoreUnavailable        the object store did not answer
    - LedgerBusy              others wrote to the ledger at the same moment, so it was left as it was
    - CatalogueUnavailable    PostgreSQL did not answer
    - ModuleUnavailable       a module could not be reached, or ran out of time
    - TasksFailed             Spark gave up on the tasks of a run, or they were cancelled
    - PlannedTwice            another process planned the same action first [dead_letters.decisions]
    - InjectedFault           a test asked for it [faults]
  - TerminalError             a retry of the same work cannot succeed
    - SettingsInvalid         a setting, or what a command was told, cannot be used
    - ExtraMissing            a part is used whose libraries are not installed
    - GraphInvalid            a graph breaks a rule; it lists every problem
    - IdInvalid               an id that cannot become a topic, a key or a path
    - LedgerConflict          another run entered an overlapping range first
    - OffsetsExpired          Kafka deleted offsets that are to be read
    - TopicRewound            the ledger is ahead of the topic
      - TopicReplaced         the topic was deleted and made again
    - TopicMissing            a topic the graph needs is not on the broker
    - BrokerRefused           Kafka answers, and will not do what is asked
    - RangeMostlyFailing      most of a range fails, so the run stops before it fills the dead letters
    - StackError              a local server could not be found, started or stopped
      - AbandonedError        it was given up because another one failed [local.starter]
    - RecordTooLarge          Kafka refuses an output for its size
    - ProcessDied             processes died again and again while they worked on a document
    - RecordInvalid           a record is not a PipeStream, or lacks what a node needs
    - DocumentMissing         a reference names an object that is not there
    - ConditionError          an edge's condition failed on a document
    - MappingError            a mapping could not be applied to a document
    - ModuleFailed            a module answered with an error
    - HopsExceeded            a document went round more often than the graph allows
    - StartUnknown            a group's offsets do not say where to start [offsets.start]
    - BackfillInvalid         a backfill asks for something that cannot be [drain.backfill]
    - VersionMissing          there is no such version of a graph [graph.versions_model]
    - LetterMissing           no dead letter lies at the place that an id names [dead_letters.browse]
    - NoWayBack               no topic leads to the node a dead letter failed at [dead_letters.destinations]
    - ActionConflict          an action's id was used before for something else [dead_letters.decisions]
  - RangeFailed               a task could not finish its range; its cause says which of both [drain.range_task]
  - DeadLettersOff            a document failed at a node without dead letters; as its cause [drain.range_task]

Airflow retries a task on TransientError and fails it at once on TerminalError.
A record that fails goes to the dead letters (or to the graph's error-end), never to a retry of the whole range.
"""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class PipestreamError(Exception):
    """Base of every error raised on purpose by this package."""

    transient: bool = False
    """Whether a retry of the same work may succeed."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark sends executor errors home by pickle, whose default passes the message alone
        # to __init__ and so breaks every class below that is built from fields.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def printable(error: BaseException | str) -> str:
    """Return an error's message, or any text, as text that can be sent anywhere.

    A message may hold half a character, as the names of files do that are no UTF-8, and no wire format takes that.
    """
    return str(error).encode("utf-8", "replace").decode()


class TransientError(PipestreamError):
    """A retry of the same work may succeed."""

    transient = True


class TerminalError(PipestreamError):
    """A retry of the same work cannot succeed."""


class LeaseUnavailable(TransientError):
    """Another holder has the lease on a topic's slot."""

    def __init__(self, topic: str, slot: int, holder: str) -> None:
        self.topic = topic
        self.slot = slot
        self.holder = holder
        super().__init__(f"{topic} slot {slot} is leased by {holder}; it is free again when that run ends")


class LeaseLost(TransientError):
    """The lease on a topic's slot was ours and no longer is."""

    def __init__(self, topic: str, slot: int | None, reason: str) -> None:
        """:param slot: unknown to those who only hear from Kafka that another has taken over."""
        self.topic = topic
        self.slot = slot
        self.reason = reason
        place = topic if slot is None else f"{topic} slot {slot}"
        super().__init__(f"{place}: the lease was lost ({reason}); the run stops here, run it again")


class LeaseStoreUnavailable(TransientError):
    """Consul did not answer, or not in time."""


class BrokerUnavailable(TransientError):
    """No Kafka broker answered within the timeout."""


class StoreUnavailable(TransientError):
    """The object store did not answer, or not in time."""


class LedgerBusy(TransientError):
    """Others wrote to the ledger at the same moment, so it was left as it was."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the ledger was changed by others meanwhile: {reason}; run again")


class CatalogueUnavailable(TransientError):
    """PostgreSQL did not answer, or not in time."""


class ModuleUnavailable(TransientError):
    """A module could not be reached, or ran out of time."""


class TasksFailed(TransientError):
    """Spark gave up on the tasks of a run: their processes died again and again, or they were cancelled.

    What they committed before is kept, and the next run goes on there.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(
            f"Spark gave up on the run's tasks ({cause[:500]}); run again. If their processes die, look for a module "
            f"that ends its process or runs out of memory: each document it dies at becomes a dead letter after a few "
            f"tries (max_attempts), over as many runs as that takes"
        )


class SettingsInvalid(TerminalError):
    """A setting has a value that cannot be used."""


class ExtraMissing(TerminalError):
    """A part is used whose libraries are not installed."""

    def __init__(self, extra: str, module: str) -> None:
        self.extra = extra
        self.module = module
        super().__init__(f'{module} is not installed; install it with: pip install "pipestream-airflow[{extra}]"')


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a graph, and where."""

    file: str
    line: int | None
    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else self.file
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}: {self.field}: {self.message}{hint}"


class GraphInvalid(TerminalError):
    """A pipeline graph breaks a rule that no retry can mend."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class IdInvalid(TerminalError):
    """An id cannot become part of a topic, a key or a path."""


class LedgerConflict(TerminalError):
    """Another run entered an overlapping range first."""


def _rebaseline(topic: str) -> str:
    return f"pipestream ledger rebaseline --graph FILE --topic {topic} --to earliest (or latest, or a time)"


class OffsetsExpired(TerminalError):
    """Kafka no longer holds offsets that are to be read."""

    def __init__(self, topic: str, partition: int, start: int, earliest: int, way_out: str = "") -> None:
        """:param way_out: what to do for those who do not read at the ledger's live heads."""
        self.topic = topic
        self.partition = partition
        self.start = start
        self.earliest = earliest
        self.way_out = way_out or (
            f"give them up and go on with what is left: {_rebaseline(topic)}. So that it does not happen again, raise "
            f"retention_hours in the graph"
        )
        super().__init__(
            f"{topic}[{partition}]: offsets {start}..{earliest - 1} were deleted by retention before they were read; "
            f"{self.way_out}"
        )


class TopicRewound(TerminalError):
    """The ledger is ahead of the topic, so the topic was truncated or made again."""

    def __init__(self, topic: str, partition: int, head: int, high: int) -> None:
        self.topic = topic
        self.partition = partition
        self.head = head
        self.high = high
        super().__init__(
            f"{topic}[{partition}]: the ledger's head is {head} but the topic ends at {high}, or was made again; "
            f"say where to go on: {_rebaseline(topic)}"
        )


class TopicReplaced(TopicRewound):
    """The topic was deleted and made again under the same name, so the ledger's heads mean another topic's offsets."""

    def __init__(self, topic: str, way_out: str = "") -> None:
        self.topic = topic
        self.way_out = way_out or f"say where to go on: {_rebaseline(topic)}"
        PipestreamError.__init__(
            self, f"{topic} was deleted and made again since the ledger's last entry; {self.way_out}"
        )


class TopicMissing(TerminalError):
    """A topic the graph needs is not on the broker."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic} does not exist; apply the graph that needs it: pipestream graph apply FILE")


class BrokerRefused(TerminalError):
    """Kafka answers, and will not do what is asked: it is not allowed, or not possible as it is asked."""


class RangeMostlyFailing(TerminalError):
    """Most records of a range fail, so the cause is not the records."""

    def __init__(self, ranges: str, failed: int, seen: int, example: str) -> None:
        self.ranges = ranges
        self.failed = failed
        self.seen = seen
        self.example = example
        super().__init__(
            f"{ranges}: {failed} of {seen} records failed, so the run stopped before writing "
            f"their dead letters. The last one: {example}. Mend the cause and run again, or have them all as dead "
            f"letters with --accept-failures (in Airflow: accept_failures in the form)"
        )


class StackError(TerminalError):
    """A local server could not be found, started or stopped."""


class RecordTooLarge(TerminalError):
    """Kafka refuses an output for its size, even compressed and in a batch of its own."""

    def __init__(self, drained: str, topic: str, size_bytes: int, limit_bytes: int, index: int) -> None:
        self.drained = drained
        self.topic = topic
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.index = index
        """Which of the outputs that were to be sent together."""
        super().__init__(
            f"{drained}: Kafka refuses an output of {size_bytes} bytes for {topic}, which takes up to {limit_bytes} "
            f"(compressed); raise max.message.bytes of that topic, then run or replay again"
        )


class ProcessDied(TerminalError):
    """Processes died again and again while they worked on a document, so it is not tried any more."""

    def __init__(self, node_ids: Sequence[str], deaths: int) -> None:
        self.node_ids = tuple(node_ids)
        self.deaths = deaths
        first, *fused = self.node_ids
        others = f" or at {', '.join(fused)} behind it" if fused else ""
        times = "once" if deaths == 1 else f"{deaths} times"
        super().__init__(
            f"the process died {times} with this document alone in hand, at node {first}{others}; look in the log of "
            f"the Spark worker (or of the run) for a crash, and in the machine's for a process killed for its memory; "
            f"mend the module or put it behind grpc: or unix:, then replay"
        )


class RecordInvalid(TerminalError):
    """A record is not a PipeStream, or lacks what a node needs."""


class DocumentMissing(TerminalError):
    """A reference names an object that is not in the store."""


class ConditionError(TerminalError):
    """An edge's condition failed on a document."""

    def __init__(self, edge_id: str, reason: str) -> None:
        self.edge_id = edge_id
        self.reason = reason
        super().__init__(f"condition of edge {edge_id}: {reason}")


class MappingError(TerminalError):
    """A mapping could not be applied to a document."""


class ModuleFailed(TerminalError):
    """A module answered with an error, or raised one."""


class HopsExceeded(TerminalError):
    """A document went round more often than the graph allows."""
