"""What is leased, a topic in a lane (``TOPIC@LANE``), and who holds it, a process of a run.

The lane is a graph (``GRAPH``, its live runs) or a backfill of one (``GRAPH@ID``). So graphs that share a datasource,
and backfills, never wait for each other's leases. What the operator wants of a topic holds for all its lanes, so that
is kept under the topic's own name. No topic has an @ in its name: Kafka allows none.
"""

from __future__ import annotations

import os
import socket

from pipestream.ids import check_graph_id
from pipestream.topic_names import check_topic

WORKERS = "stream-workers@pipestream@alive"
"""What stream workers lease to be seen, a slot each: see ``workers.py``. No topic is behind it."""


def lease_name(topic: str, lane: str) -> str:
    """Return what the runs of a lane lease of a topic.

    :raises IdInvalid: there can be no such topic or lane.
    """
    return check_leased(f"{topic}@{lane}")


def check_leased(name: str) -> str:
    """Return ``name`` if a lease store may keep it: a topic in a lane, or a topic.

    :raises IdInvalid: it is neither.
    """
    topic, *lane = name.split("@", 2)
    check_topic(topic)
    for part, what in zip(lane, ("graph id", "backfill id"), strict=False):
        check_graph_id(part, what)
    return name


def leased_topic(name: str) -> str:
    """Return the topic of a lease."""
    return name.partition("@")[0]


def leased_lane(name: str) -> str:
    """Return the lane of a lease; empty for a topic's own name."""
    return name.partition("@")[2]


def is_backfill_lease(name: str) -> bool:
    """Tell whether a lease is of a backfill: it has no use once the backfill is finished."""
    return name.count("@") > 1


def name_holder(run_id: str) -> str:
    """Return the name under which this process holds leases for a run."""
    return f"{run_id}@{socket.gethostname()}:{os.getpid()}"


def is_of_run(holder: str, run_id: str) -> bool:
    """Tell whether a holder is a process of the run, such as an earlier try of it."""
    return holder.startswith(f"{run_id}@")
