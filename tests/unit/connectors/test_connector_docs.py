"""The examples of docs/connectors.md are graphs that work, and the schema has the options of every connector."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from pipestream.connectors.registry import make_connector
from pipestream.connectors.schemas import OPTIONS
from pipestream.graph.format import json_schema
from pipestream.graph.load import check_graph_text
from pipestream.graph.model import Connector
from pipestream.plugins import PluginContext
from pipestream.plugins.registry import PluginGroup, list_plugins
from pipestream.settings import Settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "connectors.md"
EXAMPLES = [yaml.safe_load(text)["connector"] for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]
SECRETS = {
    "crm.url": "postgresql+psycopg://u:p@localhost/d",
    "partner.access_key": "x",
    "partner.secret_key": "x",
    "example.authorization": "Bearer x",
}


def graph(connector):
    source = {"id": "d", "account": "acme", "entry": "a", "connector": connector, "schedule": "@hourly"}
    return {"graph": "g", "cluster": "main", "datasources": [source], "nodes": [{"id": "a", "type": "connector"}]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["kind"])
def test_an_example_of_the_page_can_be_used(example):
    options = {name: value for name, value in example.items() if name != "kind"}

    make_connector(Connector(example["kind"], options), PluginContext(Settings(plugin_secrets=SECRETS)))
    jsonschema.Draft202012Validator(json_schema()).validate(graph(example))
    assert check_graph_text(yaml.safe_dump(graph(example)).encode(), "g.yaml", look_up=False).problems == ()


def test_every_connector_has_an_example_and_a_schema():
    built_in = {plugin.name for plugin in list_plugins(PluginGroup.CONNECTOR) if plugin.is_built_in}

    assert {example["kind"] for example in EXAMPLES} == {model.kind for model in OPTIONS} == built_in


def test_the_schema_refuses_what_a_connector_refuses():
    validator = jsonschema.Draft202012Validator(json_schema())

    assert not validator.is_valid(graph({"kind": "s3"}))
    assert not validator.is_valid(graph({"kind": "s3", "bucket": "b", "max_bytes": 0}))
    assert not validator.is_valid(graph({"kind": "csv", "path": "x", "patern": "*"}))
    assert not validator.is_valid(graph({"kind": "sql", "url_secret": "x", "query": "SELECT 1", "column": "a"}))
    assert validator.is_valid(graph({"kind": "of-another-package", "anything": 1}))


def test_every_option_is_explained():
    unexplained = [
        f"{model.kind}.{name}"
        for model in OPTIONS
        for name, field in model.model_fields.items()
        if not (field.description or "").endswith(".")
    ]
    assert unexplained == []
