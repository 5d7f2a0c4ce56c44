"""The limits that an expression's text must keep before anything parses it."""

from __future__ import annotations

import re
from typing import Final

from pipestream.routing.problems import ExpressionRefused, problem_at

MAX_LENGTH: Final = 4096
"""Characters of source. A condition that a person can still review is far shorter."""
MAX_NESTING: Final = 24
"""Depth of the tree. It is below the 32 at which Google's parser gives up, so that both engines have the same limit."""

TOO_DEEP: Final = f"the expression is nested more than {MAX_NESTING} deep"
_BRACKETS: Final = re.compile(
    r'''"""[\s\S]*?"""|\'{3}[\s\S]*?\'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|//.*|[()\[\]{}]'''
    rf"|(?P<signs>(?:[!-]\s*){{{MAX_NESTING + 1}}})"
)
"""Brackets and long runs of signs; texts and comments are matched first, so that what is in them is not."""


def check_source(text: str) -> None:
    """Refuse a text that is empty, too long or too deep.

    :raises ExpressionRefused: naming the place.
    """
    if not text.strip():
        raise ExpressionRefused([problem_at(text, 0, "the expression is empty")])
    if len(text) > MAX_LENGTH:
        message = f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed"
        raise ExpressionRefused([problem_at(text, MAX_LENGTH, message)])
    # The parser could handle thousands of brackets, but slowly, so they are refused here.
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += (found[0] in "([{") - (found[0] in ")]}") if len(found[0]) == 1 else 0
        if depth > MAX_NESTING or found.lastgroup == "signs":
            raise ExpressionRefused([problem_at(text, found.start(), TOO_DEEP)])
