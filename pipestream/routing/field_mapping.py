"""A field mapping as a value. ``mappings.py`` applies it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class MappingType(Enum):
    """How a mapping turns source fields into target fields."""

    DIRECT = "direct"
    TRANSFORM = "transform"
    AGGREGATE = "aggregate"
    SPLIT = "split"
    CEL = "cel"


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """One field mapping of a node, before or after its module."""

    mapping_id: str
    mapping_type: MappingType
    source_field_paths: tuple[str, ...] = ()
    target_field_paths: tuple[str, ...] = ()
    rule: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    aggregation: str = ""
    delimiter: str = ""
    expression: str = ""
