"""A graph's conditions and filters: compiled once, run per document."""

from __future__ import annotations

from pipestream.errors import ConditionError
from pipestream.graph.model import Edge, Graph, Node
from pipestream.routing.conditions import problems_of
from pipestream.routing.engine import VARIABLES, Bind, EvaluationError, Program, open_engine
from pipestream.routing.engine import Activation as EngineActivation
from pipestream.routing.problems import with_caret
from pipestream.routing.quick import Quick, quick_program, reads_stream
from pipestream.routing.syntax import Expr, parse
from pipestream.wire import PipeDoc, PipeStream


class Activation:
    """One document and its stream, for the conditions of a graph. It is valid until one of the two changes."""

    __slots__ = ("_bind", "_bound", "document", "stream")

    def __init__(self, stream: PipeStream, document: PipeDoc, bind: Bind) -> None:
        self.stream = stream
        self.document = document
        self._bind = bind
        self._bound: EngineActivation = None

    def bound(self) -> EngineActivation:
        """Return what the CEL engine evaluates. Made when the first condition needs it: most do not."""
        if self._bound is None:
            self._bound = self._bind(self.stream, self.document)
        return self._bound


class Conditions:
    """A graph's conditions and filters, ready to run. Build one per worker; it holds no document."""

    def __init__(self, graph: Graph, engine: str) -> None:
        opened = open_engine(engine)
        expressions: list[Expr] = []
        self._programs: dict[str, Program] = {}
        self._quick: dict[str, Quick] = {}
        self._of_document: dict[str, Quick] = {}
        texts = [edge.condition for edge in graph.edges]
        texts += [text for node in graph.nodes for text in node.filters]
        for text in texts:
            if not text.strip() or text in self._programs or text in self._quick:
                continue
            expr = parse(text)
            if (quick := quick_program(expr, VARIABLES)) is not None:
                self._quick[text] = quick
                if not reads_stream(expr):
                    self._of_document[text] = quick
            else:
                self._programs[text] = opened.compile(text)
                expressions.append(expr)
        self._edges_from = graph.edges_from
        self.deciding = frozenset(edge.from_node_id for edge in graph.edges if edge.condition.strip())
        """The nodes at which a condition decides where documents go."""
        self._bind = opened.binder(expressions)

    def activation(self, stream: PipeStream, document: PipeDoc) -> Activation:
        """Bind a document for all conditions of this graph. It takes the fields they name, and no others."""
        return Activation(stream, document, self._bind)

    def matches(self, edge: Edge, activation: Activation) -> bool:
        """Whether a document takes ``edge``. An empty condition always matches.

        :raises ConditionError: the condition failed on this document.
        """
        return self._holds(edge.condition, activation, edge.edge_id)

    def matching_edges(self, node_id: str, activation: Activation) -> list[Edge]:
        """All edges out of a node that a document takes, in priority order.

        :raises ConditionError: a condition failed on this document.
        """
        return [edge for edge in self._edges_from.get(node_id, ()) if self.matches(edge, activation)]

    def ways_of_documents(self, node_id: str) -> list[tuple[Edge, Quick | None]] | None:
        """Return the edges out of a node, each with its condition; None in place of a condition that always holds.

        Only where documents alone decide, and no condition can fail on one. Otherwise there is no list.
        """
        ways: list[tuple[Edge, Quick | None]] = []
        for edge in self._edges_from.get(node_id, ()):
            quick = self._of_document.get(edge.condition)
            if quick is None and edge.condition.strip():
                return None
            ways.append((edge, quick))
        return ways

    def passes_filters(self, node: Node, activation: Activation) -> bool:
        """Whether all filters of a node hold.

        :raises ConditionError: a filter failed on this document; it names the node and the filter's number.
        """
        return all(self.filter_holds(node, number, activation) for number in range(len(node.filters)))

    def filter_holds(self, node: Node, number: int, activation: Activation) -> bool:
        """Whether the filter of that number, counted from 0, holds."""
        return self._holds(node.filters[number], activation, f"{node.node_id}:filter[{number}]")

    def _holds(self, text: str, activation: Activation, owner: str) -> bool:
        quick = self._quick.get(text)
        if quick is not None:
            return quick(activation.stream, activation.document)
        program = self._programs.get(text)
        return True if program is None else _truth(program, activation.bound(), owner)


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


def _truth(program: Program, activation: EngineActivation, owner: str) -> bool:
    try:
        value = program(activation)
    except EvaluationError as error:
        raise ConditionError(owner, str(error)) from None
    if value is True or value is False:
        return bool(value)
    raise ConditionError(owner, f"the result is {type(value).__name__}, not true or false")
