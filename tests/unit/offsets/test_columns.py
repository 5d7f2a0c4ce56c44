from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipestream.offsets.columns import HEADERS, binary_column, headers_column, number_column, text_column

pa.array([0])  # imports pandas, which takes longer than an example may

values = st.lists(st.none() | st.binary(max_size=20), max_size=40)
headers = st.lists(st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3))


def same(made, expected):
    made.validate(full=True)
    assert made.equals(expected)


@given(values)
def test_bytes_are_as_pyarrow_makes_them(found):
    same(binary_column(found), pa.array(found, pa.large_binary()))


@given(st.lists(st.text(max_size=10)) | st.lists(st.just("topic")))
def test_texts_are_as_pyarrow_makes_them(found):
    same(text_column(found), pa.array(found, pa.string()))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_numbers_are_as_pyarrow_makes_them(found):
    same(number_column(found, pa.int64()), pa.array(found, pa.int64()))


@given(headers)
def test_headers_are_as_pyarrow_makes_them(found):
    rows = [[{"name": name, "value": value} for name, value in each or ()] for each in found]

    same(headers_column(found), pa.array(rows, HEADERS))


def test_a_batch_is_made_without_pandas():
    code = (
        "import sys\nfrom pipestream.offsets.ordered import to_batch\n"
        "from pipestream.kafka.records import InputRecord\n"
        "assert to_batch([InputRecord('t', 0, 1, 2, None, b'v', (('a', b'1'),))]).num_rows == 1\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
