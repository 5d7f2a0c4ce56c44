"""Check the conditions of a graph: those of its edges and the filters of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.routing.conditions import check_condition
from pipestream.routing.problems import with_caret

if TYPE_CHECKING:
    from pipestream.graph.draft import Draft
    from pipestream.graph.report import Report


def check_expressions(draft: Draft, report: Report) -> None:
    """Report every condition that does not compile, with a caret under the place."""

    def check(text: str, field: str) -> None:
        for problem in check_condition(text):
            report.problem(field, with_caret(text, problem))

    for place, node in draft.nodes:
        for index, text in enumerate(node.filters):
            check(text, f"{place}.filters[{index}]")
    for place, edge in draft.edges:
        if edge.condition:
            check(edge.condition, f"{place}.when")
