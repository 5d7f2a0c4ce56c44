from __future__ import annotations

import json
import zipfile
from importlib.metadata import version

import pytest

DAG_FILE = """
from pipestream_airflow import build_dags

globals().update(build_dags("graphs"))
"""
GRAPH = """
graph: letters
cluster: main
datasources:
  - {id: mail, account: acme, entry: parse}
nodes:
  - {id: parse, type: connector}
"""

# One interpreter for all of Airflow's commands, because it takes seconds to start.
ASK_AIRFLOW = """
import contextlib, io, json, sys
from airflow.__main__ import main

def tell(*arguments):
    out = io.StringIO()
    sys.argv = ["airflow", *arguments]
    with contextlib.redirect_stdout(out):
        main()
    return out.getvalue()

def table(*arguments):
    text = tell(*arguments, "--output", "json")
    return json.loads(text[text.index("[{"):])

tell("db", "migrate")
asked = {
    "providers": ["providers", "list"],
    "plugins": ["plugins"],
    "dags": ["dags", "list", "--local"],
    "hooks": ["providers", "hooks"],
    "links": ["providers", "links"],
}
print(json.dumps({name: table(*arguments) for name, arguments in asked.items()}))
"""


def test_the_wheel_holds_the_three_packages_with_their_data_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    folders = {name.partition("/")[0] for name in names}
    packages = {folder for folder in folders if not folder.endswith(".dist-info")}
    assert packages == {"pipestream", "pipestream_airflow", "pipestream_spark"}
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    assert "pipestream/samples/project/dags/graphs/sample.yaml" in names
    assert "pipestream/gen/ai/pipestream/data/v1/pipeline_core_types_pb2.py" in names
    assert [name for name in names if "test" in name or name.endswith(".pyc")] == []


def test_a_graph_is_validated_in_an_empty_folder(run):
    file = run.folder / "letters.yaml"
    file.write_text(GRAPH)

    assert "letters" in run("pipestream", "graph", "validate", str(file)).stdout

    file.write_text(GRAPH.replace("entry: parse", "entry: prase"))
    assert "letters.yaml:5" in run("pipestream", "graph", "validate", str(file), code=2).stdout


def test_a_module_of_the_folder_is_found_by_the_command_line(run):
    file = run.folder / "letters.yaml"
    file.write_text(GRAPH.replace("type: connector", 'module: "python:acme.letters:read"'))
    assert "acme" in run("pipestream", "graph", "validate", str(file), code=2).stdout

    (run.folder / "modules" / "acme").mkdir(parents=True)
    (run.folder / "modules" / "acme" / "letters.py").write_text("def read(document, context):\n    return document\n")
    run("pipestream", "graph", "validate", str(file))


def test_the_drain_job_is_found_in_the_installed_package(run, environment):
    code = "from pipestream.drain.job import find_drain_job; print(find_drain_job())"

    assert run("python", "-c", code).stdout.startswith(str(environment))


@pytest.mark.airflow
def test_airflow_shows_provider_plugin_and_the_dag_of_a_three_line_file(run):
    graphs = run.folder / "dags" / "graphs"
    graphs.mkdir(parents=True)
    (graphs / "letters.yaml").write_text(GRAPH)
    (graphs.parent / "mine.py").write_text(DAG_FILE)
    tables = json.loads(run("python", "-c", ASK_AIRFLOW).stdout.splitlines()[-1])

    providers = {provider["package_name"]: provider["version"] for provider in tables["providers"]}
    assert providers["pipestream-airflow"] == version("pipestream-airflow")
    assert [plugin["name"] for plugin in tables["plugins"] if plugin["name"] == "pipestream"] == ["pipestream"]
    assert [dag["dag_id"] for dag in tables["dags"]] == ["pipestream_letters"]
    (consul,) = [hook for hook in tables["hooks"] if hook["package_name"] == "pipestream-airflow"]
    assert (consul["connection_type"], consul["class"]) == ("consul", "pipestream_airflow.consul_hook.ConsulHook")
    assert "pipestream_airflow.drain_links.SparkUiLink" in [link["extra_link_class_name"] for link in tables["links"]]
