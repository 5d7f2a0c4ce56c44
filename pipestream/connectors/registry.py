"""The connectors by the ``kind`` that a graph names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.connectors.folder import FolderConnector
from pipestream.errors import ConnectorInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pipestream.connectors.connector import Connector
    from pipestream.graph.model import Connector as ConnectorSpec

KINDS: Mapping[str, Callable[[Mapping[str, Any], Path], Connector]] = {"folder": FolderConnector.from_options}


def make_connector(spec: ConnectorSpec, sources_folder: Path) -> Connector:
    """Return the connector that a datasource of the graph asks for.

    :param sources_folder: what a relative path starts from, whichever folder the process runs in.
    :raises ConnectorInvalid: there is no such kind, or its options cannot be used.
    """
    make = KINDS.get(spec.kind)
    if make is None:
        raise ConnectorInvalid(f"there is no connector {spec.kind!r}; there are: {', '.join(sorted(KINDS))}")
    return make(spec.options, sources_folder)


def check_connector(spec: ConnectorSpec) -> None:
    """Refuse a connector that cannot be made, wherever its documents are.

    :raises ConnectorInvalid: there is no such kind, or its options cannot be used.
    """
    make_connector(spec, Path())
