"""Field mappings of nodes, before and after their modules.

Mappings run in the order they are written, each on the result of the one before. How many fields each takes:

* DIRECT copies source *i* to target *i*. If the document does not have the source, the target does not change.
* TRANSFORM does the same through a rule (see ``transform_rules.py``). Only ``default`` works on a missing source.
* AGGREGATE joins all sources to one target: ``concatenate`` as text with the delimiter between (lists element
  by element), ``sum`` as numbers. Missing sources are left out; if all are missing, the target does not change.
* SPLIT cuts one text at the delimiter, which must be given and not be empty. One target gets all parts as a list.
  Several targets get one part each, and targets beyond the last part are cleared. The last of several targets gets
  the rest, delimiters included, so that nothing is lost.
* CEL puts the value of an expression over ``doc``, ``document`` and ``stream`` in one target; null clears it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from pipestream.errors import MappingError
from pipestream.routing.conditions import check_expression, problems_of
from pipestream.routing.engine import Bind, EvaluationError, Program, open_engine
from pipestream.routing.field_mapping import FieldMapping, MappingType
from pipestream.routing.field_paths import check_path, get_field, set_field
from pipestream.routing.problems import with_caret
from pipestream.routing.syntax import parse
from pipestream.routing.transform_rules import apply_rule, check_rule, to_text
from pipestream.wire import PipeDoc, PipeStream

_AGGREGATIONS: Final = ("concatenate", "sum")


def apply_mappings(mappings: Sequence[FieldMapping], stream: PipeStream, document: PipeDoc, engine: str) -> PipeDoc:
    """Apply mappings to a copy of ``document`` and return the copy; without mappings, return the document itself.

    :raises MappingError: a mapping cannot be applied to this document; it names the mapping.
    """
    if not mappings:
        return document
    mapped = PipeDoc()
    mapped.CopyFrom(document)
    for mapping in mappings:
        try:
            _apply(mapping, stream, mapped, engine)
        except MappingError as error:
            raise MappingError(f"mapping {mapping.mapping_id}: {error}") from None
    return mapped


def check_mapping(mapping: FieldMapping) -> list[str]:
    """Return every problem of a mapping; an empty list means it can be saved."""
    paths = (*mapping.source_field_paths, *mapping.target_field_paths)
    problems = [problem for path in paths if (problem := check_path(path)) is not None]
    problems += _count_problems(mapping)
    match mapping.mapping_type:
        case MappingType.TRANSFORM:
            problems += check_rule(mapping.rule, mapping.params)
        case MappingType.AGGREGATE if mapping.aggregation not in _AGGREGATIONS:
            problems.append(f"there is no aggregation {mapping.aggregation!r}; use {' or '.join(_AGGREGATIONS)}")
        case MappingType.SPLIT if not mapping.delimiter:
            problems.append("a split needs a delimiter")
        case MappingType.CEL:
            found = check_expression(mapping.expression)
            problems += [with_caret(mapping.expression, problem) for problem in found]
    return problems


def _count_problems(mapping: FieldMapping) -> list[str]:
    kind, sources, targets = mapping.mapping_type, len(mapping.source_field_paths), len(mapping.target_field_paths)
    match kind:
        case MappingType.DIRECT | MappingType.TRANSFORM:
            if not sources or sources != targets:
                return [f"a {kind.value} mapping needs as many targets as sources, not {sources} to {targets}"]
        case MappingType.AGGREGATE:
            if not sources or targets != 1:
                return [f"an aggregate mapping takes sources to one target, not {sources} to {targets}"]
        case MappingType.SPLIT:
            if sources != 1 or not targets:
                return [f"a split mapping takes one source to targets, not {sources} to {targets}"]
        case MappingType.CEL:
            if targets != 1:
                return [f"a cel mapping has one target, not {targets}"]
    return []


def _apply(mapping: FieldMapping, stream: PipeStream, document: PipeDoc, engine: str) -> None:
    if problems := _count_problems(mapping):
        raise MappingError("; ".join(problems))
    match mapping.mapping_type:
        case MappingType.DIRECT | MappingType.TRANSFORM:
            _copy_fields(mapping, document)
        case MappingType.AGGREGATE:
            _aggregate(mapping, document)
        case MappingType.SPLIT:
            _split(mapping, document)
        case MappingType.CEL:
            value = _evaluate(mapping.expression, stream, document, engine)
            set_field(document, mapping.target_field_paths[0], value)


def _copy_fields(mapping: FieldMapping, document: PipeDoc) -> None:
    # Read everything first, so that a mapping can swap two fields.
    values = [get_field(document, path) for path in mapping.source_field_paths]
    if mapping.mapping_type is MappingType.TRANSFORM:
        values = [apply_rule(mapping.rule, value, mapping.params) for value in values]
    for path, value in zip(mapping.target_field_paths, map(_detached, values), strict=True):
        if value is not None:
            set_field(document, path, value)


def _detached(value: Any) -> Any:
    """Copy a message, because another field of the same mapping may overwrite it."""
    if not hasattr(value, "DESCRIPTOR"):
        return value
    copy = type(value)()
    copy.CopyFrom(value)
    return copy


def _aggregate(mapping: FieldMapping, document: PipeDoc) -> None:
    found: list[Any] = []
    for path in mapping.source_field_paths:
        value = get_field(document, path)
        found += value if isinstance(value, list) else [] if value is None else [value]
    if not found:
        return
    target = mapping.target_field_paths[0]
    if mapping.aggregation == "concatenate":
        try:
            set_field(document, target, mapping.delimiter.join(map(to_text, found)))
        except (TypeError, UnicodeDecodeError) as error:
            raise MappingError(f"cannot concatenate: {error}") from None
    elif mapping.aggregation == "sum":
        if wrong := [value for value in found if isinstance(value, bool) or not isinstance(value, (int, float))]:
            raise MappingError(f"cannot sum a {type(wrong[0]).__name__}; convert it with to_double first")
        set_field(document, target, sum(found))
    else:
        raise MappingError(f"there is no aggregation {mapping.aggregation!r}; use {' or '.join(_AGGREGATIONS)}")


def _split(mapping: FieldMapping, document: PipeDoc) -> None:
    (source,), targets = mapping.source_field_paths, mapping.target_field_paths
    value = get_field(document, source)
    if value is None:
        return
    if not isinstance(value, str):
        raise MappingError(f"{source} holds a {type(value).__name__}, and only text can be split")
    if not mapping.delimiter:
        raise MappingError("a split needs a delimiter")
    if len(targets) == 1:
        set_field(document, targets[0], value.split(mapping.delimiter))
        return
    parts: list[str | None] = [*value.split(mapping.delimiter, len(targets) - 1)]
    parts += [None] * (len(targets) - len(parts))
    for path, part in zip(targets, parts, strict=True):
        set_field(document, path, part)


@lru_cache(maxsize=1024)
def _compiled(expression: str, engine: str) -> tuple[Program, Bind]:
    opened = open_engine(engine)
    if problems := problems_of(expression, opened.name, boolean=False):
        raise MappingError(with_caret(expression, problems[0]))
    return opened.compile(expression), opened.binder([parse(expression)])


def _evaluate(expression: str, stream: PipeStream, document: PipeDoc, engine: str) -> Any:
    program, bind = _compiled(expression, engine)
    try:
        return program(bind(stream, document))
    except EvaluationError as error:
        raise MappingError(str(error)) from None
