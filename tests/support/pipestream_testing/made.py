"""Entries, plans and tasks for tests that care about some of their fields only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pipestream.drain.range_task import RangeTask
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Entry, EntryKind, Plan

MADE_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
TOPIC = "intake.a"


def make_entry(
    start: int, end: int, *, topic: str = TOPIC, partition: int = 0, run_id: str = "run-1", **changes: Any
) -> Entry:
    """Return the entry of a range that a run of the graph ``g`` drained at ``MADE_AT``."""
    made = Entry(
        lane="g",
        range=OffsetRange(topic, partition, start, end),
        topic_id="id-1",
        kind=EntryKind.DRAINED,
        run_id=run_id,
        plan_id=f"{run_id}|{topic}|0",
        graph_id="g",
        graph_hash="h",
        holder="me",
        token=1,
        tally=None,
        seconds=0.25,
        entered_at=MADE_AT,
    )
    return replace(made, **changes)


def make_plan(*ranges: OffsetRange, run_id: str = "run-1", **changes: Any) -> Plan:
    """Return a plan of the first slot to drain ranges of one topic, made at ``MADE_AT``."""
    topic = ranges[0].topic
    made = Plan(
        plan_id=f"{run_id}|{topic}|0",
        run_id=run_id,
        lane="g",
        topic=topic,
        topic_id="id-1",
        slot=0,
        graph_id="g",
        graph_hash="h",
        ranges=ranges,
        holder="me",
        token=1,
        planned_at=MADE_AT,
    )
    return replace(made, **changes)


def make_task(topic: str, node_id: str, **changes: Any) -> RangeTask:
    """Return a task of a live run that drains a node's topic, or with ``datasource_id`` an intake topic."""
    made = RangeTask(
        topic=topic,
        topic_id="id-1",
        offsets=((0, 0, 100),),
        lane="g",
        group="group",
        run_id="run-1",
        node_id=node_id,
        datasource_id="",
        accept_failures=False,
        doc_ids=(),
        is_live=True,
        transactional_ids=(),
        graph="",
    )
    return replace(made, **changes)
