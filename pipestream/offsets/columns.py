"""Build the Arrow columns of records from plain values, buffer by buffer.

``pa.array`` looks at the type of every value, and imports pandas on its first call: for a reader of small records that
is most of its time. Here each column is one join and one pass over the lengths.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

import pyarrow as pa

_TYPECODES = {pa.int32(): "i", pa.int64(): "q"}
_HEADER = pa.struct([("name", pa.string()), ("value", pa.large_binary())])
HEADERS = pa.list_(_HEADER)
"""The headers of a record: a list, because a name may come several times."""


def number_column(values: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Return numbers as a column without nulls."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(_TYPECODES[kind], values))])


def text_column(values: Sequence[str]) -> pa.Array:
    """Return short texts as a column without nulls."""
    encoded = {value: value.encode() for value in set(values)}
    if len(encoded) == 1 and "" not in encoded:  # the records of one topic
        (text,) = encoded.values()
        ends = array("i", range(0, len(text) * len(values) + 1, len(text)))
        data = text * len(values)
    else:
        texts = [encoded[value] for value in values]
        ends, data = _ends("i", texts), b"".join(texts)
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def binary_column(values: Sequence[bytes | None]) -> pa.Array:
    """Return bytes as a column with nulls. Large: a batch of big records may pass 2 GiB, the limit of plain binary."""
    present = None
    if None in values:
        present = _bits(value is not None for value in values)
        values = [value or b"" for value in values]
    data: Sequence[bytes] = values  # type: ignore[assignment] # no nulls are left
    buffers = [present, pa.py_buffer(_ends("q", data)), pa.py_buffer(b"".join(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(data), buffers)


def headers_column(headers: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    """Return the headers of records, as a list of names and values each."""
    found = [each or () for each in headers] if any(headers) else []
    names = text_column([name for name, _ in chain.from_iterable(found)])
    values = binary_column([value for _, value in chain.from_iterable(found)])
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    ends = _ends("i", found) if found else bytes(4 * (len(headers) + 1))  # all 0: no record has any
    return pa.Array.from_buffers(HEADERS, len(headers), [None, pa.py_buffer(ends)], children=[pairs])


def _ends(typecode: str, values: Iterable[Sequence[object]]) -> array[int]:
    """Return where each value begins, and where the last one ends."""
    return array(typecode, accumulate(map(len, values), initial=0))


def _bits(values: Iterable[bool]) -> pa.Buffer:
    """Return a bitmap, lowest bit first."""
    digits = "".join("1" if value else "0" for value in values)
    return pa.py_buffer(int(digits[::-1], 2).to_bytes((len(digits) + 7) // 8, "little"))
