"""Whatever a graph file or a setting can say, something must read: a key that does nothing misleads whoever sets it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from pipestream.graph.format import CONNECTOR, DATASOURCE, DEAD_LETTERS, EDGE, GRAPH, MAPPING, NODE
from pipestream.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
PRODUCT = ("pipestream", "pipestream_airflow", "pipestream_spark", "plugins", "spark_jobs", "dags")

# These carry a graph from one form to another, check it or draw it, whatever is done with it afterwards.
CARRIERS = {
    *("diff", "draft", "draw", "folder_rules", "format", "kinds", "layout", "load", "mapping_rules"),
    *("proto", "read", "report", "rules", "show", "topic_rules", "versions", "wire_fields", "write", "yamltree"),
}
SECTIONS = [GRAPH, DATASOURCE, NODE, EDGE, DEAD_LETTERS, MAPPING, CONNECTOR]


@cache
def attributes_read(where: tuple[str, ...] = PRODUCT, *, without_carriers: bool = True) -> frozenset[str]:
    """Every attribute that the product's code reads of anything."""
    found = set()
    for file in (file for folder in where for file in (REPOSITORY / folder).rglob("*.py")):
        inside_graph = file.parent == REPOSITORY / "pipestream" / "graph"
        if (
            "gen" in file.parts
            or "testing" in file.parts
            or (without_carriers and inside_graph and file.stem in CARRIERS)
        ):
            continue
        found |= set(_attributes(ast.parse(file.read_text())))
    return frozenset(found)


def _attributes(tree: ast.AST) -> Iterable[str]:
    return (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


KEYS = [
    pytest.param(section.model, field.attribute, id=f"{section.name}.{field.key}")
    for section in SECTIONS
    for field in section.fields
]


@pytest.mark.parametrize(("kind", "field"), KEYS)
def test_every_key_of_a_graph_file_is_a_field_that_something_reads(kind, field):
    assert field in {each.name for each in fields(kind)}
    assert field in attributes_read()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_read_by_something(name):
    assert name in attributes_read(without_carriers=False)
