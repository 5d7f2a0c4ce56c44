from __future__ import annotations

import json

from pipestream_testing.modules import GrpcModuleServer

GRAPH = """
graph: g
cluster: main
datasources: [{{id: s, account: acme, entry: a}}]
nodes:
  - {{id: a, module: "{spec}", config: {{pages: 0}}}}
  - {{id: b, module: "python:pipestream_testing.parsers:parse"}}
edges: [{{from: a, to: b}}]
"""


def echo(request, context):
    return GrpcModuleServer.answer(request.document)


def write(tmp_path, spec):
    file = tmp_path / "g.yaml"
    file.write_text(GRAPH.format(spec=spec))
    return str(file)


def test_modules_are_shown_with_what_they_say_and_how_they_are(run, tmp_path):
    with GrpcModuleServer(echo, capabilities=[1], health=True) as server:
        server.set_health(True)
        done = run("graph", "modules", write(tmp_path, server.spec), "--json")
        table = run("graph", "modules", write(tmp_path, server.spec))

    first, second = json.loads(done.out)
    assert (done.code, first["module"], first["nodes"], first["health"]) == (0, server.spec, ["a"], "serving")
    assert (first["profile"]["name"], first["profile"]["version"]) == ("parser", "1.2.3")
    assert (second["profile"]["is_parser"], second["health"]) == (True, "reachable")
    assert "serving" in table.out


def test_a_module_that_is_down_is_named_with_the_reason(run, tmp_path):
    with GrpcModuleServer(echo) as server:
        pass

    done = run("graph", "modules", write(tmp_path, server.spec))

    assert done.code == 1
    assert "unreachable" in done.out
    assert "UNAVAILABLE" in done.err


def test_validate_asks_modules_only_if_told_to(run, tmp_path):
    schema = json.dumps({"properties": {"pages": {"minimum": 1}}})
    with GrpcModuleServer(echo, schema=schema) as server:
        file = write(tmp_path, server.spec)
        offline, asked = run("graph", "validate", file), run("graph", "validate", file, "--modules")

    assert (offline.code, asked.code) == (0, 2)
    assert "nodes[0].config.pages: the schema of parser refuses it: 0 is less than the minimum of 1" in asked.out
