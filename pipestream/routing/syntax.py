"""CEL's syntax tree, in the few kinds of node that both engines share.

celpy's parser reads the text. Its tree has a node for every grammar rule; this module reduces it to a few kinds of
node. The limits, the choice of fields that an activation needs, and the celpy engine work on the reduced tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from celpy.celparser import CELParseError, CELParser

from pipestream.routing.literals import literal_value
from pipestream.routing.problems import ExpressionRefused, SyntaxRefused, problem_at, problem_on
from pipestream.routing.source import MAX_NESTING, TOO_DEEP, check_source

MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    offset: int


@dataclass(frozen=True, slots=True)
class Ident:
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Select:
    operand: Expr
    field: str
    offset: int


@dataclass(frozen=True, slots=True)
class Has:
    operand: Expr
    field: str
    offset: int


@dataclass(frozen=True, slots=True)
class Logical:
    """``&&`` or ``||`` over two or more operands."""

    operator: str
    operands: tuple[Expr, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, a function or a method; a method's target is its first argument."""

    name: str
    args: tuple[Expr, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Expr, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple[Expr, Expr], ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Comprehension:
    """``range.macro(variable, body)``; ``map`` may have a ``condition`` before its body."""

    macro: str
    range: Expr
    variable: str
    condition: Expr | None
    body: Expr
    offset: int


Expr = Literal | Ident | Select | Has | Logical | Call | ListOf | MapOf | Comprehension


# Checking, compiling and choosing fields each ask for the same tree, and a tree never changes.
@lru_cache(maxsize=4096)
def parse(text: str) -> Expr:
    """Read an expression.

    :raises ExpressionRefused: it is too long, too deep, or not CEL.
    """
    check_source(text)
    try:
        tree = CELParser().parse(text)
    except CELParseError as error:
        # At the end of the text the parser names the last token it read, or no place at all.
        at_end = error.line is None or error.line < 0
        place = (
            problem_at(text, len(text), "syntax error: the expression ends too early")
            if at_end
            else problem_on(text, error.line or 1, error.column or 1, "syntax error here")
        )
        raise SyntaxRefused([place]) from None
    return _Folder(text).fold(tree, 0)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside ``expr``."""
    match expr:
        case Select() | Has():
            return (expr.operand,)
        case Logical():
            return expr.operands
        case Call():
            return expr.args
        case ListOf():
            return expr.items
        case MapOf():
            return tuple(part for entry in expr.entries for part in entry)
        case Comprehension():
            condition = () if expr.condition is None else (expr.condition,)
            return (expr.range, *condition, expr.body)
    return ()


_OPERATORS: Final = {
    "relation_lt": "<",
    "relation_le": "<=",
    "relation_gt": ">",
    "relation_ge": ">=",
    "relation_eq": "==",
    "relation_ne": "!=",
    "relation_in": "in",
    "addition_add": "+",
    "addition_sub": "-",
    "multiplication_mul": "*",
    "multiplication_div": "/",
    "multiplication_mod": "%",
}
_LOGICAL: Final = {"conditionalor": "||", "conditionaland": "&&"}


class _Folder:
    """Turns celpy's tree into ours. Refuses a tree that is too deep before Python's own stack overflows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def fold(self, tree: Any, depth: int) -> Expr:
        while len(tree.children) == 1 and tree.data in _SINGLE:
            depth += tree.data == "paren_expr"
            tree = tree.children[0]
        if depth > MAX_NESTING:
            raise self._refused(_start(tree), TOO_DEEP)
        if tree.data in _LOGICAL:
            return self._logical(tree, depth)
        handler = getattr(self, f"_{tree.data}", None)
        if handler is None:
            handler = self._binary
        folded: Expr = handler(tree, depth + 1)
        return folded

    def _refused(self, offset: int, message: str) -> ExpressionRefused:
        return ExpressionRefused([problem_at(self._text, offset, message)])

    def _logical(self, tree: Any, depth: int) -> Expr:
        # The grammar is left-recursive: a && b && c nests to the left, once per operand.
        rule, operands, offset = tree.data, [], _start(tree)
        while tree.data == rule and len(tree.children) == 2:
            operands.append(tree.children[1])
            tree = tree.children[0]
        operands.append(tree)
        folded = tuple(self.fold(operand, depth + 1) for operand in reversed(operands))
        return Logical(_LOGICAL[rule], folded, offset)

    def _binary(self, tree: Any, depth: int) -> Expr:
        left, right = tree.children
        operator = _OPERATORS[left.data]
        args = (self.fold(left.children[0], depth), self.fold(right, depth))
        return Call(f"_{operator}_", args, left.meta.end_pos - len(operator))

    def _expr(self, tree: Any, depth: int) -> Expr:
        args = tuple(self.fold(child, depth) for child in tree.children)
        return Call("_?_:_", args, _start(tree))

    def _unary(self, tree: Any, depth: int) -> Expr:
        operator, operand = tree.children
        if len(operand.children) == 2 and operand.children[0].data == operator.data:
            # Google's parser ignores !! and --, whatever follows them.
            return self.fold(operand.children[1], depth)
        name = "!_" if operator.data == "unary_not" else "-_"
        return Call(name, (self.fold(operand, depth),), _start(tree))

    def _member_dot(self, tree: Any, depth: int) -> Expr:
        operand, field = tree.children
        return Select(self.fold(operand, depth), str(field), field.start_pos)

    def _member_index(self, tree: Any, depth: int) -> Expr:
        operand, index = tree.children
        return Call("_[_]", (self.fold(operand, depth), self.fold(index, depth)), getattr(operand.meta, "end_pos", 0))

    def _member_object(self, tree: Any, _depth: int) -> Expr:
        raise self._refused(_start(tree), "an expression cannot build messages; compare fields instead")

    def _member_dot_arg(self, tree: Any, depth: int) -> Expr:
        operand, method, *rest = tree.children
        args = rest[0].children if rest else []
        if method in MACROS:
            return self._comprehension(operand, method, args, depth)
        folded = (self.fold(operand, depth), *(self.fold(arg, depth) for arg in args))
        return Call(str(method), folded, method.start_pos)

    def _comprehension(self, operand: Any, method: Any, args: list[Any], depth: int) -> Expr:
        most = 3 if method == "map" else 2
        if not 2 <= len(args) <= most:
            raise self._refused(method.start_pos, f"{method}() takes a variable and an expression")
        variable = self.fold(args[0], depth)
        if not isinstance(variable, Ident):
            raise self._refused(_start(args[0]), f"the first argument of {method}() must be a plain name")
        return Comprehension(
            macro=str(method),
            range=self.fold(operand, depth),
            variable=variable.name,
            condition=self.fold(args[1], depth) if len(args) == 3 else None,
            body=self.fold(args[-1], depth),
            offset=method.start_pos,
        )

    def _ident_arg(self, tree: Any, depth: int) -> Expr:
        name, *rest = tree.children
        args = tuple(self.fold(arg, depth) for arg in (rest[0].children if rest else []))
        if name != "has":
            return Call(str(name), args, name.start_pos)
        if len(args) != 1 or not isinstance(args[0], Select):
            raise self._refused(name.start_pos, "has() takes one field, as in has(doc.search_metadata.doi)")
        return Has(args[0].operand, args[0].field, args[0].offset)

    def _dot_ident_arg(self, tree: Any, depth: int) -> Expr:
        return self._ident_arg(tree, depth)

    def _ident(self, tree: Any, _depth: int) -> Expr:
        return Ident(str(tree.children[0]), _start(tree))

    def _dot_ident(self, tree: Any, depth: int) -> Expr:
        return self._ident(tree, depth)

    def _list_lit(self, tree: Any, depth: int) -> Expr:
        items = tree.children[0].children if tree.children else []
        return ListOf(tuple(self.fold(item, depth) for item in items), _start(tree))

    def _map_lit(self, tree: Any, depth: int) -> Expr:
        parts = [self.fold(part, depth) for part in (tree.children[0].children if tree.children else [])]
        return MapOf(tuple(zip(parts[::2], parts[1::2], strict=True)), _start(tree))

    def _literal(self, tree: Any, _depth: int) -> Expr:
        (token,) = tree.children
        try:
            value = literal_value(token.type, str(token))
        except ValueError as error:
            raise self._refused(_start(tree), str(error)) from None
        return Literal(value, _start(tree))


def _start(tree: Any) -> int:
    # celpy creates the tokens true and false again, without their position.
    start: int = getattr(tree.meta, "start_pos", 0) or 0
    return start


_SINGLE: Final = frozenset(
    {
        "expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member",
        "primary", "paren_expr",
    }
)  # fmt: skip
