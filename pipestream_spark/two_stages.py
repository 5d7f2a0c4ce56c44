"""The query that drains in sub-ranges: a first stage that processes, a shuffle by partition, a second that commits."""

from __future__ import annotations

from functools import partial
from typing import Any

from pipestream_spark.answers import ANSWER
from pipestream_spark.worker import PIECE, SubRangeOrders, commit_numbered, process_numbered


def sub_range_query(session: Any, orders: SubRangeOrders) -> Any:
    """Return the query of the outcomes, in a session of Spark or of Spark Connect; they have the same functions.

    A slice of the first stage processes one sub-range: it is the unit of work and of retry. A slice of the second stage
    has the pieces of one task, or of several if their hashes meet, each task's together and in order.
    """
    slices, tasks = len(orders.places), len(orders.orders.own)
    pieces = session.range(0, slices, 1, slices).mapInArrow(partial(process_numbered, orders), PIECE)
    ordered = pieces.repartition(tasks, "task").sortWithinPartitions("task", "place")
    return ordered.mapInArrow(partial(commit_numbered, orders), ANSWER)
