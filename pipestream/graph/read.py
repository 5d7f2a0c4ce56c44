"""Read a YAML tree by the tables of the format: values where they fit, problems where they don't."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipestream.graph.kinds import Field, Free, Mismatch, Section, Sections, check_json, describe
from pipestream.graph.yamltree import Mapping, Scalar, Sequence, Tree

if TYPE_CHECKING:
    from pipestream.graph.report import Report


def read_section(tree: Tree, section: Section, path: str, report: Report) -> dict[str, Any] | None:
    """Return the values of a section's fields, without those that are wrong, or None if it is not a mapping.

    Every field's line is noted in the report under its path, such as ``edges[2].to``.
    """
    if not isinstance(tree, Mapping):
        report.problem(path or section.name, f"expected a mapping, not {describe(_value(tree))}")
        return None
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for key_node, child in tree.entries:
        key = key_node.value
        if not isinstance(key, str):
            where = f"{path}.{key}" if path else str(key)
            report.lines[where] = key_node.line
            report.problem(where, f"key {describe(key)} must be text", "put it in quotes")
            continue
        where = f"{path}.{key}" if path else key
        if key in seen:
            report.lines[where] = key_node.line
            report.problem(where, "is here twice")
            continue
        seen.add(key)
        report.lines[where] = key_node.line
        _read_field(key, child, section, where, report, values)
    for field in section.fields:
        if field.required and field.key not in seen:
            where = f"{path}.{field.key}" if path else field.key
            report.problem(where, f"{field.key} is missing", field.help)
    return values


def _read_field(key: str, tree: Tree, section: Section, where: str, report: Report, values: dict[str, Any]) -> None:
    field = section.by_key.get(key)
    try:
        if field is not None:
            value = _read_kind(tree, field, where, report)
            if value is not None:
                values[key] = value
        elif section.others:
            values[key] = _json_value(tree)
        else:
            report.problem(where, f"unknown key {describe(key)}", report.suggest(key, section.by_key.keys()))
    except Mismatch as error:
        report.problem(where, str(error))


def _read_kind(tree: Tree, field: Field, where: str, report: Report) -> Any:
    kind = field.kind
    if isinstance(kind, Section):
        return read_section(tree, kind, where, report)
    if not isinstance(kind, Sections):
        if isinstance(kind, Free):
            _note_lines(tree, where, report)
        return kind.check(_value(tree))
    if not isinstance(tree, Sequence):
        raise Mismatch(f"expected a list, not {describe(_value(tree))}")
    items = []
    for index, item in enumerate(tree.items):
        place = f"{where}[{index}]"
        report.lines[place] = item.line
        items.append(read_section(item, kind.section, place, report))
    return items


def _note_lines(tree: Tree, where: str, report: Report) -> None:
    """Remember the lines inside a free-form value, whose module may have rules of its own."""
    if isinstance(tree, Sequence):
        for index, item in enumerate(tree.items):
            report.lines[f"{where}[{index}]"] = item.line
            _note_lines(item, f"{where}[{index}]", report)
    elif not isinstance(tree, Scalar):
        for key, child in tree.entries:
            report.lines[f"{where}.{key.value}"] = key.line
            _note_lines(child, f"{where}.{key.value}", report)


def _json_value(tree: Tree) -> Any:
    value = _value(tree)
    check_json(value)
    return value


def _value(tree: Tree) -> Any:
    """Return a tree as plain values. Its depth is bounded by the parser."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Sequence):
        return [_value(item) for item in tree.items]
    values: dict[Any, Any] = {}
    for key, child in tree.entries:
        if key.value in values:
            raise Mismatch(f"key {describe(key.value)} is here twice")
        values[key.value] = _value(child)
    return values
