"""Try a condition or mappings on documents, as a drain would apply them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from pipestream.engine.graph_conditions import Conditions
from pipestream.errors import ConditionError, MappingError, RequestInvalid
from pipestream.graph.load import check_graph_values
from pipestream.graph.model import Edge, Graph, Node, NodeType
from pipestream.routing.conditions import check_condition
from pipestream.routing.mappings import apply_mappings
from pipestream.wire import PipeDoc, PipeStream

if TYPE_CHECKING:
    from pipestream.graph.model import FieldMapping


@dataclass(frozen=True, slots=True)
class ConditionTrial:
    """What a condition says of a document; ``result`` is None where it fails, or cannot be used at all."""

    result: bool | None
    error: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MappedDocument:
    """A sample before and after the mappings; ``after`` is None where they fail on it."""

    before: dict[str, Any]
    after: dict[str, Any] | None
    error: str


@dataclass(frozen=True, slots=True)
class MappingTrial:
    """What mappings make of samples; with problems, they were not applied."""

    problems: tuple[str, ...]
    results: tuple[MappedDocument, ...]


def read_document(values: Mapping[str, Any]) -> PipeDoc:
    """Return the document of protobuf's JSON, such as a page pastes it.

    :raises RequestInvalid: it is not a PipeDoc.
    """
    try:
        return ParseDict(dict(values), PipeDoc())
    except (ParseError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RequestInvalid(f"this is not a document in protobuf's JSON: {reason}") from None


def try_condition(condition: str, document: PipeDoc, engine: str) -> ConditionTrial:
    """Evaluate a condition on a document.

    :param engine: the setting ``cel_engine``.
    """
    if problems := check_condition(condition):
        return ConditionTrial(None, "", tuple(str(problem) for problem in problems))
    edge = Edge("the condition", "from", "to", condition=condition)
    graph = Graph("trial", "trial", (Node("from", "trial"), Node("to", "trial")), (edge,))
    conditions = Conditions(graph, engine)
    try:
        return ConditionTrial(conditions.matches(edge, conditions.activation(PipeStream(), document)), "", ())
    except ConditionError as error:
        return ConditionTrial(None, error.reason, ())


def try_mappings(mappings: Sequence[Mapping[str, Any]], documents: Sequence[PipeDoc], engine: str) -> MappingTrial:
    """Apply mappings, given as in a graph file, to samples."""
    node = {"id": "trial", "type": NodeType.CONNECTOR.value, "pre_mappings": [dict(each) for each in mappings]}
    check = check_graph_values({"graph": "trial", "cluster": "trial", "nodes": [node]}, "mappings")
    # The rest of this graph is ours: only the mappings can be wrong.
    problems = tuple(f"{p.field.removeprefix('nodes[0].')}: {p.message}" for p in check.problems)
    if check.graph is None:
        return MappingTrial(problems, ())
    own = check.graph.node_by_id["trial"].pre_mappings
    return MappingTrial((), tuple(_map(own, document, engine) for document in documents))


def _map(mappings: Sequence[FieldMapping], document: PipeDoc, engine: str) -> MappedDocument:
    before = MessageToDict(document, preserving_proto_field_name=True)
    try:
        mapped = apply_mappings(mappings, PipeStream(), document, engine)
    except MappingError as error:
        return MappedDocument(before, None, str(error))
    return MappedDocument(before, MessageToDict(mapped, preserving_proto_field_name=True), "")
