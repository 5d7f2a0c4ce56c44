"""Pause or resume a datasource in the text of a graph file, and change nothing else: comments and layout stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from pipestream.graph.load import check_graph_text

if TYPE_CHECKING:
    from collections.abc import Iterator


def pause_in_text(text: str, datasource_id: str, *, paused: bool) -> str:
    """Return the text of a graph in which one datasource is paused, or is no longer.

    :raises ValueError: the datasource is not found in the text, or is written in a way that cannot be edited.
    """
    for source in _datasources(text):
        if datasource_id in {value.value for key, value in source.value if key.value == "id"}:
            changed = _with_flag(text, source, paused)
            if _is_paused(changed, datasource_id) is not paused:
                break
            return changed
    raise ValueError(f"datasource {datasource_id} cannot be edited in this text")


def _datasources(text: str) -> Iterator[yaml.MappingNode]:
    """Yield the datasources of a text, with the places where they are written."""
    # Composing builds no objects, and a text that is a graph has neither aliases nor much depth.
    root = yaml.compose(text, Loader=yaml.SafeLoader) if check_graph_text(text.encode(), "graph").graph else None
    entries = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in entries:
        if key.value == "datasources" and isinstance(value, yaml.SequenceNode):
            yield from (each for each in value.value if isinstance(each, yaml.MappingNode))


def _with_flag(text: str, source: yaml.MappingNode, paused: bool) -> str:
    flag = "true" if paused else "false"
    for key, value in source.value:
        if key.value == "paused":
            return text[: value.start_mark.index] + flag + text[value.end_mark.index :]
    key, value = next((key, value) for key, value in source.value if key.value == "id")
    at = value.end_mark.index
    if source.flow_style:
        return f"{text[:at]}, paused: {flag}{text[at:]}"
    # Its own line, below that of the id and as far in.
    line_end = text.find("\n", at)
    before, after = (text[: line_end + 1], text[line_end + 1 :]) if line_end >= 0 else (f"{text}\n", "")
    ending = "\r\n" if before.endswith("\r\n") else "\n"
    return f"{before}{' ' * key.start_mark.column}paused: {flag}{ending}{after}"


def _is_paused(text: str, datasource_id: str) -> bool | None:
    """Return what a text says of a datasource; None if the text is no graph, or has no such datasource."""
    graph = check_graph_text(text.encode(), "graph").graph
    source = graph.datasource_by_id.get(datasource_id) if graph else None
    return source.paused if source else None
