"""A graph's conditions and filters: compiled once, run per document."""

from __future__ import annotations

from collections.abc import Callable

from pipestream.errors import ConditionError
from pipestream.graph.model import Edge, Graph, Node
from pipestream.routing.conditions import problems_of
from pipestream.routing.engine import Activation, EvaluationError, Program, open_engine
from pipestream.routing.problems import with_caret
from pipestream.routing.syntax import Expr, parse
from pipestream.wire import PipeDoc, PipeStream


class Conditions:
    """A graph's conditions and filters, ready to run. Build one per worker; it holds no document."""

    def __init__(self, graph: Graph, engine: str) -> None:
        opened = open_engine(engine)
        expressions: dict[str, Expr] = {}
        programs: dict[str, Program] = {}
        texts = [edge.condition for edge in graph.edges]
        texts += [text for node in graph.nodes for text in node.filters]
        for text in texts:
            if text.strip() and text not in programs:
                expressions[text] = parse(text)
                programs[text] = opened.compile(text)
        self._programs = programs
        self._edges_from = graph.edges_from
        self._bind: Callable[[PipeStream, PipeDoc], Activation] = opened.binder(list(expressions.values()))

    def activation(self, stream: PipeStream, document: PipeDoc) -> Activation:
        """Bind a document for all conditions of this graph. It takes the fields they name, and no others."""
        return self._bind(stream, document)

    def matches(self, edge: Edge, activation: Activation) -> bool:
        """Whether a document takes ``edge``. An empty condition always matches.

        :raises ConditionError: the condition failed on this document.
        """
        program = self._programs.get(edge.condition)
        return True if program is None else _truth(program, activation, edge.edge_id)

    def matching_edges(self, node_id: str, activation: Activation) -> list[Edge]:
        """All edges out of a node that a document takes, in priority order.

        :raises ConditionError: a condition failed on this document.
        """
        return [edge for edge in self._edges_from.get(node_id, ()) if self.matches(edge, activation)]

    def passes_filters(self, node: Node, activation: Activation) -> bool:
        """Whether all filters of a node hold.

        :raises ConditionError: a filter failed on this document; it names the node and the filter's number.
        """
        return all(self.filter_holds(node, number, activation) for number in range(len(node.filters)))

    def filter_holds(self, node: Node, number: int, activation: Activation) -> bool:
        """Whether the filter of that number, counted from 0, holds."""
        program = self._programs.get(node.filters[number])
        return True if program is None else _truth(program, activation, f"{node.node_id}:filter[{number}]")


def compile_conditions(graph: Graph, engine: str) -> Conditions:
    """Compile the conditions of a graph that was checked when it was saved.

    :raises ConditionError: a condition does not compile, so the graph was never checked.
    """
    for edge in graph.edges:
        _refuse_problems(edge.edge_id, edge.condition, engine)
    for node in graph.nodes:
        for number, text in enumerate(node.filters):
            _refuse_problems(f"{node.node_id}:filter[{number}]", text, engine)
    return Conditions(graph, engine)


def _refuse_problems(owner: str, text: str, engine: str) -> None:
    # By the engine that will run it: a second one would only be loaded to check what was checked on saving.
    if text.strip() and (problems := problems_of(text, engine, boolean=True)):
        raise ConditionError(owner, with_caret(text, problems[0]))


def _truth(program: Program, activation: Activation, owner: str) -> bool:
    try:
        value = program(activation)
    except EvaluationError as error:
        raise ConditionError(owner, str(error)) from None
    if value is True or value is False:
        return bool(value)
    raise ConditionError(owner, f"the result is {type(value).__name__}, not true or false")
