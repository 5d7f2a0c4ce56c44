"""YAML text as a tree with line numbers.

It is read event by event, not by a loader: a graph file comes from outside, so nothing in it may build an object,
expand an alias or recurse. Plain scalars are read as in YAML 1.2 (``on`` and ``1:30`` are text).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 40

# libyaml is 25 times faster than the parser in Python; otherwise they are the same.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
    ".inf": math.inf, "-.inf": -math.inf, "+.inf": math.inf, ".nan": math.nan,
}  # fmt: skip
_NUMBER_STARTS = frozenset("+-.0123456789")
# Python refuses to read integers of more than 4300 digits; no number of a graph has more than this.
_MAX_DIGITS = 40


class YamlInvalid(ValueError):
    """The text is not YAML, or not the kind that is accepted. Counted from line 1."""

    def __init__(self, line: int | None, message: str, hint: str = "") -> None:
        self.line = line
        self.message = message
        self.hint = hint
        super().__init__(message)


@dataclass(slots=True)
class Scalar:
    """A single value: text, number, flag or nothing."""

    line: int
    value: str | int | float | bool | None


@dataclass(slots=True)
class Sequence:
    """A list of values."""

    line: int
    items: list[Tree] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """Keys and values in the order of the file; a key may be there twice."""

    line: int
    entries: list[tuple[Scalar, Tree]] = field(default_factory=list)


Tree = Scalar | Sequence | Mapping


def parse_yaml(data: bytes) -> Tree | None:
    """Return the tree of a file's only document, or None if it holds nothing.

    :raises YamlInvalid: whatever is wrong with the bytes.
    """
    if len(data) > MAX_BYTES:
        raise YamlInvalid(None, f"the file has {len(data)} bytes; a graph has at most {MAX_BYTES}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YamlInvalid(line, "the file is not UTF-8 text") from None
    try:
        return _build(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlInvalid(mark.line + 1 if mark else None, f"not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlInvalid(line, f"not YAML: {error.reason}") from None


def tree_of(value: Any) -> Tree:
    """Return plain values as a tree whose lines are all 0."""
    if isinstance(value, dict):
        return Mapping(0, [(Scalar(0, key), tree_of(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return Sequence(0, [tree_of(item) for item in value])
    return Scalar(0, value)


def _build(events: Iterator[Any]) -> Tree | None:
    """Build the tree with an explicit stack, so that deep nesting is reported and does not crash."""
    root: Tree | None = None
    documents = 0
    open_nodes: list[Sequence | Mapping] = []
    keys: list[Scalar | None] = []  # for each open mapping, the key that waits for its value

    for event in events:
        if isinstance(event, yaml.NodeEvent):
            node = _node(event)
            if open_nodes:
                _attach(open_nodes[-1], keys, node)
            else:
                root = node
            if not isinstance(node, Scalar):
                open_nodes.append(node)
                keys.append(None)
                if len(open_nodes) > MAX_DEPTH:
                    raise YamlInvalid(node.line, f"nested more than {MAX_DEPTH} deep")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            open_nodes.pop()
            keys.pop()
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                line = event.start_mark.line + 1 if event.start_mark else None
                raise YamlInvalid(line, "the file holds a second document", "one graph per file")
    return root


def _attach(parent: Sequence | Mapping, keys: list[Scalar | None], node: Tree) -> None:
    if isinstance(parent, Sequence):
        parent.items.append(node)
        return
    key = keys[-1]
    if key is not None:
        parent.entries.append((key, node))
        keys[-1] = None
    elif isinstance(node, Scalar):
        keys[-1] = node
    else:
        raise YamlInvalid(node.line, "a key must be a single word, not a list or a mapping")


def _node(event: Any) -> Tree:
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        raise YamlInvalid(line, f"alias *{event.anchor} is not accepted", "write the value out")
    # implicit is False (or a pair of False) exactly where the file spells a tag
    if event.tag is not None and event.tag != "!":
        raise YamlInvalid(line, f"tag {event.tag} is not accepted", "remove it")
    if isinstance(event, yaml.ScalarEvent):
        # libyaml calls the style of a plain scalar "", the parser in Python None
        return Scalar(line, event.value if event.style else plain_value(event.value, line))
    return Sequence(line) if isinstance(event, yaml.SequenceStartEvent) else Mapping(line)


def plain_value(text: str, line: int = 0) -> str | int | float | bool | None:
    """Read an unquoted scalar by YAML 1.2's core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if len(text) > _MAX_DIGITS:
        if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text):
            raise YamlInvalid(line, f"a number of {len(text)} characters", "put quotes around it if it is text")
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
