"""Check the conditions of a graph: those of its edges and the filters of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.routing.conditions import check_condition
from pipestream.routing.engine import checks_types
from pipestream.routing.problems import with_caret

if TYPE_CHECKING:
    from pipestream.graph.draft import Draft
    from pipestream.graph.report import Report


def check_expressions(draft: Draft, report: Report) -> None:
    """Report every condition that does not compile, with a caret under the place."""

    def check(text: str, field: str) -> None:
        for problem in check_condition(text):
            report.problem(field, with_caret(text, problem))

    places: list[str] = []
    for place, node in draft.nodes:
        for index, text in enumerate(node.filters):
            places.append(f"{place}.filters[{index}]")
            check(text, places[-1])
        for key, mappings in (("pre_mappings", node.pre_mappings), ("post_mappings", node.post_mappings)):
            places += [f"{place}.{key}[{index}]" for index, each in enumerate(mappings) if each.expression]
    for place, edge in draft.edges:
        if edge.condition:
            places.append(f"{place}.when")
            check(edge.condition, places[-1])
    if places and not checks_types():
        # Reported once, at the first expression: the installation lacks it, not the expression.
        report.warning(
            places[0],
            "the types in CEL expressions are not checked: cel-expr-python is not installed here",
            "install it to find wrong types now rather than on the first document",
        )
