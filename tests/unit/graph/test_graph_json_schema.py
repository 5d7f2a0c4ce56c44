"""The published schema and the reader come from one table; this holds them to the same answers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest
import yaml

from pipestream.graph.format import CONNECTOR, DATASOURCE, DEAD_LETTERS, EDGE, GRAPH, LIVE, MAPPING, NODE, json_schema
from pipestream.graph.load import check_graph_text

REPOSITORY = Path(__file__).resolve().parents[3]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_every_key_is_explained():
    def properties(schema):
        for name, field in schema.get("properties", {}).items():
            yield name, field
            yield from properties(field.get("items", field))

    found = list(properties(json_schema()))
    assert len(found) > 50
    assert [name for name, field in found if not field["description"].endswith(".")] == []


@pytest.mark.parametrize(
    "text",
    [
        "graph: g\ncluster: main\nnodes: []\nextra: 1\n",
        "graph: g\ncluster: main\n",
        "graph: g\ncluster: main\nnodes: [{id: a, type: other}]\n",
        "graph: g\ncluster: main\nnodes: [{id: a, type: connector, slots: 0}]\n",
        "graph: g\ncluster: main\nnodes: [{id: a, type: connector, timeout_s: 0}]\n",
        "graph: g\ncluster: main\nnodes: [{id: a, type: connector, config: []}]\n",
        "graph: g\ncluster: main\nnodes: [{id: a, type: connector, filters: x}]\n",
        "graph: g\ncluster: main\nnodes: [{id: a, type: connector, pre_mappings: [{type: direct, from: 1, to: x}]}]\n",
        "graph: 1\ncluster: main\nnodes: []\n",
        "graph: g\ncluster: main\nnodes: []\ndescription:\n",
        "graph: g\ncluster: main\nnodes: []\ndatasources: [{id: s, account: a, entry: x, connector: {path: p}}]\n",
        "[]",
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(text):
    assert not VALIDATOR.is_valid(yaml.safe_load(text))
    assert check_graph_text(text.encode(), "g.yaml").problems


def test_the_graphs_of_the_project_are_valid():
    files = sorted((REPOSITORY / "dags" / "graphs").glob("*.yaml"))

    assert files, "the project ships no graph"
    for file in files:
        VALIDATOR.validate(yaml.safe_load(file.read_text()))
        assert check_graph_text(file.read_bytes(), str(file)).problems == ()


def test_a_connector_may_have_options_of_its_own():
    assert (
        json_schema()["properties"]["datasources"]["items"]["properties"]["connector"]["additionalProperties"] is True
    )
    assert not GRAPH.others


SECTIONS = [GRAPH, DATASOURCE, NODE, EDGE, DEAD_LETTERS, MAPPING, CONNECTOR, LIVE]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_the_tables_name_every_attribute_of_the_model_once(section):
    derived = {"node": {"cluster_id"}, "edge": {"is_cross_cluster"}, "connector": {"options"}}
    named = [field.attribute for field in section.fields]

    assert sorted(named) == sorted({field.name for field in fields(section.model)} - derived.get(section.name, set()))
