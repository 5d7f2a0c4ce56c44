"""A node's config is checked against the schema of its module, with the place in the file."""

from __future__ import annotations

import json
import textwrap

import pytest

from pipestream.api.graphs import validate_graph
from pipestream.graph.load import check_graph_text
from pipestream.graph.module_rules import AskModules
from pipestream.modules.config_schema import SchemaUnusable, check_config
from pipestream.settings import Settings
from pipestream_testing.modules import GrpcModuleServer
from pipestream_testing.parsers import SCHEMA

ASK = AskModules(settings=Settings(module_answer_s=10))
PYTHON = "python:pipestream_testing.parsers:parse"


def graph_with(module, config="{}"):
    return textwrap.dedent(f"""
        graph: g
        cluster: main
        datasources: [{{id: s, account: acme, entry: a}}]
        nodes:
          - id: a
            module: "{module}"
            config: {config}
    """).lstrip()


def check(text, **kwargs):
    return check_graph_text(text.encode(), "g.yaml", **kwargs)


def serve(schema):
    return GrpcModuleServer(lambda request, _: GrpcModuleServer.answer(request.document), schema=schema)


def test_the_config_of_a_python_module_is_checked_without_any_server():
    config = "\n".join(["", "  pages: 0", "  colour: red", "  ocr:", "    quality: 3"])
    found = check(graph_with(PYTHON).replace("config: {}", "config:" + config.replace("\n", "\n      ")), look_up=True)

    unexpected = "Additional properties are not allowed ('colour' was unexpected)"
    assert [str(problem) for problem in found.problems] == [
        f"g.yaml:7: nodes[0].config: the schema of parse refuses it: {unexpected}",
        "g.yaml:8: nodes[0].config.pages: the schema of parse refuses it: 0 is less than the minimum of 1",
        "g.yaml:10: nodes[0].config.ocr: the schema of parse refuses it: 'language' is a required property",
    ]


def test_the_config_of_a_function_in_a_process_of_its_own_is_checked():
    runtime = PYTHON.replace("python:", "runtime:")
    (wrong,) = check(graph_with(runtime, "{pages: 0}"), look_up=True).problems
    (missing,) = check(graph_with(runtime.replace(":parse", ":nowhere")), look_up=True).problems

    assert wrong.message == "the schema of parse refuses it: 0 is less than the minimum of 1"
    assert (missing.field, "nowhere" in missing.message) == ("nodes[0].module", True)


def test_a_config_that_the_schema_allows_is_valid():
    found = check(graph_with(PYTHON, "{pages: 3, ocr: {language: de}}"), look_up=True)

    assert (found.problems, found.warnings) == ((), ())


def test_a_file_is_checked_without_its_modules_where_nothing_is_looked_up():
    assert check(graph_with(PYTHON, "{pages: 0}")).problems == ()


def test_the_config_of_a_grpc_module_is_checked_on_request(tmp_path):
    with serve(json.dumps(SCHEMA)) as server:
        text = graph_with(server.spec, "{pages: many}")
        offline, asked = check(text, look_up=True), check(text, look_up=True, ask=ASK)
        (tmp_path / "g.yaml").write_text(text)
        by_api = validate_graph(tmp_path / "g.yaml", ask_modules=True)

    assert offline.problems == ()
    (problem,) = asked.problems
    assert (problem.line, problem.field) == (7, "nodes[0].config.pages")
    assert problem.message == "the schema of parser refuses it: 'many' is not of type 'integer'"
    assert [each.message for each in by_api.problems] == [problem.message]


def test_a_module_is_asked_once_for_all_its_nodes():
    with serve(json.dumps(SCHEMA)) as server:
        text = graph_with(server.spec, "{pages: 0}") + f'  - {{id: b, module: "{server.spec}", config: {{pages: 0}}}}\n'
        found = check(text, look_up=True, ask=ASK)

    assert [problem.field for problem in found.problems] == ["nodes[0].config.pages", "nodes[1].config.pages"]
    assert server.registrations == 1


@pytest.mark.parametrize("required", [False, True])
def test_a_module_that_is_down_is_a_warning_or_where_it_is_required_a_problem(required):
    with serve("{}") as server:
        pass
    found = check(graph_with(server.spec), look_up=True, ask=AskModules(required, ASK.settings))

    told, other = (found.problems, found.warnings) if required else (found.warnings, found.problems)
    assert other == ()
    (problem,) = told
    assert (problem.line, problem.field) == (6, "nodes[0].module")
    assert "did not answer, so its config was not checked" in problem.message
    assert "UNAVAILABLE" in problem.message


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "list, not an object"),
        ('{"type": 7}', "it is not a JSON Schema"),
        ('{"$ref": "http://127.0.0.1:1/other.json"}', "refers to 'http://127.0.0.1:1/other.json'"),
        ('{"$ref": "#"}', "without end"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_warning_and_nothing_is_fetched(schema, reason):
    with serve(schema) as server:
        found = check(graph_with(server.spec), look_up=True, ask=ASK)

    assert found.problems == ()
    (warning,) = found.warnings
    assert reason in warning.message


def test_a_module_without_a_registration_takes_any_config():
    with GrpcModuleServer(lambda request, _: GrpcModuleServer.answer(request.document)) as server:
        found = check(graph_with(server.spec, "{anything: 1}"), look_up=True, ask=ASK)

    assert (found.problems, found.warnings) == ((), ())


def test_a_node_in_a_remote_engine_has_its_module_there():
    text = graph_with(PYTHON, "{pages: 0}").replace("- id: a", "- id: a\n    engine: far.example:50051")

    assert check(text, look_up=True).problems == ()


def test_a_problem_inside_a_list_has_its_index():
    (problem,) = check_config({"properties": {"tags": {"items": {"type": "string"}}}}, {"tags": ["a", 1]})

    assert problem.path == "tags[1]"


def test_a_draft_that_the_schema_names_is_used():
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True}

    assert check_config({"properties": {"n": schema}, "$schema": schema["$schema"]}, {"n": 3})
    with pytest.raises(SchemaUnusable):
        check_config({"properties": {"n": {"minimum": 3, "exclusiveMinimum": True}}}, {"n": 3})
