"""Check CEL expressions, as a graph does when it is saved."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pipestream.routing.engine import open_checker, open_engine
from pipestream.routing.limits import check_limits
from pipestream.routing.problems import ConditionProblem, ExpressionRefused, SyntaxRefused
from pipestream.routing.syntax import parse

_WORD: Final = (
    r"(?!(?:as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true|var"
    r"|void|while)\b)[A-Za-z_]\w*"
)
_TEXT: Final = r'"[^"\\\n]*"'
_TERM: Final = (
    rf"!?doc(?:\.{_WORD}){{1,8}}"
    rf"(?:\.(?:contains|startsWith|endsWith)\({_TEXT}\)| *[!=]= *{_TEXT}| +in +\[{_TEXT}(?:, *{_TEXT})*\])"
)
_PLAIN: Final = re.compile(rf"{_TERM}(?: *(?:&&|\|\|) *{_TERM}){{0,7}}", re.ASCII)
"""Fields compared with texts, as most conditions of most graphs are. They cannot break a limit."""
_PLAIN_CHARACTERS: Final = 500


def check_condition(text: str) -> list[ConditionProblem]:
    """Return every problem of a condition; an empty list means it can be saved.

    Syntax, limits, names, field paths, operand types and a boolean result are checked, all against the
    wire's descriptors. Where cel-expr-python is not installed, celpy checks all of these except operand types.
    There a wrong type becomes a ConditionError on the first document.
    """
    return list(problems_of(text, open_checker().name, boolean=True))


def check_expression(text: str) -> list[ConditionProblem]:
    """As ``check_condition``, for an expression that may give a value of any type."""
    return list(problems_of(text, open_checker().name, boolean=False))


# Graphs repeat their conditions, and a graph is checked again whenever it is loaded.
@lru_cache(maxsize=4096)
def problems_of(text: str, engine: str, *, boolean: bool) -> tuple[ConditionProblem, ...]:
    """Return every problem that an engine finds in an expression."""
    checker = open_engine(engine)
    if engine == "cel-expr" and is_plain(text):
        return tuple(checker.check(text, boolean=boolean))
    try:
        expr = parse(text)
        # Limits come first: a hostile expression must not even be compiled.
        check_limits(text, expr)
    except SyntaxRefused as refused:
        # Google's parser says what it expected; celpy's only where it stopped.
        return tuple(checker.check(text, boolean=boolean) or refused.problems)
    except ExpressionRefused as refused:
        return tuple(refused.problems)
    return tuple(checker.check(text, boolean=boolean))


def is_plain(text: str) -> bool:
    """Tell whether an expression is so plain that only its names and types need checking.

    celpy's parser, which finds what breaks a limit, takes a third of a second to make: most of what a task of Airflow
    spends on reading its DAG.
    """
    return len(text) <= _PLAIN_CHARACTERS and _PLAIN.fullmatch(text) is not None
