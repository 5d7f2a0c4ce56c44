"""Our way to Arrow gives the very tables that pyarrow's own gives, which imports pandas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.arrow import from_stream, to_rows, to_table
from pipestream.ledger.tables import ENTRIES_SCHEMA, PLANS_SCHEMA

SCHEMA = pa.schema(
    [
        pa.field("text", pa.string(), nullable=False),
        pa.field("small", pa.int32(), nullable=False),
        pa.field("number", pa.int64()),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("texts", pa.list_(pa.string())),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ROWS = st.fixed_dictionaries(
    {
        "text": TEXTS,
        "small": st.integers(-(2**31), 2**31 - 1),
        "number": st.none() | NUMBERS,
        "seconds": st.floats(allow_nan=False, allow_infinity=False),
        "at": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
        "texts": st.none() | st.lists(TEXTS),
        "counts": st.none() | st.dictionaries(TEXTS, NUMBERS),
    }
)


def pairs_of(row):
    """pyarrow takes a map as pairs."""
    return row if row["counts"] is None else {**row, "counts": sorted(row["counts"].items())}


@settings(deadline=None)
@given(rows=st.lists(ROWS, max_size=5))
def test_a_table_is_the_one_that_pyarrow_makes(rows):
    made = to_table(rows, SCHEMA)

    assert made.schema == SCHEMA
    assert made.equals(pa.Table.from_pylist([pairs_of(row) for row in rows], schema=SCHEMA))


@settings(deadline=None)
@given(rows=st.lists(ROWS, max_size=5))
def test_rows_come_back_as_they_were(rows):
    assert to_rows(from_stream(to_table(rows, SCHEMA))) == [pairs_of(row) for row in rows]


def test_a_row_of_several_megabytes_is_one_row():
    (row,) = to_rows(to_table([{"texts": ["document-id"] * 500_000}], pa.schema([SCHEMA.field("texts")])))

    assert len(row["texts"]) == 500_000


def test_times_keep_their_microseconds_and_lose_their_zone():
    schema = pa.schema([SCHEMA.field("at")])
    moment = datetime.fromisoformat("2026-11-17T12:00:00.000001+02:00")

    (row,) = to_rows(to_table([{"at": moment}], schema))

    assert row["at"] == moment
    assert row["at"].utcoffset() == timedelta(0)


@pytest.mark.parametrize("schema", [PLANS_SCHEMA, ENTRIES_SCHEMA])
def test_no_rows_are_an_empty_table_with_all_columns(schema):
    assert to_table([], schema).equals(schema.empty_table())


def test_a_column_that_may_not_be_empty_is_refused_without_a_value():
    with pytest.raises(KeyError):
        to_table([{"text": "x"}], SCHEMA)
