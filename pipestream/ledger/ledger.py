"""The ledger: plans before the work, entries after it, heads that only move by compare-and-set.

A head is not computed from entries: it is the version of a Delta app transaction, one app id per lane, topic
and partition, committed together with the entry that moved it. Reading it costs the same however long the
history is, and two writers of one head cannot both commit.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from pipestream.errors import LedgerBusy, LedgerConflict
from pipestream.ledger import plan_store
from pipestream.ledger.delta import TRIES, Place, all_hold, both_hold, lies_around, read, read_parts, rows
from pipestream.ledger.delta import append as _append
from pipestream.ledger.entries import Entry, Plan
from pipestream.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ENTRIES = "entries"


_Version = tuple[str, int]
"""The table's own id, and its version: a ledger that was deleted and made again starts over at 0."""


class Ledger:
    """Plans, entries and heads, below one folder or prefix.

    Reading makes nothing: a ledger that was never written to is empty. Writing makes what it needs.
    """

    def __init__(self, settings: Settings) -> None:
        self._place = Place.of(settings)
        self._plans = plan_store.PlanStore(settings, self._place)
        self._seen_heads: tuple[_Version, dict[tuple[str, str, int], int | None]] | None = None

    @property
    def root(self) -> str:
        """Where the ledger is: a folder, or an ``s3://`` address."""
        return self._place.root

    @property
    def is_on_disk(self) -> bool:
        return self._place.folder is not None

    @property
    def entries_uri(self) -> str:
        """Where the entries are, for Spark and other readers of Delta."""
        return f"{self.root}/{ENTRIES}"

    @property
    def plans_uri(self) -> str:
        """Where the plans are."""
        return f"{self.root}/{plan_store.TABLE}"

    def table_uris(self) -> tuple[str, str]:
        """Return where both tables are; they are made if they are not there yet."""
        from pipestream.ledger.tables import ENTRIES_SCHEMA, PLANS_SCHEMA

        self._place.open(plan_store.TABLE, PLANS_SCHEMA)
        self._place.open(ENTRIES, ENTRIES_SCHEMA)
        return self.plans_uri, self.entries_uri

    def delta_tables(self) -> dict[str, DeltaTable]:
        """Return the tables that are there, by name, as they are now."""
        found = {name: self._place.find(name) for name in (plan_store.TABLE, ENTRIES)}
        return {name: table for name, table in found.items() if table is not None}

    def heads(self, lane: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end of the last range recorded, per partition; a partition without an entry is absent."""
        table = self._place.find(ENTRIES)
        if table is None:
            return {}
        found = ((p, table.transaction_version(_head_app(lane, topic, p))) for p in partitions)
        return {partition: head for partition, head in found if head is not None}

    def heads_of(self, wanted: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str, int], int]:
        """Return the heads of several lanes and topics, by lane, topic and partition, from one look at the table.

        They are kept for the version of the table: Delta takes about 2 ms to find one, so hundreds of topics take most
        of a second, and a page asks every few seconds. Safe to call from several threads.
        """
        table = self._place.find(ENTRIES)
        if table is None:
            return {}
        version = (str(table.metadata().id), table.version())
        seen = self._seen_heads
        known = seen[1] if seen is not None and seen[0] == version else {}
        wanted = list(wanted)
        new = {place: table.transaction_version(_head_app(*place)) for place in wanted if place not in known}
        if new:
            known = {**known, **new}
            self._seen_heads = (version, known)
        return {place: head for place in wanted if (head := known[place]) is not None}

    def partitions(self, *, lane: str | None = None, topic: str | None = None) -> list[tuple[str, str, int]]:
        """Return the lane, topic and partition of every entry, each once."""
        columns = ["lane", "topic", "partition"]
        table = self._place.find(ENTRIES)
        if table is None:
            return []
        found = read(table, all_hold(lane=lane, topic=topic), columns)
        return sorted(set(zip(*(column.to_pylist() for column in found.columns), strict=True)))

    def is_same_topic(self, lane: str, topic: str, topic_id: str) -> bool:
        """Tell whether the topic is the one the lane's heads belong to, not another made under its name."""
        table = self._place.find(ENTRIES)
        known = table.transaction_version(_identity_app(lane, topic)) if table else None
        return known is None or known == _identity(topic_id)

    def find_plan(self, plan_id: str, lane: str) -> Plan | None:
        """Return the plan that a lane made under an id, if there is one."""
        return self._plans.find(plan_id, lane)

    def write_plan(self, plan: Plan) -> None:
        """Keep a plan. The same one again changes nothing.

        :raises LedgerBusy: another process made a plan under the same id.
        """
        self._plans.write(plan)

    def enter(self, entries: Sequence[Entry]) -> None:
        """Record ranges in one commit, which succeeds only if every range starts at its partition's head.

        :raises LedgerConflict: a head is elsewhere; nothing was changed.
        :raises LedgerBusy: too many others recorded ranges at the same moment; nothing was changed.
        """
        self._commit(lambda table: (entries, _entered_versions(table, entries)))

    def begin(
        self, lane: str, topic: str, topic_id: str, starts: Mapping[int, int], skipped: Sequence[Entry]
    ) -> dict[int, int]:
        """Set the first heads of partitions that have none, so that "latest" means the same at every later run.

        Of two runs that begin a partition at once the first one's answer holds, for both.

        :param skipped: entries for the offsets before each start, where there are any.
        :return: the heads that hold.
        :raises LedgerConflict: the topic's heads belong to another topic of that name.
        """

        def find_missing(table: DeltaTable) -> tuple[Sequence[Entry], dict[str, int]]:
            missing = {p for p in starts if table.transaction_version(_head_app(lane, topic, p)) is None}
            if not missing:
                return [], {}
            versions = {_head_app(lane, topic, partition): starts[partition] for partition in missing}
            own = [entry for entry in skipped if entry.range.partition in missing]
            return own, versions | _identity_version(table, lane, topic, topic_id)

        self._commit(find_missing)
        return self.heads(lane, topic, starts)

    def rebaseline(self, entries: Sequence[Entry]) -> None:
        """Move heads from the start to the end of each entry, and record the topic's id as the known one.

        :raises LedgerBusy: another commit moved one of the heads meanwhile; nothing was changed.
        """
        self._commit(lambda table: (entries, _moved_versions(table, entries)))

    def entries(
        self,
        *,
        lane: str | None = None,
        topic: str | None = None,
        graph_id: str | None = None,
        run_id: str | None = None,
        run_prefix: str | None = None,
        plan_id: str | None = None,
        since: datetime | None = None,
    ) -> list[Entry]:
        """Return entries, oldest first per partition.

        :param graph_id: only those of a graph, its backfills included.
        :param run_prefix: only those of runs whose ids begin so.
        :param since: only those recorded then or later. Without it all of the history is read; with it only what is
            newer, which is what a run that asks for its own entries wants.
        """
        from pipestream.ledger.tables import entry_from_row

        after = ("entered_at", since) if since else None
        predicate = all_hold(
            lane=lane,
            topic=topic,
            graph_id=graph_id,
            run_id=run_id,
            plan_id=plan_id,
            since=after,
            begins=("run_id", run_prefix) if run_prefix else None,
        )
        found = [entry_from_row(row) for row in rows(self._place.find(ENTRIES), predicate)]
        return sorted(found, key=lambda e: (e.lane, e.range.topic, e.range.partition, e.entered_at, e.range.start))

    def entries_table(
        self,
        columns: list[str],
        *,
        lane: str | None = None,
        graph_id: str | None = None,
        topic: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        around: Mapping[str, tuple[int, int]] | None = None,
    ) -> pa.Table:
        """Return columns of entries, for programs that take Arrow.

        :param graph_id: only those of a graph, its backfills included.
        :param around: only those of these topics whose ranges have an offset between the first and the last one given,
            both included, in any partition.
        :param since: only those recorded then or later.
        :param until: only those recorded before.
        """
        from pipestream.arrow import to_table
        from pipestream.ledger.tables import entries_schema

        found = self._place.find(ENTRIES)
        schema = entries_schema(columns)
        if found is None:
            return to_table([], schema)
        predicate = all_hold(
            lane=lane,
            graph_id=graph_id,
            topic=topic,
            since=("entered_at", since) if since else None,
            until=("entered_at", until) if until else None,
        )
        if around is not None:
            predicate = both_hold(predicate, lies_around(around))
        return read(found, predicate, columns).cast(schema)

    def entries_in_parts(
        self, columns: list[str], *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[pa.Table]:
        """Yield columns of entries a part at a time, in no order: for sums over a history of any length.

        :param since: only those recorded then or later.
        :param until: only those recorded before.
        """
        from pipestream.ledger.tables import entries_schema

        found = self._place.find(ENTRIES)
        if found is None:
            return
        predicate = all_hold(
            since=("entered_at", since) if since else None, until=("entered_at", until) if until else None
        )
        for part in read_parts(found, predicate, columns):
            yield part.cast(entries_schema(columns))

    def plans(self, *, lane: str | None = None, topic: str | None = None, run_id: str | None = None) -> list[Plan]:
        """Return plans, oldest first, as far as the table has them; see ``with_tasks``."""
        return self._plans.all(lane=lane, topic=topic, run_id=run_id)

    def with_tasks(self, plans: Sequence[Plan]) -> list[Plan]:
        """Return plans with how their work is cut into tasks, and why. That costs a request each."""
        return self._plans.with_tasks(plans)

    def _commit(self, find_changes: Callable[[DeltaTable], tuple[Sequence[Entry], dict[str, int]]]) -> None:
        """Append entries and move heads, or change nothing.

        :param find_changes: checks the heads on a table; returns entries, and the app transactions that move heads. The
            commit is made through the same handle, so a commit of anyone else in between to one of these makes ours
            fail, and then it is asked again.
        """
        from pipestream.ledger.tables import ENTRIES_SCHEMA, entry_rows

        for number in range(TRIES):
            table = self._place.open(ENTRIES, ENTRIES_SCHEMA)
            entries, versions = find_changes(table)
            if not versions:
                return
            try:
                _append(table, entry_rows(entries), versions)
            except CommitFailedError as error:
                if entries and self._has(entries):
                    return  # ours: the store took the commit, and its answer was lost
                log.info("ledger commit lost a race, looking at the heads again: %s", error)
                time.sleep(random.uniform(0, 0.01 * number))  # noqa: S311 - only to keep racers out of step
            else:
                return
        raise LedgerBusy(f"{TRIES} commits in a row lost a race")

    def _has(self, entries: Sequence[Entry]) -> bool:
        """Tell whether these very entries are in the ledger, not others of the same ranges."""
        since = min(entry.entered_at for entry in entries)
        lanes = {(entry.lane, entry.range.topic) for entry in entries}
        kept = {_key(e) for lane, topic in lanes for e in self.entries(lane=lane, topic=topic, since=since)}
        return all(_key(entry) in kept for entry in entries)


def _key(entry: Entry) -> tuple[object, ...]:
    """What tells an entry from every other, also from one of the same range by another run."""
    return entry.lane, entry.range, entry.plan_id, entry.holder, entry.token, entry.entered_at


def _entered_versions(table: DeltaTable, entries: Sequence[Entry]) -> dict[str, int]:
    """Check every entry against its head, and return the app transactions that move the heads."""
    versions: dict[str, int] = {}
    for entry in sorted(entries, key=lambda e: e.range):
        app_id = _head_app(entry.lane, entry.range.topic, entry.range.partition)
        head = versions[app_id] if app_id in versions else table.transaction_version(app_id)
        if head is not None and head != entry.range.start:
            raise LedgerConflict(
                f"{entry.range} of lane {entry.lane}: the ledger's head is {head}, so another run recorded "
                f"this range or part of it first; nothing was changed"
            )
        versions[app_id] = entry.range.end
    for lane, topic, topic_id in {(e.lane, e.range.topic, e.topic_id) for e in entries}:
        versions |= _identity_version(table, lane, topic, topic_id)
    return versions


def _identity_version(table: DeltaTable, lane: str, topic: str, topic_id: str) -> dict[str, int]:
    """Return the app transaction that keeps a topic's id, if it is not kept yet."""
    app_id = _identity_app(lane, topic)
    known = table.transaction_version(app_id)
    if known is None:
        return {app_id: _identity(topic_id)}
    if known != _identity(topic_id):
        raise LedgerConflict(f"{topic}: it was deleted and made again since the ledger's last entry")
    return {}


def _moved_versions(table: DeltaTable, entries: Sequence[Entry]) -> dict[str, int]:
    """Check that every head is still where an operator's move found it, and return what moves them."""
    versions: dict[str, int] = {}
    for entry in entries:
        app_id = _head_app(entry.lane, entry.range.topic, entry.range.partition)
        head = table.transaction_version(app_id) or 0
        if head != entry.range.start:
            raise LedgerBusy(
                f"{entry.range.topic}[{entry.range.partition}]: the head moved from {entry.range.start} to {head} "
                f"meanwhile, so nothing was changed"
            )
        versions[app_id] = entry.range.end
        versions[_identity_app(entry.lane, entry.range.topic)] = _identity(entry.topic_id)
    return versions


def _head_app(lane: str, topic: str, partition: int) -> str:
    return f"head/{lane}/{topic}/{partition}"


def _identity_app(lane: str, topic: str) -> str:
    return f"topic/{lane}/{topic}"


def _identity(topic_id: str) -> int:
    """The topic's id as the 63 bits that fit the version of an app transaction."""
    return uuid.uuid5(uuid.NAMESPACE_OID, topic_id).int & (2**63 - 1)
