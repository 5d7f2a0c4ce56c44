"""Whether a drain is worth starting, found out in plain Python before Spark's ten seconds are spent."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pipestream.drain.holder import is_of_run
from pipestream.drain.identity import identify_topic
from pipestream.drain.lag import find_lag
from pipestream.drain.slot_plan import find_remaining
from pipestream.kafka.broker import Broker
from pipestream.leases import open_lease_store
from pipestream.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipestream.drain.request import DrainRequest
    from pipestream.leases.store import Assignment, LeaseStore
    from pipestream.settings import Settings


def find_reason_to_skip(settings: Settings, request: DrainRequest) -> str | None:
    """Return why there is no point in draining a topic now, or None if there is.

    :raises TransientError: a server did not answer.
    :raises TerminalError: the topic is missing, or its ledger and the broker do not agree.
    """
    topic = request.topic
    with closing(open_lease_store(settings)) as store:
        return reason_to_skip(topic, request.run_id, store, lambda: find_lag(settings, request.graph, topic))


def reason_to_skip(topic: str, run_id: str, store: LeaseStore, ask_lag: Callable[[], int]) -> str | None:
    """Decide on the topic's desired state, then what waits in it, then who holds it.

    Advice only: things may change before the drain starts, which checks all of it again.
    """
    if not store.desired(topic).started:
        return f"{topic} is stopped by the operator"
    if ask_lag() == 0:
        return f"nothing to drain in {topic}"
    slots = store.assignments(topic)
    # A slot of this very run is left from an earlier try of it.
    held = [slot for slot in slots if slot.holder and not is_of_run(slot.holder, run_id)]
    if held and len(held) == len(slots):
        return f"{topic} is leased by {', '.join(map(_describe, held))}"
    return None


def find_reason_to_skip_backfill(settings: Settings, request: DrainRequest) -> str | None:
    """Return why there is no point in starting a backfill, or None if there is.

    Who holds a lease is not asked: that is no reason to skip a backfill, as no later run would make up for it.

    :raises TransientError: a server did not answer.
    :raises TerminalError: the topic is missing or another one, or Kafka no longer holds what is asked for.
    """
    with closing(open_lease_store(settings)) as store:
        if not store.desired(request.topic).started:
            return f"{request.topic} is stopped by the operator"
    return _find_done(settings, request)


def _find_done(settings: Settings, request: DrainRequest) -> str | None:
    """Return why nothing is left of a backfill, or None if something is."""
    assert request.backfill is not None, "asked only for backfills"
    name, topic, lane = request.backfill.backfill_id, request.topic, request.lane
    broker, ledger = Broker(settings), Ledger(settings)
    identity = identify_topic(broker, ledger, lane, topic, request.backfill)
    plan = ledger.find_plan(request.plan_id(slot=0))
    if plan is None:
        ranges = request.backfill.ranges(broker, topic, identity.partitions)
        return None if ranges else f"{topic} has no records of that time: backfill {name} covers nothing"
    if find_remaining(plan, ledger):
        return None
    return request.backfill.finished(plan)


def _describe(slot: Assignment) -> str:
    return f"{slot.holder} until {slot.until:%Y-%m-%d %H:%M:%S %Z}" if slot.until else slot.holder
