"""A row of a table or a file as a document: which column becomes which field, and which columns name the row."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from pydantic import Field, field_validator

from pipestream.connectors.files import document_id
from pipestream.connectors.options import IncrementalOptions
from pipestream.errors import MappingError
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.routing.field_paths import check_path, set_field
from pipestream.routing.field_values import fill_value
from pipestream.wire import PipeDoc

# Beyond this a number changes in the free-form fields, which have only doubles.
_MAX_SAFE_INTEGER = 2**53
# Protobuf's parsers refuse messages of 100 levels, and a level of JSON takes three.
_MAX_DEPTH = 20


class RowOptions(IncrementalOptions):
    """The options that say how a row becomes a document."""

    id: list[str] = Field(
        [], description="The columns whose values name a row, so that a changed row is the same document."
    )
    fields: dict[str, str] = Field(
        {}, description="Field of the document, such as search_metadata.title, to the column that fills it."
    )
    keep_rest: bool = Field(
        True, description="Whether columns that fill no field are kept in search_metadata.custom_fields."
    )

    @field_validator("fields")
    @classmethod
    def _check_paths(cls, given: dict[str, str]) -> dict[str, str]:
        for path in given:
            if problem := check_path(path):
                raise ValueError(problem)
            if path.partition(".")[0] in ("doc_id", "doc_id_derivation", "ownership"):
                raise ValueError(f"{path} cannot be filled from a column; the option id says which columns name a row")
        return given


def row_document(row: Mapping[str, Any], options: RowOptions, place: str, uri: str) -> PipeDoc:
    """Return the document of a row.

    :param place: names the row where no columns do, such as file and row number.
    :param uri: where the row is.
    :raises ValueError: a column is missing, or its value does not fit.
    """
    document = PipeDoc()
    used = set()
    for path, column in options.fields.items():
        value, name = _look_up(row, column)
        used.add(name)
        try:
            set_field(document, path, plain_value(value))
        except MappingError as error:
            raise ValueError(f"column {column}: {error}") from None
    if options.keep_rest:
        struct = document.search_metadata.custom_fields
        for name, value in row.items():
            if name not in used:
                _keep(struct, name, value)
    _name(document, row, options, place)
    if not document.search_metadata.source_uri:
        document.search_metadata.source_uri = uri
    return document


def plain_value(value: Any) -> Any:
    """Return a database's value as JSON and protobuf have it."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() and abs(value) < _MAX_SAFE_INTEGER else str(value)
        case datetime():
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        case date() | time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case memoryview() | bytearray():
            return bytes(value)
    return value


def _keep(struct: Any, name: str, value: Any) -> None:
    value = plain_value(value)
    if isinstance(value, bytes):
        raise ValueError(f"column {name} holds bytes; name it in fields, for blob_bag.blob.data, or leave it out")  # noqa: TRY004
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"column {name} is {value}, which JSON cannot hold")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MAX_SAFE_INTEGER:
        value = str(value)  # a double would round it
    try:
        _check_depth(value)
        fill_value(struct.fields[name], value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"column {name}: {error}") from None


def _check_depth(value: Any, left: int = _MAX_DEPTH) -> None:
    if not left:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, (Mapping, list)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check_depth(inner, left - 1)


def _look_up(row: Mapping[str, Any], column: str) -> tuple[Any, str]:
    """Return the value of a column, and the column's own name; a dot leads into a JSON object."""
    if column in row:
        return row[column], column
    first, *rest = column.split(".")
    value: Any = row
    for name in (first, *rest):
        if not isinstance(value, Mapping) or name not in value:
            raise ValueError(f"there is no column {column}; it has {', '.join(list(row)[:20])}")
        value = value[name]
    # The object keeps its other values.
    return value, column


def _name(document: PipeDoc, row: Mapping[str, Any], options: RowOptions, place: str) -> None:
    name = _joined([_look_up(row, column)[0] for column in options.id], options.id) if options.id else place
    document.doc_id = document_id(name)
    document.doc_id_derivation.method = wire.DOC_ID_DERIVATION_METHOD_SOURCE_PATH
    document.doc_id_derivation.input = name
    document.doc_id_derivation.canonical_input = name


def _joined(values: Sequence[Any], columns: Sequence[str]) -> str:
    """Join the values that name a row, so that two different rows never have one name."""
    for value, column in zip(values, columns, strict=True):
        if value is None or value == "" or isinstance(value, (Mapping, list, bytes, float)):
            raise ValueError(f"column {column} is to name the row, and its value is {_described(value)}")
    return "/".join(str(plain_value(value)).replace("%", "%25").replace("/", "%2F") for value in values)


def _described(value: Any) -> str:
    return "empty" if value is None or value == "" else type(value).__name__
