"""The Delta ledger: plans before the work, entries after it, heads that only move by compare-and-set.

A head is not computed from entries: it is the version of a Delta app transaction, one app id per lane, topic
and partition, committed together with the entry that moved it. Reading it costs the same however long the
history is, and two writers of one head cannot both commit.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from pipestream.errors import LedgerConflict, StoreUnavailable
from pipestream.ledger import tables
from pipestream.ledger.model import Entry, Plan
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# Two slots of one topic may race to write the topic's identity; each loser finds it written and needs one more try.
_TRIES = 5


class Ledger:
    """Plans, entries and heads, in two Delta tables below one folder or prefix."""

    def __init__(self, settings: Settings) -> None:
        self._root, self._options = _locate(settings)

    @property
    def entries_uri(self) -> str:
        """Where the entries are, for Spark and other readers of Delta."""
        return f"{self._root}/entries"

    @property
    def plans_uri(self) -> str:
        """Where the plans are."""
        return f"{self._root}/plans"

    def table_uris(self) -> tuple[str, str]:
        """Return where both tables are; they are made if they are not there yet."""
        self._open(self.plans_uri, tables.PLANS)
        self._open(self.entries_uri, tables.ENTRIES)
        return self.plans_uri, self.entries_uri

    def open_table(self, uri: str) -> DeltaTable:
        """Return one of the tables as it is now, for upkeep."""
        return DeltaTable(uri, storage_options=self._options)

    def heads(self, lane: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end of the last range entered, per partition; one never entered is absent."""
        table = self._open(self.entries_uri, tables.ENTRIES)
        found = ((p, table.transaction_version(_head_app(lane, topic, p))) for p in partitions)
        return {partition: head for partition, head in found if head is not None}

    def is_same_topic(self, lane: str, topic: str, topic_id: str) -> bool:
        """Tell whether the topic is the one the lane's heads belong to, not another made under its name."""
        table = self._open(self.entries_uri, tables.ENTRIES)
        known = table.transaction_version(_identity_app(lane, topic))
        return known is None or known == _identity(topic_id)

    def find_plan(self, plan_id: str) -> Plan | None:
        """Return the plan made under an id, if there is one."""
        table = self._open(self.plans_uri, tables.PLANS)
        if table.transaction_version(_plan_app(plan_id)) is None:
            return None
        return tables.plan_from_rows(_rows(table, _equal("plan_id", plan_id)))

    def write_plan(self, plan: Plan) -> None:
        """Keep a plan.

        :raises LedgerConflict: another process made a plan under the same id.
        """
        table = self._open(self.plans_uri, tables.PLANS)
        app_id = _plan_app(plan.plan_id)
        if table.transaction_version(app_id) is not None:
            raise LedgerConflict(f"plan {plan.plan_id} exists already; a retry takes it up instead")
        try:
            _append(table, tables.plan_rows(plan), {app_id: 1})
        except CommitFailedError as error:
            if self.find_plan(plan.plan_id) == plan:
                return  # ours: the store took the commit, and its answer was lost
            raise LedgerConflict(f"plan {plan.plan_id} was written by another process just now") from error

    def enter(self, entries: Sequence[Entry]) -> None:
        """Enter ranges in one commit, which holds only if every range starts at its partition's head.

        :raises LedgerConflict: a head is elsewhere; nothing was changed.
        """
        for _ in range(_TRIES):
            # The heads are checked on this handle and the commit is made through it, so a commit of
            # anyone else in between to the same head makes ours fail.
            table = self._open(self.entries_uri, tables.ENTRIES)
            versions = _next_versions(table, entries)
            try:
                _append(table, tables.entry_rows(entries), versions)
            except CommitFailedError as error:
                if self._has(entries):
                    return  # ours: the store took the commit, and its answer was lost
                log.info("ledger commit lost a race, looking at the heads again: %s", error)
            else:
                return
        raise LedgerConflict(f"the ledger is contended: {_TRIES} commits in a row lost a race; run again")

    def begin(self, lane: str, topic: str, topic_id: str, starts: Mapping[int, int], skipped: Sequence[Entry]) -> None:
        """Set the first heads of partitions that have none, so that "latest" means the same at every later run.

        :param skipped: entries for the offsets before each start, where there are any.
        :raises LedgerConflict: one of them has a head already.
        """
        table = self._open(self.entries_uri, tables.ENTRIES)
        versions = {_head_app(lane, topic, partition): start for partition, start in starts.items()}
        if any(table.transaction_version(app_id) is not None for app_id in versions):
            raise LedgerConflict(f"{topic}: another run set where it starts; run again")
        versions[_identity_app(lane, topic)] = _identity(topic_id)
        try:
            _append(table, tables.entry_rows(skipped), versions)
        except CommitFailedError as error:
            raise LedgerConflict(f"{topic}: another run set where it starts; run again") from error

    def rebaseline(self, entries: Sequence[Entry]) -> None:
        """Move heads to the end of each entry whatever they are now, and take the topic's id for the known one.

        :raises LedgerConflict: another commit moved one of the heads meanwhile.
        """
        table = self._open(self.entries_uri, tables.ENTRIES)
        versions = {_head_app(e.lane, e.range.topic, e.range.partition): e.range.end for e in entries}
        versions |= {_identity_app(e.lane, e.range.topic): _identity(e.topic_id) for e in entries}
        try:
            _append(table, tables.entry_rows(entries), versions)
        except CommitFailedError as error:
            raise LedgerConflict("another run entered ranges meanwhile; stop it and re-baseline again") from error

    def entries(
        self,
        *,
        lane: str | None = None,
        topic: str | None = None,
        run_id: str | None = None,
        plan_id: str | None = None,
    ) -> list[Entry]:
        """Return entries, oldest first per partition."""
        table = self._open(self.entries_uri, tables.ENTRIES)
        predicate = _all_equal(lane=lane, topic=topic, run_id=run_id, plan_id=plan_id)
        found = [tables.entry_from_row(row) for row in _rows(table, predicate)]
        return sorted(found, key=lambda e: (e.lane, e.range.topic, e.range.partition, e.entered_at, e.range.start))

    def plans(self, *, lane: str | None = None, topic: str | None = None, run_id: str | None = None) -> list[Plan]:
        """Return plans, oldest first."""
        table = self._open(self.plans_uri, tables.PLANS)
        by_id: dict[str, list[dict[str, Any]]] = {}
        for row in _rows(table, _all_equal(lane=lane, topic=topic, run_id=run_id)):
            by_id.setdefault(row["plan_id"], []).append(row)
        found = [tables.plan_from_rows(rows) for rows in by_id.values()]
        return sorted(found, key=lambda p: (p.planned_at, p.plan_id))

    def _has(self, entries: Sequence[Entry]) -> bool:
        """Tell whether these very entries are in the ledger, not others of the same ranges."""
        plan_ids = {entry.plan_id for entry in entries}
        kept = {_key(entry) for plan_id in plan_ids for entry in self.entries(plan_id=plan_id)}
        return all(_key(entry) in kept for entry in entries)

    def _open(self, uri: str, schema: pa.Schema) -> DeltaTable:
        with _explained():
            try:
                return DeltaTable(uri, storage_options=self._options)
            except TableNotFoundError:
                # "ignore": whoever comes second finds the first one's table.
                return DeltaTable.create(uri, schema=schema, mode="ignore", storage_options=self._options)


def _key(entry: Entry) -> tuple[object, ...]:
    """What tells an entry from every other, also from one of the same range by another run."""
    return entry.lane, entry.range, entry.plan_id, entry.holder, entry.token, entry.entered_at


def _next_versions(table: DeltaTable, entries: Sequence[Entry]) -> dict[str, int]:
    """Check every entry against its head, and return the app transactions that move the heads."""
    versions: dict[str, int] = {}
    for entry in sorted(entries, key=lambda e: e.range):
        app_id = _head_app(entry.lane, entry.range.topic, entry.range.partition)
        head = versions[app_id] if app_id in versions else table.transaction_version(app_id)
        if head is not None and head != entry.range.start:
            raise LedgerConflict(
                f"{entry.range} of lane {entry.lane}: the ledger's head is {head}, so another run entered "
                f"this range or part of it first; nothing was changed"
            )
        versions[app_id] = entry.range.end
    for lane, topic, topic_id in {(e.lane, e.range.topic, e.topic_id) for e in entries}:
        app_id = _identity_app(lane, topic)
        known = table.transaction_version(app_id)
        if known is None:
            versions[app_id] = _identity(topic_id)
        elif known != _identity(topic_id):
            raise LedgerConflict(f"{topic}: it was deleted and made again since the ledger's last entry")
    return versions


def _append(table: DeltaTable, rows: pa.Table, versions: dict[str, int]) -> None:
    transactions = [Transaction(app_id, version) for app_id, version in sorted(versions.items())]
    with _explained():
        write_deltalake(table, rows, mode="append", commit_properties=CommitProperties(app_transactions=transactions))


def _rows(table: DeltaTable, predicate: str | None) -> list[dict[str, Any]]:
    # Not to_pyarrow_table(): its scanner's threads outlive it, and two of three processes that
    # used it aborted when the interpreter exited.
    with _explained():
        rows: list[dict[str, Any]] = pa.table(table.scan(predicate=predicate).read_all()).to_pylist()
    return rows


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the trouble of a store that does not answer into an error that a retry may mend."""
    try:
        yield
    except (CommitFailedError, TableNotFoundError):
        raise
    except (DeltaError, OSError) as error:
        raise StoreUnavailable(f"the ledger: {str(error).splitlines()[0] if str(error) else error!r}") from error


def _all_equal(**wanted: str | None) -> str | None:
    """Return the predicate that every column with a value has it; None where there is none."""
    return " and ".join(_equal(name, value) for name, value in wanted.items() if value is not None) or None


def _equal(column: str, value: str) -> str:
    escaped = value.replace("'", "''")
    return f"{column} = '{escaped}'"


def _head_app(lane: str, topic: str, partition: int) -> str:
    return f"head/{lane}/{topic}/{partition}"


def _identity_app(lane: str, topic: str) -> str:
    return f"topic/{lane}/{topic}"


def _plan_app(plan_id: str) -> str:
    return f"plan/{plan_id}"


def _identity(topic_id: str) -> int:
    """The topic's id as the 63 bits that fit the version of an app transaction."""
    return uuid.uuid5(uuid.NAMESPACE_OID, topic_id).int & (2**63 - 1)


def _locate(settings: Settings) -> tuple[str, dict[str, str] | None]:
    uri = settings.ledger_uri.rstrip("/")
    if uri.startswith("file://"):
        folder = Path(uri.removeprefix("file://")).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder), None
    options = {"aws_region": settings.s3_region}
    if settings.s3_endpoint:
        options |= {
            "aws_endpoint": settings.s3_endpoint,
            "aws_allow_http": str(settings.s3_endpoint.startswith("http://")).lower(),
        }
    if settings.s3_access_key and settings.s3_secret_key:
        options |= {
            "aws_access_key_id": settings.s3_access_key.get_secret_value(),
            "aws_secret_access_key": settings.s3_secret_key.get_secret_value(),
        }
    return uri, options
