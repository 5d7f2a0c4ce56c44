from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from pipestream.graph.load import load_graph
from pipestream.graph.proto import graph_hash
from pipestream_airflow.dag_factory import files_of
from pipestream_airflow.drain_operator import DrainOperator

REPOSITORY = Path(__file__).resolve().parents[2]

CHAIN = """
    graph: chain
    cluster: main
    name: A chain
    schedule: "*/10 * * * *"
    datasources:
      - {id: files, account: acme, entry: parse}
    nodes:
      - {id: parse, type: connector}
      - {id: enrich, module: "python:some.package:enrich"}
      - {id: index, type: sink, module: "python:some.package:index"}
    edges:
      - {from: parse, to: enrich}
      - {from: enrich, to: index, when: doc.doc_id != ""}
"""

CYCLE = """
    graph: cycle
    cluster: main
    datasources:
      - {id: mails, account: acme, entry: split}
    nodes:
      - {id: split, module: "python:some.package:split"}
      - {id: unpack, module: "python:some.package:unpack"}
    edges:
      - {from: split, to: unpack}
      - {from: unpack, to: split, max_hops: 3}
"""

FUSED = """
    graph: fused
    cluster: main
    datasources:
      - {id: scans, account: acme, entry: first, paused: true}
    nodes:
      - {id: first, type: connector}
      - {id: second, module: "python:some.package:second"}
      - {id: third, type: sink, module: "python:some.package:third"}
    edges:
      - {from: first, to: second, transport: grpc}
      - {from: second, to: third}
"""

BROKEN = """
    graph: broken
    cluster: main
    nodes:
      - {id: only, type: connector}
    edges:
      - {from: only, to: nowhere}
"""


def parse(folder: Path) -> DagBag:
    return DagBag(folder, bundle_path=folder, bundle_name="tests")


def upstream_of(dag) -> dict[str, set[str]]:
    """Return what each drain waits for, among the drains."""
    drains = {task.task_id for task in dag.tasks if task.task_id not in ("check", "report")}
    return {task.task_id: task.upstream_task_ids & drains for task in dag.tasks if task.task_id in drains}


def drains_of(dag) -> list[DrainOperator]:
    return [task for task in dag.tasks if isinstance(task, DrainOperator)]


RUN_BY = {
    "pipestream_sample": (
        "test_dags_run.py",
        "test_a_run_carries_every_document_from_the_folder_to_its_end",
    ),
    "pipestream_sample.approve": (
        "test_end_to_end.py",
        "test_a_replay_that_a_person_approves_is_run_to_its_end_by_the_scheduler",
    ),
    "pipestream_ingest_sample-files": (
        "test_end_to_end.py",
        "test_the_ingestion_dag_stores_the_files_on_s3_and_publishes_each_once",
    ),
    "pipestream_upkeep": (
        "test_end_to_end.py",
        "test_the_upkeep_dag_joins_the_files_of_the_ledger_and_changes_nothing_in_it",
    ),
}
"""Every DAG that ships, and the test in which Airflow runs it to its end: from the same DAG file, with a graph of the
test's own names."""


@pytest.mark.parametrize("folder", ["dags", "pipestream/samples/project/dags"])
def test_the_shipped_graphs_become_dags_without_import_errors_and_airflow_runs_each_in_a_test(folder):
    bag = parse(REPOSITORY / folder)

    assert bag.import_errors == {}
    assert set(bag.dags) == RUN_BY.keys()
    for file, test in RUN_BY.values():
        tree = ast.parse((Path(__file__).parent / file).read_text())
        found = {each.name: each.decorator_list for each in tree.body if isinstance(each, ast.FunctionDef)}
        assert test in found, f"{file} has no {test}"
        marks = [ast.unparse(each) for each in found[test]]
        assert "pytest.mark.slow" not in marks, f"the default run leaves {test} out"


@pytest.mark.parametrize("text", [CHAIN, CYCLE, FUSED])
def test_the_defaults_of_the_form_fit_their_schemas(dags_folder, write_graph, text):
    """Airflow would check it at every parse, which takes longer than all else about a DAG."""
    write_graph("graph.yaml", text)
    (dag,) = (each for each in parse(dags_folder).dags.values() if "mode" in each.params)

    assert set(dag.params.validate()) == set(dag.params)
    assert isinstance(dag.params, ParamsDict)


def test_the_sample_graph_is_drained_in_its_order():
    dag = parse(REPOSITORY / "dags").dags["pipestream_sample"]

    assert upstream_of(dag) == {
        "drain_intake_sample-files": set(),
        "drain_parse-markup": {"drain_intake_sample-files"},
        "drain_parse-data": {"drain_intake_sample-files"},
        "drain_parse-office": {"drain_intake_sample-files"},
        "drain_parse-text": set(),
        "drain_enrich": {
            "drain_intake_sample-files",
            "drain_parse-markup",
            "drain_parse-data",
            "drain_parse-office",
            "drain_parse-text",
        },
    }


def test_a_chain_is_drained_from_intake_to_the_end(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)

    dag = parse(dags_folder).dags["pipestream_chain"]

    assert upstream_of(dag) == {
        "drain_intake_files": set(),
        "drain_enrich": {"drain_intake_files"},
        "drain_index": {"drain_enrich"},
    }
    assert {task.task_id: task.topic for task in drains_of(dag)} == {
        "drain_intake_files": "intake.files",
        "drain_enrich": "pipestream.main.enrich",
        "drain_index": "pipestream.main.index",
    }


LIVE = """
    graph: calls
    cluster: main
    live: {engine: run, sidecar: external}
    datasources:
      - {id: calls, account: acme, entry: hear}
    nodes:
      - {id: hear, type: connector}
"""


def test_a_graph_that_wants_servers_has_a_live_dag_with_a_task_each(dags_folder, write_graph):
    write_graph("calls.yaml", LIVE)

    bag = parse(dags_folder)

    assert bag.import_errors == {}
    dag = bag.dags["pipestream_live_calls"]
    assert (dag.schedule, dag.max_active_runs) == ("@continuous", 1)
    assert upstream_of(dag) == {"engine": set(), "sidecar": set()}
    assert [(task.server, task.external) for task in dag.tasks] == [("engine", False), ("sidecar", True)]


def test_a_graph_whose_name_is_that_of_another_graphs_live_dag_is_refused(dags_folder, write_graph):
    write_graph("calls.yaml", LIVE)
    write_graph(
        "live_calls.yaml",
        LIVE.replace("graph: calls", "graph: live_calls")
        .replace("id: calls", "id: more")
        .replace("cluster: main", "cluster: other"),
    )

    (message,) = parse(dags_folder).import_errors.values()

    assert "a graph is called live_calls, so both would be the DAG pipestream_live_calls" in message


def test_a_cycle_is_drained_in_passes(dags_folder, write_graph, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_CYCLE_PASSES", "2")
    write_graph("cycle.yaml", CYCLE)

    dag = parse(dags_folder).dags["pipestream_cycle"]

    assert {task.task_id for task in drains_of(dag)} == {
        "drain_intake_mails",
        *("drain_unpack", "drain_split"),
        *("drain_unpack__pass2", "drain_split__pass2"),
    }
    assert "drain_split" in upstream_of(dag)["drain_unpack__pass2"]
    assert "drain_unpack__pass2" in upstream_of(dag)["drain_split__pass2"]


def test_a_fused_node_has_a_task_for_its_replays(dags_folder, write_graph):
    write_graph("fused.yaml", FUSED)

    dag = parse(dags_folder).dags["pipestream_fused"]

    assert upstream_of(dag) == {
        "drain_intake_scans": set(),
        "drain_second": set(),
        "drain_third": {"drain_intake_scans", "drain_second"},
    }


def test_an_edge_with_a_topic_of_its_own_has_a_task_of_its_own(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN.replace("to: enrich}", "to: enrich, topic: urgent.documents}"))

    tasks = parse(dags_folder).dags["pipestream_chain"].task_dict

    assert tasks["drain_enrich__from_urgent.documents"].topic == "urgent.documents"


def test_the_graph_says_when_a_dag_runs(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)
    write_graph("cycle.yaml", CYCLE)

    dags = parse(dags_folder).dags

    assert dags["pipestream_chain"].timetable.expression == "*/10 * * * *"
    assert dags["pipestream_cycle"].schedule is None


# Airflow loads its plugins to read a timetable back, and their ignore files with a class that pathspec wants to be
# called otherwise.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_a_run_covers_the_time_since_the_one_before_so_that_a_backfill_has_times(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)

    # As the scheduler sees it: Airflow's default for a cron expression has intervals of no length.
    dag = DagSerialization.from_dict(DagSerialization.to_dict(parse(dags_folder).dags["pipestream_chain"]))
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    runs = list(dag.iter_dagrun_infos_between(noon, noon + timedelta(minutes=15)))

    assert [(run.data_interval.start, run.data_interval.end) for run in runs] == [
        (noon, noon + timedelta(minutes=10)),
        (noon + timedelta(minutes=10), noon + timedelta(minutes=20)),
    ]


@pytest.mark.parametrize("preset", ["@once", "@continuous"])
def test_a_preset_that_is_not_a_cron_expression_stays_what_it_is(dags_folder, write_graph, preset):
    write_graph("chain.yaml", CHAIN.replace("*/10 * * * *", preset))

    bag = parse(dags_folder)

    assert bag.import_errors == {}
    assert bag.dags["pipestream_chain"].schedule == preset


def test_a_dag_runs_once_at_a_time_and_catches_nothing_up(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)

    dag = parse(dags_folder).dags["pipestream_chain"]

    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.start_date == datetime(2026, 1, 1, tzinfo=UTC)
    assert dag.tags == {"pipestream", "cluster:main", "account:acme"}
    assert {task.owner for task in dag.tasks} == {"acme"}


def test_drains_share_a_pool_and_are_retried_with_growing_pauses(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)

    for task in drains_of(parse(dags_folder).dags["pipestream_chain"]):
        assert task.pool == "pipestream_drains"
        assert task.retries == 2
        assert task.retry_exponential_backoff == 2
        assert task.trigger_rule == "none_failed"


def test_the_runs_of_a_backfill_wait_for_each_other_behind_intake(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)

    tasks = drains_of(parse(dags_folder).dags["pipestream_chain"])

    assert {task.task_id: task.max_active_tis_per_dag for task in tasks} == {
        "drain_intake_files": None,
        "drain_enrich": 1,
        "drain_index": 1,
    }


def test_a_check_comes_first_and_a_report_last_and_does_not_decide_how_the_run_ends(dags_folder, write_graph):
    write_graph("fused.yaml", FUSED)

    dag = parse(dags_folder).dags["pipestream_fused"]

    tasks, drains = dag.task_dict, {task.task_id for task in drains_of(dag)}
    assert dag.roots == [tasks["check"]]
    assert tasks["check"].downstream_task_ids == {"drain_intake_scans", "drain_second", "report"}
    assert tasks["report"].upstream_task_ids == drains | {"check"}
    assert tasks["report"].is_teardown
    assert not tasks["report"].on_failure_fail_dagrun


def test_several_drains_of_a_stage_are_a_group_and_task_ids_do_not_depend_on_it(dags_folder, write_graph):
    write_graph("fused.yaml", FUSED)
    twin = FUSED.replace("fused", "two").replace("main", "other").replace("id: scans", "id: mail")
    write_graph("two.yaml", twin.replace("nodes:", "  - {id: twin, account: acme, entry: first}\n    nodes:"))

    dags = parse(dags_folder).dags

    assert groups_of(dags["pipestream_fused"]) == {}
    assert groups_of(dags["pipestream_two"]) == {"intake": ["drain_intake_mail", "drain_intake_twin"]}


def groups_of(dag):
    children = dag.task_group.children.items()
    return {name: sorted(group.children) for name, group in children if hasattr(group, "children")}


def test_the_page_of_a_dag_shows_the_graphs_picture_and_version(dags_folder, write_graph):
    file = write_graph("chain.yaml", CHAIN)

    page = parse(dags_folder).dags["pipestream_chain"].doc_md

    assert graph_hash(load_graph(file)) in page
    assert "```mermaid\nflowchart LR" in page


def test_the_page_of_a_dag_shows_nodes_and_edges(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)

    page = parse(dags_folder).dags["pipestream_chain"].doc_md

    assert "# A chain" in page
    assert "| `enrich` | `python:some.package:enrich` |" in page
    assert '| `enrich` | `index` | kafka | `doc.doc_id != ""` |' in page


def test_the_form_offers_the_topics_of_the_graph(dags_folder, write_graph, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_DRAIN_BUDGET", "77")
    write_graph("chain.yaml", CHAIN)

    params = parse(dags_folder).dags["pipestream_chain"].params

    assert params["topics"] == ["intake.files", "pipestream.main.enrich", "pipestream.main.index"]
    assert params["budget"] == 77
    assert params["mode"] == "catch_up"
    assert params["accept_failures"] is False


def test_a_graph_in_design_has_no_dag(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN.replace("name: A chain", "mode: design"))

    bag = parse(dags_folder)

    assert (bag.dags, bag.import_errors) == ({}, {})


def test_a_broken_graph_is_an_import_error_with_its_place_and_leaves_the_others_alone(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN)
    broken = write_graph("broken.yaml", BROKEN)

    bag = parse(dags_folder)

    assert set(bag.dags) == {"pipestream_chain"}
    # Airflow takes down all DAGs of a file with an error, so the file with the DAGs must have none.
    assert set(bag.import_errors) == {"pipestream_graph_problems.py"}
    assert f"{broken}:7: edges[0].to" in bag.import_errors["pipestream_graph_problems.py"]


def test_a_second_graph_of_the_same_id_is_refused_and_the_first_stays(dags_folder, write_graph):
    write_graph("a.yaml", CHAIN)
    write_graph("b.yaml", CHAIN)

    bag = parse(dags_folder)

    assert set(bag.dags) == {"pipestream_chain"}
    assert "graph chain is already defined" in bag.import_errors["pipestream_graph_problems.py"]


def test_names_that_would_make_the_same_task_are_an_import_error(dags_folder, write_graph):
    write_graph("chain.yaml", CHAIN.replace("enrich", "intake_files"))

    bag = parse(dags_folder)

    assert bag.dags == {}
    assert "would both be task drain_intake_files" in bag.import_errors["pipestream_graph_problems.py"]


CONNECTED = CHAIN.replace("entry: parse}", "entry: parse, schedule: '@daily', connector: {kind: folder, path: /in}}")


def test_a_task_id_that_is_too_long_for_airflow_is_an_import_error(dags_folder, write_graph):
    long = f"{'urgent' * 30}.documents"
    write_graph("chain.yaml", CHAIN.replace("to: enrich}", f"to: enrich, topic: {long}}}").replace("enrich", "e" * 60))
    write_graph("cycle.yaml", CYCLE)

    bag = parse(dags_folder)

    assert "pipestream_cycle" in bag.dags
    assert "pipestream_chain" not in bag.dags
    (message,) = bag.import_errors.values()
    assert "cannot become the DAG pipestream_chain: The key has to be less than 250 characters" in message


def test_a_datasource_with_a_connector_has_a_dag_that_ingests_on_its_schedule(dags_folder, write_graph):
    file = write_graph("chain.yaml", CONNECTED)

    bag = parse(dags_folder)

    dag = bag.dags["pipestream_ingest_files"]
    assert bag.import_errors == {}
    assert dag.schedule == "@daily"
    assert dag.tags == {"pipestream", "ingest", "cluster:main"}
    (task,) = dag.tasks
    assert (task.datasource_id, task.graph_file) == ("files", str(file))


def test_a_datasource_that_left_its_file_since_the_dag_was_made_is_not_tried_again(dags_folder, write_graph):
    write_graph("chain.yaml", CONNECTED)
    (task,) = parse(dags_folder).dags["pipestream_ingest_files"].tasks
    write_graph("chain.yaml", CONNECTED.replace("id: files", "id: others"))

    with pytest.raises(AirflowFailException, match="graph chain has no datasource 'files'; it has: others"):
        task.execute({})


SECOND = """
    graph: second
    cluster: main
    datasources:
      - {id: files, account: acme, entry: other, connector: {kind: folder, path: /in}, schedule: "@daily"}
    nodes:
      - {id: other, type: connector}
"""


def test_a_datasource_of_two_graphs_is_ingested_once(dags_folder, write_graph):
    write_graph("chain.yaml", CONNECTED)
    write_graph("second.yaml", SECOND)

    bag = parse(dags_folder)

    assert bag.import_errors == {}
    assert set(bag.dags) == {"pipestream_chain", "pipestream_second", "pipestream_ingest_files"}


def test_two_graphs_that_ingest_a_datasource_differently_are_an_import_error(dags_folder, write_graph):
    write_graph("chain.yaml", CONNECTED)
    write_graph("second.yaml", SECOND.replace("/in", "/elsewhere"))

    bag = parse(dags_folder)

    assert "pipestream_ingest_files" in bag.dags
    assert "another connector or schedule" in bag.import_errors["pipestream_graph_problems.py"]


def test_a_graph_and_a_datasource_that_would_be_the_same_dag_are_an_import_error(dags_folder, write_graph):
    write_graph("chain.yaml", CONNECTED.replace("graph: chain", "graph: ingest_files"))

    bag = parse(dags_folder)

    assert set(bag.dags) == {"pipestream_ingest_files"}
    assert "both would be the DAG" in bag.import_errors["pipestream_graph_problems.py"]


def test_a_bad_setting_is_an_import_error_that_names_it(dags_folder, write_graph, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_DRAIN_BUDGET", "none")
    write_graph("chain.yaml", CHAIN)

    assert "PIPESTREAM_DRAIN_BUDGET" in parse(dags_folder).import_errors["pipestream_graphs.py"]


def test_a_task_parses_only_its_own_dag(dags_folder, write_graph, monkeypatch):
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "pipestream_cycle")
    write_graph("chain.yaml", CHAIN)
    write_graph("cycle.yaml", CYCLE)

    assert set(parse(dags_folder).dags) == {"pipestream_cycle"}


def test_parsing_needs_no_network(dags_folder, write_graph, monkeypatch):
    def refuse(*_args: object) -> None:
        raise AssertionError("parsing a DAG file opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    write_graph("chain.yaml", CHAIN)

    bag = parse(dags_folder)

    assert set(bag.dags) == {"pipestream_chain"}
    assert bag.import_errors == {}


def test_a_folder_of_graphs_is_looked_for_next_to_the_dag_file(tmp_path, monkeypatch):
    (tmp_path / "dags" / "my graphs").mkdir(parents=True)
    (tmp_path / "dags" / "my graphs" / "chain.yaml").write_text(dedent(CHAIN))
    three_lines = 'from pipestream_airflow import build_dags\n\nglobals().update(build_dags("my graphs"))\n'
    (tmp_path / "dags" / "mine.py").write_text(three_lines)
    monkeypatch.chdir("/")

    assert set(parse(tmp_path / "dags").dags) == {"pipestream_chain"}


def test_a_broken_graph_is_logged_by_the_file_that_has_the_dags(dags_folder, write_graph, caplog):
    write_graph("broken.yaml", BROKEN)

    parse(dags_folder)

    assert "broken.yaml:7: edges[0].to" in caplog.text


SERIALIZE = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict
from airflow.serialization.serialized_objects import DagSerialization

folder = Path(sys.argv[1])
bag = DagBag(folder, bundle_path=folder, bundle_name="tests")
assert not bag.import_errors, bag.import_errors
dags = {dag_id: DagSerialization.to_dict(dag) for dag_id, dag in bag.dags.items()}
# Airflow sorts keys too before it decides whether a DAG is a new version.
print(json.dumps(dags, sort_keys=True))
"""


def serialize_elsewhere(folder: Path) -> str:
    """Parse and serialize in another interpreter, whose hashes are not the random ones of this one."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-c", SERIALIZE, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.airflow
def test_a_parse_in_another_interpreter_gives_the_same_bytes(dags_folder, write_graph):
    for name, text in {"chain": CHAIN, "cycle": CYCLE, "fused": FUSED, "calls": LIVE}.items():
        write_graph(f"{name}.yaml", text)

    here = {dag_id: DagSerialization.to_dict(dag) for dag_id, dag in parse(dags_folder).dags.items()}

    graphs = {"pipestream_chain", "pipestream_cycle", "pipestream_fused", "pipestream_calls"}
    assert set(here) == {*graphs, "pipestream_live_calls"}
    assert serialize_elsewhere(dags_folder) == json.dumps(here, sort_keys=True)


def test_a_task_reads_the_graphs_of_its_own_dag_only(dags_folder, write_graph, monkeypatch):
    for number in range(3):
        write_graph(f"other{number}.yaml", CYCLE.replace("cycle", f"other{number}").replace("mails", f"m{number}"))
    write_graph("chain.yaml", CHAIN)
    write_graph("calls.yaml", LIVE)
    write_graph("broken.yaml", BROKEN)
    files = sorted((dags_folder / "graphs").iterdir())

    assert [file.name for file in files_of("pipestream_chain", files)] == ["chain.yaml"]
    assert [file.name for file in files_of("pipestream_live_calls", files)] == ["calls.yaml"]
    assert [file.name for file in files_of("pipestream_ingest_m2", files)] == ["other2.yaml"]
    assert files_of("pipestream_nowhere-to-be-found", files) == files
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "pipestream_chain")
    bag = parse(dags_folder)
    assert "pipestream_chain" in bag.dags
    assert "pipestream_other0" not in bag.dags
