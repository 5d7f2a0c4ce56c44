"""Write a graph as a file: its values, and their YAML."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from pipestream.graph.draft import implicit_end
from pipestream.graph.format import GRAPH
from pipestream.graph.kinds import Kind, Section, Sections, plain_json
from pipestream.graph.model import HAPPY_END, Graph
from pipestream.graph.yamltree import YamlInvalid, plain_value


def to_yaml(graph: Graph) -> str:
    """Return a graph as the text of a graph file. Reading it gives the same graph."""
    return yaml.dump(graph_values(graph), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def graph_values(graph: Graph) -> dict[str, Any]:
    """Return a graph as the plain values of a graph file, without defaults."""
    if graph.nodes and graph.happy_end == HAPPY_END and graph.nodes[-1] == implicit_end(graph.cluster_id):
        graph = replace(graph, nodes=graph.nodes[:-1])
    return _part_values(GRAPH, graph)


def _part_values(section: Section, part: Any, number: int = 1) -> dict[str, Any]:
    attributes = {field.attribute: getattr(part, field.attribute) for field in section.fields}
    values = {}
    for field in section.fields:
        value = attributes[field.attribute]
        implied = field.implied(attributes, number) if field.implied else section.defaults.get(field.attribute)
        if field.required or value != implied:
            values[field.key] = _plain(field.kind, value)
    return values | (plain_json(getattr(part, section.others)) if section.others else {})


def _plain(kind: Kind, value: Any) -> Any:
    if isinstance(kind, Section):
        return _part_values(kind, value)
    if isinstance(kind, Sections):
        return [_part_values(kind.section, part, number) for number, part in enumerate(value, start=1)]
    return kind.plain(value)


class _Dumper(yaml.SafeDumper):
    """Writes YAML without aliases that YAML 1.2 reads back unchanged."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    """Return how to quote a text so that reading gives it back; PyYAML itself decides by YAML 1.1."""
    if not text.replace("\n", "").isprintable():
        return '"'  # some of these would be folded away as line breaks
    if "\n" in text:
        return "|"
    try:
        return None if plain_value(text) is text else "'"
    except YamlInvalid:
        return "'"


_Dumper.add_representer(str, _represent_text)
