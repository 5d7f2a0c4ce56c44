"""Which ids may become part of a topic, a key or a path, and how derived ids are made.

Everything a drain writes has a name derived from its input, so writing it twice is the same as once.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1

from pipestream.errors import IdInvalid

# No dots: a dot separates the parts of a topic name, and `a.b` + `c` must not equal `a` + `b.c`.
# 80 characters: Kafka allows 249 for a topic, which holds three such ids and their prefix.
_GRAPH_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}", re.ASCII)
# Accounts, documents and streams become parts of object keys and come from outside, so no slashes,
# and no leading dot: `..` would climb out of the store's folder.
_PART = r"[A-Za-z0-9_-][A-Za-z0-9._:@=+-]{0,199}"
_KEY_PART = re.compile(_PART, re.ASCII)
_KEY = re.compile(f"{_PART}(?:/{_PART})*", re.ASCII)

# S3's own limit; every part has at most 200 characters, so this bounds the number of parts.
_MAX_KEY_LENGTH = 1_024

_STREAMS = uuid.UUID("6f0d3f6e-6ad9-5a35-9f3c-4f9f2e0f7b51")
_STREAMS_BYTES = _STREAMS.bytes
# In a UUID, two bits of this digit are always 10.
_VARIANTS = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}


def check_graph_id(value: str, what: str) -> str:
    """Return ``value`` if it can name a graph, cluster, node, edge or datasource.

    :raises IdInvalid: it cannot; the message names ``what``.
    """
    if not _GRAPH_ID.fullmatch(value):
        raise IdInvalid(
            f"{what} {value!r} cannot be used in names: use 1 to 80 lower-case letters, digits, - and _, "
            f"starting with a letter or digit"
        )
    return value


def graph_dag_id(graph_id: str) -> str:
    """Return the id of the DAG that Airflow runs a graph as."""
    return f"pipestream_{graph_id}"


def approval_dag_id(graph_id: str) -> str:
    """Return the id of the DAG that asks for approval before it changes what a graph's DAG never changes by itself.

    Ids of graphs have no dot, so no graph's own DAG has this id.
    """
    return f"{graph_dag_id(graph_id)}.approve"


def graph_of_dag_id(dag_id: str) -> str:
    """Return the graph that a DAG of :func:`graph_dag_id` or :func:`approval_dag_id` is of."""
    return dag_id.removeprefix("pipestream_").removesuffix(".approve")


def check_key_part(value: str, what: str) -> str:
    """Return ``value`` if it can be one part of an object key.

    :raises IdInvalid: it cannot; the message names ``what``.
    """
    if not _KEY_PART.fullmatch(value):
        raise IdInvalid(
            f"{what} {value!r} cannot be part of an object key: use 1 to 200 letters, digits and . _ : @ = + -, "
            f"not starting with a dot"
        )
    return value


def check_key(key: str) -> str:
    """Return ``key`` if it can name an object: relative, no empty part, no part that climbs out of the store.

    :raises IdInvalid: it cannot.
    """
    if len(key) > _MAX_KEY_LENGTH:
        raise IdInvalid(f"object key of {len(key)} characters; at most {_MAX_KEY_LENGTH} are allowed")
    if not _KEY.fullmatch(key):
        for part in key.split("/"):
            check_key_part(part, f"in the object key {key!r}, the part")
    return key


def record_origin(topic_id: str, topic: str, partition: int, offset: int) -> str:
    """Return what names a record among all records.

    The topic's id is part of it, because a topic that was deleted and created again repeats names and offsets.
    """
    return f"{topic_id}/{topic}/{partition}/{offset}"


def derive_stream_id(lane: str, origin: str) -> str:
    """Return the id of a stream that enters a graph from a datasource.

    The lane is part of it because a backfill's results must not overwrite those of the live run.

    :param origin: identifies where it came in: see ``record_origin`` for a record.
    """
    return _uuid5(f"{lane}/{origin}")


def stream_ids_of(lane: str, topic_id: str, topic: str, partition: int) -> Callable[[int], str]:
    """Return what derives a stream's id from its record's offset, as ``derive_stream_id`` does for any origin.

    For many records of one partition, in half the time.
    """
    shared = _STREAMS_BYTES + f"{lane}/{record_origin(topic_id, topic, partition, 0)}".encode().removesuffix(b"0")
    return lambda offset: _uuid5_of(b"%b%d" % (shared, offset))


def derive_child_id(parent_stream_id: str, node_id: str, branch: str) -> str:
    """Return the stream id of a fan-out child or of a second matching edge's branch."""
    return _uuid5(f"{parent_stream_id}/{node_id}/{branch}")


# The id of one stream is asked for several times while it is processed.
@lru_cache(maxsize=1_024)
def _uuid5(name: str) -> str:
    return _uuid5_of(_STREAMS_BYTES + name.encode())


def _uuid5_of(data: bytes) -> str:
    """Return ``str(uuid.uuid5(namespace, name))`` of both as bytes, in a quarter of the time: no object is made."""
    text = sha1(data, usedforsecurity=False).hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANTS[text[16]]}{text[17:20]}-{text[20:32]}"


def new_run_id(what: str) -> str:
    """Return a generated id for a run or another action: its kind, the time, and random characters."""
    return f"{what}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
