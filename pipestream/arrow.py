"""Turn rows into Arrow tables and back, without pandas.

Most of pyarrow's own functions for this (``pa.array``, ``pa.table``, ``from_pylist``, ``from_pydict``,
``empty_table``, and ``to_pylist`` of times) import pandas, only to check whether their input comes from it. That takes
seconds of every run, so a run must not call them. ``test_runs_without_pandas.py`` checks this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyarrow.json import ParseOptions, ReadOptions, read_json

PART_ROWS = 16_384
"""How many rows each part of a stream has at least, except the last: the cost of a sum hardly depends on its rows.
A batch has at most 8,192 rows, so a part has fewer than 24,576."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table. The columns may be text, numbers, times, lists of text and maps from text to numbers."""
    if not rows:
        return pa.Table.from_batches([], schema)
    lines = "\n".join(json.dumps({name: _plain(row[name]) for name in schema.names}) for row in rows)
    data = lines.encode()
    # One block, because a row must not be cut. No threads, because they would outlive the call.
    reading = ReadOptions(use_threads=False, block_size=len(data) + 1)
    as_read = pa.schema([field.with_type(_type_in_json(field.type)) for field in schema])
    parsing = ParseOptions(explicit_schema=as_read, unexpected_field_behavior="error")
    read = read_json(pa.BufferReader(data), reading, parsing)
    columns = [_typed(column.combine_chunks(), field.type) for column, field in zip(read.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def from_stream(stream: Any) -> pa.Table:
    """Return the rows of a stream of Arrow batches from another library."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def parts_from_stream(stream: Any) -> Iterator[pa.Table]:
    """Yield the rows of a stream as they are read, so that no more than a part is in memory.

    A file of a few rows is a batch of its own. Batches are joined until a part has ``PART_ROWS``.
    """
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in pa.RecordBatchReader.from_stream(stream):
        batches.append(batch)
        rows += batch.num_rows
        if rows >= PART_ROWS:
            yield pa.Table.from_batches(batches)
            batches, rows = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return a table's rows; times are in UTC, and a map is a list of pairs."""
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist()
        return found
    # pyarrow asks pandas for the time zone.
    numbers = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if number is None else _EPOCH + timedelta(microseconds=number) for number in numbers]


def _plain(value: Any) -> Any:
    """Return a value as the JSON that pyarrow reads: a map is a list of keys and values, a time is ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return [{"key": key, "value": item} for key, item in sorted(value.items())]
    return value


def _type_in_json(kind: pa.DataType) -> pa.DataType:
    """Return the type to read a column as. pyarrow's reader of JSON has no maps."""
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
    return kind


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column as the type it should have: in memory, a map is a list of pairs."""
    if not pa.types.is_map(kind):
        return column
    pairs = pa.Array.from_buffers(
        kind, len(column), column.buffers()[:2], column.null_count, column.offset, [column.values]
    )
    pairs.validate(full=True)
    return pairs
