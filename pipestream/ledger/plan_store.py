"""Plans: one object each, by the hash of its id, and a Delta table that lists them all.

The object decides. It is written only if there is none of that name, so of two plans under one id the second is
refused, and finding a plan is one request however many there are. (As rows of a table, or as app transactions of one,
plans made every look-up slower than the last.) The table is for people and for Spark. A plan is listed right after its
object is written; where its writer died in between, the next process that finds the plan lists it.

Two graphs that drain one topic under the same run id have plans of the same id. The plan that comes second is kept
under the hash of its lane and its id; the first has the place that plans always had.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from deltalake.exceptions import CommitFailedError

from pipestream.errors import DocumentMissing, LedgerBusy, OtherVersion
from pipestream.kafka.records import OffsetRange
from pipestream.known_fields import check_fields
from pipestream.ledger.delta import TRIES, Place, all_hold, append, rows
from pipestream.ledger.entries import Plan
from pipestream.objects.store import ObjectStore, open_store
from pipestream.settings import Settings

log = logging.getLogger(__name__)

TABLE = "plans"
# Next to the table, not below it: VACUUM deletes what a table does not know.
_FOLDER = "plan_ids"
_WAY_OUT = "run it with the version that made the plan, or under another id, which plans anew"


class PlanStore:
    """The plans of a ledger."""

    def __init__(self, settings: Settings, place: Place) -> None:
        self._settings = settings
        self._place = place

    def find(self, plan_id: str, lane: str) -> Plan | None:
        """Return the plan that a lane made under an id, if there is one."""
        if self._place.folder is not None and not self._place.folder.is_dir():
            return None  # opening the store would make it
        with self._open() as store:
            for key in _keys(plan_id, lane):
                try:
                    plan, is_listed = _decode(store.get(key))
                except DocumentMissing:
                    return None
                if plan.lane == lane:
                    break
            else:
                return None
            if not is_listed:
                log.info("plan %s was written by a process that died before it could list it", plan_id)
                self._list(store, key, plan)
        return plan

    def write(self, plan: Plan) -> None:
        """Keep a plan.

        :raises LedgerBusy: another process made a plan under the same id.
        """
        plan = replace(plan, ranges=tuple(sorted(plan.ranges)))
        with self._open() as store:
            for key in _keys(plan.plan_id, plan.lane):
                if store.put_new(key, _encode(plan, is_listed=False)):
                    self._list(store, key, plan)
                    return
                found = self.find(plan.plan_id, plan.lane)
                # The same plan is this very call's: the store took it, and its answer was lost.
                if found == plan:
                    return
                if found is not None:
                    break
        raise LedgerBusy(f"another process made plan {plan.plan_id} first; a retry resumes that one")

    def all(self, *, lane: str | None, topic: str | None, run_id: str | None) -> list[Plan]:
        """Return plans, oldest first."""
        from pipestream.ledger.tables import plan_from_rows

        by_id: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows(self._place.find(TABLE), all_hold(lane=lane, topic=topic, run_id=run_id)):
            by_id.setdefault((row["lane"], row["plan_id"]), []).append(row)
        found = [plan_from_rows(own) for own in by_id.values()]
        return sorted(found, key=lambda p: (p.planned_at, p.plan_id))

    def with_tasks(self, plans: Sequence[Plan]) -> list[Plan]:
        """Return plans of the table with how their work is cut into tasks, and why, which only their objects say."""
        if not plans:  # to look would make the ledger's folder
            return []
        found: dict[tuple[str, str], Plan] = {}
        with self._open() as store:
            for place in (0, 1):
                left = [plan for plan in plans if (plan.plan_id, plan.lane) not in found]
                objects = store.get_many([_keys(plan.plan_id, plan.lane)[place] for plan in left])
                for plan, data in zip(left, objects, strict=True):
                    if isinstance(data, bytes) and (whole := _decode_or_say(data, plan)).lane == plan.lane:
                        found[plan.plan_id, plan.lane] = whole
        return [found.get((plan.plan_id, plan.lane), plan) for plan in plans]

    def _list(self, store: ObjectStore, key: str, plan: Plan) -> None:
        """Append a plan's rows to the table, once, and note in its object that they are there."""
        from pipestream.ledger.tables import PLANS_SCHEMA, plan_rows

        app_id = f"plans/{plan.topic}"
        for _ in range(TRIES):
            table = self._place.open(TABLE, PLANS_SCHEMA)
            # Also at the first try: a process that found the plan before it was listed may be listing it right now.
            if rows(table, all_hold(lane=plan.lane, plan_id=plan.plan_id, since=("planned_at", plan.planned_at))):
                break
            try:
                append(table, plan_rows(plan), {app_id: (table.transaction_version(app_id) or 0) + 1})
            except CommitFailedError as error:
                log.info("listing plan %s lost a race, trying again: %s", plan.plan_id, error)
            else:
                break
        else:
            raise LedgerBusy(f"{TRIES} plans of {plan.topic} in a row were listed before this one")
        store.put(key, _encode(plan, is_listed=True))

    def _open(self) -> ObjectStore:
        return open_store(self._settings.ledger_uri, self._settings)


def _decode_or_say(data: bytes, listed: Plan) -> Plan:
    """Return the plan of an object, or the listed one with the reason why the object cannot be read."""
    try:
        return _decode(data)[0]
    except OtherVersion as error:
        return replace(listed, tasks_reason=str(error))


def _keys(plan_id: str, lane: str) -> tuple[str, str]:
    """Return where a plan is: at the first place, unless that has a plan of another lane."""
    return _key(plan_id), _key(f"{lane}|{plan_id}")


def _key(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{_FOLDER}/{digest[:2]}/{digest}.json"


def _encode(plan: Plan, *, is_listed: bool) -> bytes:
    ranges = [[each.partition, each.start, each.end] for each in plan.ranges]
    values = {**asdict(plan), "ranges": ranges, "planned_at": plan.planned_at.isoformat(), "is_listed": is_listed}
    return json.dumps(values).encode()


def _decode(data: bytes) -> tuple[Plan, bool]:
    values = json.loads(data)
    is_listed = values.pop("is_listed")
    check_fields(Plan, values, f"plan {values.get('plan_id')}", _WAY_OUT)
    ranges = tuple(sorted(OffsetRange(values["topic"], *each) for each in values["ranges"]))
    planned_at = datetime.fromisoformat(values["planned_at"])
    doc_ids = tuple(values["doc_ids"])
    return Plan(**{**values, "ranges": ranges, "planned_at": planned_at, "doc_ids": doc_ids}), is_listed
