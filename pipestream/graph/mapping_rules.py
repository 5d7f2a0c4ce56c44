"""The rules for the field mappings of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.graph.model import FieldMapping, MappingType
from pipestream.routing.mappings import check_mapping

if TYPE_CHECKING:
    from pipestream.graph.draft import Draft
    from pipestream.graph.report import Report

# Which fields a mapping of each kind needs, and which it may also have.
_MAPPING_NEEDS = {
    MappingType.DIRECT: ((), ()),
    MappingType.TRANSFORM: (("rule",), ("params",)),
    MappingType.AGGREGATE: (("aggregation",), ("delimiter",)),
    MappingType.SPLIT: (("delimiter",), ()),
    MappingType.CEL: (("expression",), ()),
}


def check_mappings(draft: Draft, report: Report) -> None:
    """Report every mapping that lacks a field, has one too many, or could never be applied."""
    for place, node in draft.nodes:
        for field, mappings in (("pre_mappings", node.pre_mappings), ("post_mappings", node.post_mappings)):
            ids: set[str] = set()
            for index, mapping in enumerate(mappings):
                where = f"{place}.{field}[{index}]"
                if mapping.mapping_id in ids:
                    report.problem(f"{where}.id", f"mapping {mapping.mapping_id} is already defined")
                ids.add(mapping.mapping_id)
                if _has_its_fields(where, mapping, report):
                    for message in check_mapping(mapping):
                        report.problem(where, message)


def _has_its_fields(where: str, mapping: FieldMapping, report: Report) -> bool:
    """Say whether a mapping has the fields of its kind; those that are wrong are reported one by one."""
    before = len(report.problems)
    kind = mapping.mapping_type
    needed, allowed = _MAPPING_NEEDS[kind]
    unreadable = any(report.is_unreadable(f"{where}.{name}") for name in ("from", "to", *needed, *allowed))
    for name in ("rule", "params", "aggregation", "delimiter", "expression"):
        given = bool(getattr(mapping, name))
        if name in needed and not given:
            report.problem(f"{where}.{name}", f"{name} is missing", f"a mapping of type {kind.value} needs it")
        elif given and name not in needed and name not in allowed:
            report.problem(f"{where}.{name}", f"a mapping of type {kind.value} has no {name}")
    if not mapping.source_field_paths and kind is not MappingType.CEL:
        report.problem(f"{where}.from", "from is missing", "name the field or fields to take")
    if not mapping.target_field_paths:
        report.problem(f"{where}.to", "to names no field", "name the field or fields to write")
    return len(report.problems) == before and not unreadable
