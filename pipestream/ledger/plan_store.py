"""Plans: one object each, by the hash of its id, and a Delta table that lists them all.

The object decides. It is written only if there is none of that name, so of two plans under one id the second is
refused, and finding a plan is one request however many there are. (As rows of a table, or as app transactions of one,
plans made every look-up slower than the last.) The table is for people and for Spark. A plan is listed right after its
object is written; where its writer died in between, the next process that finds the plan lists it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from deltalake.exceptions import CommitFailedError

from pipestream.errors import DocumentMissing, LedgerBusy
from pipestream.kafka.records import OffsetRange
from pipestream.ledger.delta import TRIES, Place, all_hold, append, rows
from pipestream.ledger.entries import PLANS_SCHEMA, Plan, plan_from_rows, plan_rows
from pipestream.objects.store import ObjectStore, open_store
from pipestream.settings import Settings

log = logging.getLogger(__name__)

TABLE = "plans"
# Next to the table, not below it: VACUUM deletes what a table does not know.
_FOLDER = "plan_ids"


class PlanStore:
    """The plans of a ledger."""

    def __init__(self, settings: Settings, place: Place) -> None:
        self._settings = settings
        self._place = place

    def find(self, plan_id: str) -> Plan | None:
        """Return the plan made under an id, if there is one."""
        if self._place.folder is not None and not self._place.folder.is_dir():
            return None  # opening the store would make it
        with self._open() as store:
            try:
                plan, is_listed = _decode(store.get(_key(plan_id)))
            except DocumentMissing:
                return None
            if not is_listed:
                log.info("plan %s was written by a process that died before it could list it", plan_id)
                self._list(store, plan)
        return plan

    def write(self, plan: Plan) -> None:
        """Keep a plan.

        :raises LedgerBusy: another process made a plan under the same id.
        """
        plan = replace(plan, ranges=tuple(sorted(plan.ranges)))
        with self._open() as store:
            is_new = store.put_new(_key(plan.plan_id), _encode(plan, is_listed=False))
            # The same plan is this very call's: the store took it, and its answer was lost.
            if not is_new and self.find(plan.plan_id) != plan:
                raise LedgerBusy(f"another process made plan {plan.plan_id} first; a retry resumes that one")
            if is_new:
                self._list(store, plan)

    def all(self, *, lane: str | None, topic: str | None, run_id: str | None) -> list[Plan]:
        """Return plans, oldest first."""
        by_id: dict[str, list[dict[str, Any]]] = {}
        for row in rows(self._place.find(TABLE), all_hold(lane=lane, topic=topic, run_id=run_id)):
            by_id.setdefault(row["plan_id"], []).append(row)
        found = [plan_from_rows(own) for own in by_id.values()]
        return sorted(found, key=lambda p: (p.planned_at, p.plan_id))

    def _list(self, store: ObjectStore, plan: Plan) -> None:
        """Append a plan's rows to the table, once, and note in its object that they are there."""
        app_id = f"plans/{plan.topic}"
        for _ in range(TRIES):
            table = self._place.open(TABLE, PLANS_SCHEMA)
            # Also at the first try: a process that found the plan before it was listed may be listing it right now.
            if rows(table, all_hold(plan_id=plan.plan_id, since=("planned_at", plan.planned_at))):
                break
            try:
                append(table, plan_rows(plan), {app_id: (table.transaction_version(app_id) or 0) + 1})
            except CommitFailedError as error:
                log.info("listing plan %s lost a race, trying again: %s", plan.plan_id, error)
            else:
                break
        else:
            raise LedgerBusy(f"{TRIES} plans of {plan.topic} in a row were listed before this one")
        store.put(_key(plan.plan_id), _encode(plan, is_listed=True))

    def _open(self) -> ObjectStore:
        return open_store(self._settings.ledger_uri, self._settings)


def _key(plan_id: str) -> str:
    digest = hashlib.sha256(plan_id.encode()).hexdigest()
    return f"{_FOLDER}/{digest[:2]}/{digest}.json"


def _encode(plan: Plan, *, is_listed: bool) -> bytes:
    ranges = [[each.partition, each.start, each.end] for each in plan.ranges]
    values = {**asdict(plan), "ranges": ranges, "planned_at": plan.planned_at.isoformat(), "is_listed": is_listed}
    return json.dumps(values).encode()


def _decode(data: bytes) -> tuple[Plan, bool]:
    values = json.loads(data)
    is_listed = values.pop("is_listed")
    ranges = tuple(sorted(OffsetRange(values["topic"], *each) for each in values["ranges"]))
    planned_at = datetime.fromisoformat(values["planned_at"])
    doc_ids = tuple(values["doc_ids"])
    return Plan(**{**values, "ranges": ranges, "planned_at": planned_at, "doc_ids": doc_ids}), is_listed
