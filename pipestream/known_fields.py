"""Check that values which another process wrote are of a version that this one knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from pipestream.errors import OtherVersion
from pipestream.version import VERSION

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_fields(
    kind: type[DataclassInstance], values: Mapping[str, Any], what: str, way_out: str, *, writer: str = ""
) -> None:
    """Refuse values that are not those of a dataclass.

    A field that this version does not know may change what is to be done, so it is never left out silently.

    :param what: was written, for the error.
    :param writer: the version that wrote it, if that is known.
    :raises OtherVersion: fields are unknown, or missing.
    """
    known = {each.name: each for each in fields(kind)}
    needed = [name for name, each in known.items() if each.default is MISSING and each.default_factory is MISSING]
    unknown, missing = sorted(values.keys() - known.keys()), [name for name in needed if name not in values]
    if unknown or missing:
        raise OtherVersion(what, unknown, missing, way_out, reader=VERSION, writer=writer)
