"""Every error this package raises on purpose, as a tree.

An error in square brackets is defined in that module, next to what it is about. The word in round brackets says what
the error concerns (``PipestreamError.concerns``); without one it is the run.

* PipestreamError
  - TransientError            a retry of the same work may succeed
    - Overtaken               another run has taken over what this one worked on (range)
      - LeaseLost             the slot was ours and no longer is (range)
      - ProducerFenced        a newer producer writes under the same transactional id (range)
      - LaneLost              another relay publishes the uploads of a datasource [documents.outbox] (range)
    - LeaseUnavailable        another holder has the slot (range)
    - LeaseStoreUnavailable   the lease store did not answer
    - BrokerUnavailable       no Kafka broker answered (range)
    - SidecarUnavailable      a sidecar that is to be managed does not answer
    - SourceUnavailable       the source of a connector did not answer
    - StoreUnavailable        the object store did not answer (range)
    - LedgerBusy              others wrote to the ledger at the same moment, so nothing was written
    - DatabaseUnavailable     PostgreSQL did not answer
    - ModuleUnavailable       a module could not be reached, or ran out of time (record)
      - ModuleTimeout         it took longer than its node allows (record)
    - ModuleDown              a module did not come back while its calls were held back (range)
    - TimeBudgetSpent         the time that a caller gave a document is over (record)
    - Overloaded              a server has as much to do as it takes at once (record)
      - SlotFull              as many calls as an engine's slot takes wait for their transaction (record)
    - NotOwner                another process of the engine has the slot of a key (record)
    - SlotStopped             a slot of the engine stopped, or another process has it (record)
    - TasksFailed             Spark gave up on the tasks of a run, or they were cancelled
    - SparkUnavailable        a Spark Connect server does not answer
    - PlannedTwice            another process planned the same action first [dead_letters.decisions]
    - GuardGone               the guard of a server does not answer [live.owner]
    - ComparisonFailed        the process that compares two graphs ended without a result [comparison.apart]
  - TerminalError             a retry of the same work cannot succeed
    - SettingsInvalid         a setting has a value that cannot be used
    - ExtraMissing            a part is used whose libraries are not installed
    - SparkRefused            a Spark Connect server does not accept the token
    - RequestInvalid          a command or a call asks for something impossible
      - BackfillInvalid       a backfill asks for something impossible [drain.backfill]
      - NodeProblems          a stream cannot be processed at its node [engine_server.nodes]
    - NodeNotReady            an engine can process no stream at a node as it is now [engine_server.nodes]
    - HttpRefusal             a request over HTTP cannot be served [repository_server.answers]
    - DatasourceUnknown       no applied graph has the datasource
    - DatasourceContested     applied graphs have the datasource for different accounts
    - PluginBroken            a plugin cannot be imported, or fails
    - GraphInvalid            a graph breaks a rule; it lists every problem
    - GraphInUse              a graph that is to be deleted is still in use
    - IdInvalid               an id that cannot become a topic, a key or a path (record)
    - ConnectorInvalid        there is no such connector, or its options cannot be used
    - SourceUnreadable        a connector's source as a whole cannot be read
    - DatabaseRefused         PostgreSQL answers, but refuses the request
    - LeaseStoreRefused       the lease store answers, but refuses the request
    - DesiredStateInvalid     the value that a lease store holds is not the desired state of a topic
    - StoreRefused            the object store answers, but refuses the request
    - LedgerDamaged           a table of the ledger cannot be read
    - OtherVersion            another version of Pipestream wrote what is to be read
    - LedgerConflict          another run recorded an overlapping range first (range)
    - OffsetsExpired          Kafka deleted offsets that are to be read (range)
    - TopicRewound            the ledger is ahead of the topic (range)
      - TopicReplaced         the topic was deleted and created again (range)
    - TopicMissing            a topic the graph needs is not on the broker
    - BrokerRefused           Kafka answers, but refuses the request (range)
    - RangeMostlyFailing      most of a range fails, so the run stops before it fills the dead letters (range)
    - StackError              a local server could not be found, started or stopped
      - AbandonedError        it was given up because another one failed [local.starter]
    - RecordTooLarge          Kafka refuses an output for its size (record)
      - AnswerTooLarge        a stored object is larger than an answer may be [repository_server.service] (record)
    - ProcessDied             processes died again and again while they worked on a document (record)
    - KeyReused               an idempotency key comes again with other content (record)
    - AcceptedLogInvalid      the accepted log cannot be used as it is
    - RecordInvalid           a record is not a PipeStream, or lacks what a node needs (record)
    - SegmentDamaged          a segment does not have the document that a reference names (record)
    - DocumentMissing         a reference names an object that is not there (record)
    - ConditionError          an edge's condition failed on a document (record)
    - MappingError            a mapping could not be applied to a document (record)
    - ModuleFailed            a module answered with an error (record)
    - HopsExceeded            a document took more hops than the graph allows (record)
    - StartUnknown            a group's offsets do not say where to start [offsets.start]
    - VersionMissing          there is no such version of a graph [deployment.versions]
    - VersionConflict         a change of a graph starts from a version that is not active [deployment.versions]
    - PipelineMissing         no graph of this id was applied, and no file has one [views.pipelines]
    - LetterMissing           no dead letter is at the place that an id names [dead_letters.browse]
    - NoWayBack               no topic leads to the node a dead letter failed at [dead_letters.destinations]
    - ActionConflict          an action's id was used before for something else [dead_letters.decisions]
    - ApprovalNeeded          a replay is so large that somebody has to approve it [dead_letters.approval]
    - HeadsMoved              a topic was drained since somebody looked where its heads are [drain.rebaseline]
  - RangeFailed               a task could not finish its range; its cause decides which [drain.range_task] (range)
  - DeadLettersOff            a document failed at a node without dead letters [engine.dead_letter_record] (range)

Airflow retries a task on TransientError and fails it at once on TerminalError.
A record that fails goes to the dead letters (or to the graph's error-end), never to a retry of the whole range.

Names of errors are kept in the headers of dead letters. If you rename one, add it to ``RENAMED``.
"""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.wire import LogEntry


RENAMED = {"CatalogueUnavailable": "DatabaseUnavailable"}
"""Names that errors had before, as older dead letters have them, and the names they have now."""


class Concern(StrEnum):
    """How much an error affects."""

    RECORD = "record"
    """One record, or the document in it: it becomes a dead letter, and the others are processed."""
    RANGE = "range"
    """One range: its task stops there, and other ranges are drained."""
    RUN = "run"
    """The whole run, or command: nothing of it can continue."""

    @property
    def width(self) -> int:
        """Return a number that grows with what is affected."""
        return list(Concern).index(self)


def names_of(error_name: str) -> set[str]:
    """Return all names under which an error is or was known, the given one among them."""
    now = RENAMED.get(error_name, error_name)
    return {error_name, now, *(old for old, new in RENAMED.items() if new == now)}


class PipestreamError(Exception):
    """Base of every error raised on purpose by this package."""

    transient: bool = False
    """Whether a retry of the same work may succeed."""
    concerns: Concern = Concern.RUN
    """How much it affects."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark sends executor errors to the driver by pickle. Its default passes only the message
        # to __init__, which breaks every class below that is built from fields.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def printable(error: BaseException | str) -> str:
    """Return an error's message, or any text, as text that can be sent anywhere.

    A message may hold half a character, from the name of a file that is not UTF-8. No wire format accepts that.
    """
    return str(error).encode("utf-8", "replace").decode()


class TransientError(PipestreamError):
    """A retry of the same work may succeed."""

    transient = True


class TerminalError(PipestreamError):
    """A retry of the same work cannot succeed."""


class Overtaken(TransientError):
    """Another run has taken over the work of this one. This one writes nothing more."""

    concerns = Concern.RANGE


class LeaseUnavailable(TransientError):
    """Another holder has the lease on a topic's slot."""

    concerns = Concern.RANGE

    def __init__(self, topic: str, slot: int, holder: str) -> None:
        self.topic = topic
        self.slot = slot
        self.holder = holder
        super().__init__(f"{topic} slot {slot} is leased by {holder}; it is free again when that run ends")


class LeaseLost(Overtaken):
    """The lease on a topic's slot was ours and no longer is."""

    def __init__(self, topic: str, slot: int, reason: str) -> None:
        self.topic = topic
        self.slot = slot
        self.reason = reason
        super().__init__(f"{topic} slot {slot}: the lease was lost ({reason}); the run stops here, run it again")


class ProducerFenced(Overtaken):
    """A newer producer has started under the same transactional id, so Kafka accepts nothing more from this one."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"{topic}: a newer run took over and fenced this one; it stops here, run it again")


class LeaseStoreUnavailable(TransientError):
    """The lease store did not answer, or not in time."""


class BrokerUnavailable(TransientError):
    """No Kafka broker answered within the timeout."""

    concerns = Concern.RANGE


class SidecarUnavailable(TransientError):
    """A sidecar that is to be managed does not answer, or refuses the call."""

    def __init__(self, address: str, status: str, details: str) -> None:
        self.address = address
        self.status = status
        super().__init__(
            f"no sidecar answers at {address} ({status}: {details[:300]}); start one with `pipestream sidecar`, or "
            f"name its address with --address"
        )


class SourceUnavailable(TransientError):
    """The source of a connector did not answer, or not as it should."""


class StoreUnavailable(TransientError):
    """The object store did not answer, or not in time."""

    concerns = Concern.RANGE


class LedgerBusy(TransientError):
    """Others wrote to the ledger at the same moment, so nothing was written."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the ledger was changed by others meanwhile: {reason}; run again")


class DatabaseUnavailable(TransientError):
    """PostgreSQL did not answer, or not in time."""


class ModuleUnavailable(TransientError):
    """A module could not be reached, or ran out of time."""

    concerns = Concern.RECORD

    def __init__(self, message: str, *, error_type: str = "") -> None:
        """:param error_type: the name of the error for histories and dead letters, such as RESOURCE_EXHAUSTED."""
        self.error_type = error_type
        super().__init__(message)


class ModuleTimeout(ModuleUnavailable):
    """A module took longer than its node allows."""


class ModuleDown(TransientError):
    """A module did not come back while its calls were held back.

    No document is to blame, so none becomes a dead letter: the range stops, and the next run continues there.
    """

    concerns = Concern.RANGE

    def __init__(self, module: str, reason: str, waited_s: float) -> None:
        self.module = module
        self.reason = reason
        self.waited_s = waited_s
        super().__init__(
            f"{module} is down ({reason}) and did not come back within {waited_s:g} s; its documents wait where they "
            f"are. Start it, then run again"
        )


class TimeBudgetSpent(TransientError):
    """The time that a caller gave a document is over, so nothing was decided about it."""

    concerns = Concern.RECORD

    def __init__(self, place: str) -> None:
        """:param place: what it was at then, such as ``node first``."""
        self.place = place
        super().__init__(f"the time budget of the document ended at {place}; repeat it with more time")


class Overloaded(TransientError):
    """A server has as much to do as it takes at once. The caller tries again after a pause."""

    concerns = Concern.RECORD


class TasksFailed(TransientError):
    """Spark gave up on the tasks of a run: their processes died again and again, or they were cancelled.

    What they committed before is kept, and the next run continues there.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(
            f"Spark gave up on the run's tasks ({cause[:500]}); run again. If their processes die, look for a module "
            f"that ends its process or runs out of memory: each document it dies at becomes a dead letter after a few "
            f"tries (max_attempts), over as many runs as that takes"
        )


class SparkUnavailable(TransientError):
    """A Spark Connect server does not answer."""

    def __init__(self, address: str, cause: str) -> None:
        self.address = address
        self.cause = cause
        super().__init__(f"no Spark Connect server answers at {address} ({cause})")


class SlotFull(Overloaded):
    """As many calls as an engine's slot takes wait for their transaction, so this one was not taken."""

    concerns = Concern.RECORD

    def __init__(self, slot: int, waiting: int, waiting_bytes: int) -> None:
        self.slot = slot
        self.waiting = waiting
        self.waiting_bytes = waiting_bytes
        super().__init__(
            f"slot {slot} of the engine has {waiting} calls with {waiting_bytes} bytes waiting to be committed; "
            f"send more slowly, or call again later"
        )


class NotOwner(TransientError):
    """Another process of the engine has the slot of a key, or none has it at the moment."""

    concerns = Concern.RECORD

    def __init__(self, slot: int, owner: str) -> None:
        self.slot = slot
        self.owner = owner
        """The address at which the owner takes calls; empty where nobody is known to have it."""
        where = f"{owner} has it; call there, or" if owner else "no process has it at the moment;"
        super().__init__(f"slot {slot} of the engine is not here: {where} try again")


class SlotStopped(TransientError):
    """A slot of the engine stopped, or another process has it. Whether a call was accepted, a repeat finds out."""

    concerns = Concern.RECORD

    def __init__(self, slot: int, reason: str) -> None:
        self.slot = slot
        self.reason = reason
        super().__init__(f"slot {slot} of the engine stopped ({reason}); call again with the same key")


class SettingsInvalid(TerminalError):
    """A setting has a value that cannot be used."""


class ExtraMissing(TerminalError):
    """A part is used whose libraries are not installed."""

    def __init__(self, extra: str, module: str) -> None:
        self.extra = extra
        self.module = module
        super().__init__(f'{module} is not installed; install it with: pip install "pipestream-airflow[{extra}]"')


class SparkRefused(TerminalError):
    """A Spark Connect server answers, but does not let this client in."""

    def __init__(self, address: str, cause: str) -> None:
        self.address = address
        self.cause = cause
        super().__init__(
            f"the Spark Connect server at {address} refuses this client ({cause}); spark_connect_token must be the "
            f"same for the server and its clients"
        )


class PluginBroken(TerminalError):
    """A plugin of another package cannot be imported, or fails in a way that it should not."""

    def __init__(self, noun: str, name: str, package: str, reason: str) -> None:
        self.noun = noun
        self.name = name
        self.package = package
        self.reason = reason
        super().__init__(f"the {noun} {name!r} of package {package} cannot be used: {reason}")


class RequestInvalid(TerminalError):
    """A command or a call asks for something impossible: a topic that the graph does not drain, a missing file."""


class DatasourceUnknown(TerminalError):
    """No applied graph has the datasource."""

    def __init__(self, datasource_id: str) -> None:
        self.datasource_id = datasource_id
        super().__init__(f"no applied graph has a datasource {datasource_id!r}; apply one, or correct the id")


class DatasourceContested(TerminalError):
    """Applied graphs have the datasource for different accounts, so nobody knows whose its documents are."""

    def __init__(self, datasource_id: str, accounts: Mapping[str, str]) -> None:
        """
        :param accounts: whose it is in each of the graphs, by their ids.
        """
        self.datasource_id = datasource_id
        self.accounts = dict(accounts)
        told = ", ".join(f"of account {account} in graph {graph_id}" for graph_id, account in sorted(accounts.items()))
        super().__init__(f"datasource {datasource_id} is {told}; correct one of the graphs and apply it")


class ConnectorInvalid(TerminalError):
    """There is no connector of this kind, or its options cannot be used."""


class SourceUnreadable(TerminalError):
    """A connector's source as a whole cannot be read."""


class DatabaseRefused(TerminalError):
    """PostgreSQL answers, but refuses the request."""


class LeaseStoreRefused(TerminalError):
    """The lease store answers, but refuses the request: the token, the address or the folder is wrong."""


class DesiredStateInvalid(TerminalError):
    """The value that a lease store holds is not the desired state of a topic."""


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
    """A pipeline graph breaks a rule. A retry cannot help."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class GraphInUse(TerminalError):
    """A graph is not deleted, because something of it is still in use."""

    def __init__(self, graph_id: str, reasons: Sequence[str]) -> None:
        self.graph_id = graph_id
        self.reasons = tuple(reasons)
        super().__init__(f"graph {graph_id} is not deleted: {'; '.join(self.reasons)}")


class IdInvalid(TerminalError):
    """An id cannot become part of a topic, a key or a path."""

    concerns = Concern.RECORD


class StoreRefused(TerminalError):
    """The object store answers, but refuses the request: a key, a right or a bucket is missing."""


class LedgerDamaged(TerminalError):
    """A table of the ledger is damaged, or needs a newer version of Delta."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason[:500]
        super().__init__(
            f"the table {place} cannot be read: {self.reason}. If another program upgraded it, upgrade deltalake here; "
            f"else restore the folder from a backup, without leaving out any file"
        )


class OtherVersion(TerminalError):
    """Another version of Pipestream wrote what is to be read, and its fields are not those that this one knows."""

    def __init__(
        self, what: str, unknown: Sequence[str], missing: Sequence[str], way_out: str, *, reader: str, writer: str = ""
    ) -> None:
        """
        :param reader: the version of this process.
        :param writer: the other version, if it is known.
        """
        self.what = what
        self.unknown = tuple(unknown)
        self.missing = tuple(missing)
        self.way_out = way_out
        self.reader = reader
        self.writer = writer
        by = f"Pipestream {writer}" if writer else "another version of Pipestream"
        found = [f"{kind} {', '.join(names)}" for kind, names in (("knows no", unknown), ("needs", missing)) if names]
        super().__init__(f"{what} was written by {by}, and this is {reader}, which {' and '.join(found)}; {way_out}")


class LedgerConflict(TerminalError):
    """Another run recorded an overlapping range first."""

    concerns = Concern.RANGE


def _rebaseline(topic: str) -> str:
    return f"pipestream ledger rebaseline --graph FILE --topic {topic} --to earliest (or latest, or a time)"


class OffsetsExpired(TerminalError):
    """Kafka no longer holds offsets that are to be read."""

    concerns = Concern.RANGE

    def __init__(self, topic: str, partition: int, start: int, earliest: int, way_out: str = "") -> None:
        """:param way_out: what to do instead, where the reader does not start at the ledger's live heads."""
        self.topic = topic
        self.partition = partition
        self.start = start
        self.earliest = earliest
        self.way_out = way_out or (
            f"give them up and continue with what is left: {_rebaseline(topic)}. To prevent this in future, raise "
            f"retention_hours in the graph"
        )
        super().__init__(
            f"{topic}[{partition}]: offsets {start}..{earliest - 1} were deleted by retention before they were read; "
            f"{self.way_out}"
        )


class TopicRewound(TerminalError):
    """The ledger is ahead of the topic, so the topic was truncated or created again."""

    concerns = Concern.RANGE

    def __init__(self, topic: str, partition: int, head: int, high: int) -> None:
        self.topic = topic
        self.partition = partition
        self.head = head
        self.high = high
        super().__init__(
            f"{topic}[{partition}]: the ledger's head is {head} but the topic ends at {high}, or was created again; "
            f"say where to continue: {_rebaseline(topic)}"
        )


class TopicReplaced(TopicRewound):
    """The topic was deleted and created again under the same name, so the ledger's heads are not its offsets."""

    def __init__(self, topic: str, way_out: str = "") -> None:
        self.topic = topic
        self.way_out = way_out or f"say where to continue: {_rebaseline(topic)}"
        PipestreamError.__init__(
            self, f"{topic} was deleted and created again since the ledger's last entry; {self.way_out}"
        )


class TopicMissing(TerminalError):
    """A topic the graph needs is not on the broker."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic} does not exist; apply the graph that needs it: pipestream graph apply FILE")


class BrokerRefused(TerminalError):
    """Kafka answers, but refuses the request: it is not allowed, or not valid."""

    concerns = Concern.RANGE


class RangeMostlyFailing(TerminalError):
    """Most records of a range fail, so the cause is probably not the records."""

    concerns = Concern.RANGE

    def __init__(self, ranges: str, failed: int, seen: int, example: str) -> None:
        self.ranges = ranges
        self.failed = failed
        self.seen = seen
        self.example = example
        super().__init__(
            f"{ranges}: {failed} of {seen} records failed, so the run stopped before writing "
            f"their dead letters. The last one: {example}. Fix the cause and run again, or write them all as dead "
            f"letters with --accept-failures (in Airflow: accept_failures in the form)"
        )


class StackError(TerminalError):
    """A local server could not be found, started or stopped."""


class RecordTooLarge(TerminalError):
    """Kafka refuses an output for its size, even compressed and in a batch of its own."""

    concerns = Concern.RECORD

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
    """Processes died again and again while they worked on a document, so it is given up."""

    concerns = Concern.RECORD

    def __init__(self, node_ids: Sequence[str], deaths: int) -> None:
        self.node_ids = tuple(node_ids)
        self.deaths = deaths
        first, *fused = self.node_ids
        others = f" or at {', '.join(fused)} behind it" if fused else ""
        times = "once" if deaths == 1 else f"{deaths} times"
        super().__init__(
            f"the process died {times} with this document alone in hand, at node {first}{others}; look in the log of "
            f"the Spark worker (or of the run) for a crash, and in the machine's for a process killed for its memory; "
            f"fix the module or put it behind grpc: or unix:, then replay"
        )


class KeyReused(TerminalError):
    """An idempotency key comes again with other content. The first call stays as it is."""

    concerns = Concern.RECORD

    def __init__(self, key: str) -> None:
        self.key = key[:200]
        super().__init__(
            f"the idempotency key {self.key!r} was used before with other content; give each document a key of its own"
        )


class AcceptedLogInvalid(TerminalError):
    """The topic of the accepted log is set up in another way, or holds what this version cannot read."""


class RecordInvalid(TerminalError):
    """A record is not a PipeStream, or lacks what a node needs."""

    concerns = Concern.RECORD


class SegmentDamaged(TerminalError):
    """A segment does not have the document that a reference names: the reference or the bytes are wrong."""

    concerns = Concern.RECORD

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(
            f"there is no whole document at {place}: {reason}; restore the object from a copy, or process the document "
            f"again from where it came from"
        )


class DocumentMissing(TerminalError):
    """A reference names an object that is not in the store."""

    concerns = Concern.RECORD


class ConditionError(TerminalError):
    """An edge's condition failed on a document."""

    concerns = Concern.RECORD

    def __init__(self, edge_id: str, reason: str) -> None:
        self.edge_id = edge_id
        self.reason = reason
        super().__init__(f"condition of edge {edge_id}: {reason}")


class MappingError(TerminalError):
    """A mapping could not be applied to a document."""

    concerns = Concern.RECORD


class ModuleFailed(TerminalError):
    """A module answered with an error, or raised one."""

    concerns = Concern.RECORD

    def __init__(
        self,
        message: str,
        *,
        error_type: str = "",
        trace: str = "",
        details: Mapping[str, Any] | None = None,
        log_entries: Sequence[LogEntry] = (),
    ) -> None:
        """:param error_type: the module's name of the error; without it, the type of the cause.
        :param trace: the module's own trace of calls, where it runs in another process.
        :param details: what else it says, for programs. The document has them at the error-end.
        :param log_entries: what it logged. The history of the document keeps the first of them.
        """
        self.error_type = error_type
        self.trace = trace
        self.details = dict(details or {})
        self.log_entries = tuple(log_entries)
        super().__init__(message)


class HopsExceeded(TerminalError):
    """A document took more hops than the graph allows."""

    concerns = Concern.RECORD
