"""Which fields expressions use, and cheap copies of messages that hold just those.

Google's engine copies a whole message to C++, so its cost grows with the message's size. A condition reads only a few
fields, so an activation gets a copy of those alone. Fields that no expression names, above all the body and the blobs'
bytes, are never read. An expression that names the body pays for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from pipestream.routing.syntax import Call, Comprehension, Expr, Has, Ident, Literal, Select, children

Copy = Callable[[Any, Any], None]
"""Copies what is used of a source message into an empty target."""


@dataclass(slots=True)
class Use:
    """What is used of one value: all of it, some fields, or, with neither, whether it is there."""

    whole: bool = False
    fields: dict[str, Use] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Complaint:
    """A field path that does not exist."""

    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class _Ref:
    """A place inside a variable that an expression has reached. A leaf has neither message nor element."""

    use: Use
    message: Descriptor | None = None
    element: Descriptor | None = None
    is_map: bool = False
    scalar: str = ""
    """The field's name, where it is a plain value with nothing inside."""


_Scope = Mapping[str, _Ref | None]


class FieldUses:
    """Collects what expressions use of each variable, and reports fields that do not exist."""

    def __init__(self, variables: Mapping[str, Descriptor]) -> None:
        self.variables = dict(variables)
        self.uses = {name: Use() for name in variables}
        self.complaints: list[Complaint] = []

    def add(self, expr: Expr) -> None:
        scope = {name: _Ref(self.uses[name], message) for name, message in self.variables.items()}
        self._use(self._visit(expr, scope))

    def _use(self, ref: _Ref | None) -> None:
        if ref is not None:
            ref.use.whole = True

    def _visit(self, expr: Expr, scope: _Scope) -> _Ref | None:
        """Follow ``expr`` as far as it is a path. Return the place that it reaches and does not use yet, or None."""
        match expr:
            case Ident(name):
                return scope.get(name)
            case Select(operand, name, offset) | Has(operand, name, offset):
                ref = self._select(self._visit(operand, scope), name, offset)
                return None if isinstance(expr, Has) else ref
            case Call("_[_]", (operand, index)):
                ref = self._visit(operand, scope)
                self._use(self._visit(index, scope))
                return _Ref(ref.use, ref.element) if ref is not None and ref.element is not None else ref
            case Call("size" | "_in_", args):
                for arg in args:
                    ref = self._visit(arg, scope)
                    # Every copy has the number of elements and their keys.
                    if ref is None or ref.element is None:
                        self._use(ref)
                return None
            case Comprehension():
                return self._comprehension(expr, scope)
            case Literal():
                return None
        for child in children(expr):
            self._use(self._visit(child, scope))
        return None

    def _comprehension(self, expr: Comprehension, scope: _Scope) -> _Ref | None:
        ref = self._visit(expr.range, scope)
        item: _Ref | None = None
        if ref is not None and ref.element is None:
            self._use(ref)
        elif ref is not None and not ref.is_map:
            item = _Ref(ref.use, ref.element)
        inner = {**scope, expr.variable: item}
        for part in (expr.condition, expr.body):
            if part is not None:
                self._use(self._visit(part, inner))
        return ref if expr.macro == "filter" else None

    def _select(self, ref: _Ref | None, name: str, offset: int) -> _Ref | None:
        if ref is None:
            return None
        if ref.element is not None:
            if not ref.is_map:
                self.complaints.append(Complaint(offset, f"a list has no field {name}"))
                return None
            return _Ref(ref.use, ref.element)
        if ref.message is None:
            if ref.scalar:
                self.complaints.append(Complaint(offset, f"{ref.scalar} is a plain value and has no field {name}"))
            self._use(ref)
            return None
        found = ref.message.fields_by_name.get(name)
        if found is None:
            self.complaints.append(Complaint(offset, f"{ref.message.name} has no field {name}"))
            return None
        return _place_of(found, ref.use.fields.setdefault(name, Use()))


def _place_of(found: FieldDescriptor, use: Use) -> _Ref:
    message = found.message_type
    if message is None:
        return _Ref(use, scalar="" if found.is_repeated else found.name)
    if message.GetOptions().map_entry:
        value = message.fields_by_name["value"].message_type
        return _Ref(use) if value is None or is_well_known(value) else _Ref(use, element=value, is_map=True)
    if is_well_known(message):
        # A Struct, a Timestamp or an Any is a value of its own to CEL, taken whole.
        return _Ref(use)
    return _Ref(use, element=message) if found.is_repeated else _Ref(use, message)


def is_well_known(message: Descriptor) -> bool:
    return message.full_name.startswith("google.protobuf.")


def copier(message: Descriptor, use: Use) -> Copy:
    """Make the function that copies what ``use`` says of such a message."""
    if use.whole:
        return _copy_all
    steps = tuple(_step(message.fields_by_name[name], inner) for name, inner in sorted(use.fields.items()))

    def copy(source: Any, target: Any) -> None:
        for step in steps:
            step(source, target)

    return steps[0] if len(steps) == 1 else copy


def _copy_all(source: Any, target: Any) -> None:
    target.CopyFrom(source)


def _step(found: FieldDescriptor, use: Use) -> Copy:
    place = _place_of(found, use)
    if place.element is not None and not use.whole:
        return _copy_elements(found.name, copier(place.element, use), is_map=place.is_map)
    if found.is_repeated:
        return _merge_container(found.name)
    if place.message is not None:
        return _copy_message(found.name, copier(place.message, use))
    if found.message_type is not None:
        return _copy_message(found.name, _copy_all if use.whole else _copy_nothing)
    return _copy_scalar(found, use)


def _copy_nothing(_source: Any, _target: Any) -> None:
    """Only whether the message is there counts."""


def _copy_message(name: str, copy: Copy) -> Copy:
    def step(source: Any, target: Any) -> None:
        if source.HasField(name):
            inner = getattr(target, name)
            inner.SetInParent()
            copy(getattr(source, name), inner)

    return step


def _copy_scalar(found: FieldDescriptor, use: Use) -> Copy:
    name = found.name
    if not found.has_presence:

        def step(source: Any, target: Any) -> None:
            setattr(target, name, getattr(source, name))

    elif use.whole:

        def step(source: Any, target: Any) -> None:
            if source.HasField(name):
                setattr(target, name, getattr(source, name))

    else:
        blank = found.default_value

        def step(source: Any, target: Any) -> None:
            if source.HasField(name):
                setattr(target, name, blank)

    return step


def _merge_container(name: str) -> Copy:
    def step(source: Any, target: Any) -> None:
        getattr(target, name).MergeFrom(getattr(source, name))

    return step


def _copy_elements(name: str, copy: Copy, *, is_map: bool) -> Copy:
    def copy_map(source: Any, target: Any) -> None:
        into = getattr(target, name)
        for key, value in getattr(source, name).items():
            copy(value, into[key])

    def copy_list(source: Any, target: Any) -> None:
        into = getattr(target, name)
        for value in getattr(source, name):
            copy(value, into.add())

    return copy_map if is_map else copy_list


def uses_of(expressions: Iterable[Expr], variables: Mapping[str, Descriptor]) -> FieldUses:
    """Collect what ``expressions`` use of ``variables``."""
    uses = FieldUses(variables)
    for expr in expressions:
        uses.add(expr)
    return uses
