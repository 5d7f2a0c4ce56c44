from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path

import pytest
import typer

from pipestream import __version__
from pipestream.cli import dlq_actions, ledger, options
from pipestream.cli.dlq_options import read_scope
from pipestream.cli.main import app
from pipestream.dead_letters.decisions import DEFAULT_MAX_REPLAYS
from pipestream.drain.range_task import RangeFailed, RangeOutcome
from pipestream.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    GraphInvalid,
    LeaseStoreUnavailable,
    PipestreamError,
    Problem,
    StoreUnavailable,
)
from pipestream.leases import Assignment
from pipestream.leases.none import NoLeaseStore
from pipestream.ledger.upkeep import SHORTEST_RETENTION_HOURS
from pipestream.local.process import find_process, start_process
from pipestream.local.spec import Ports
from pipestream.local.state import StackState, write_state

LETTERS = """
graph: letters
cluster: main
datasources:
  - {id: mail, account: acme, entry: parse}
nodes:
  - {id: parse, type: connector}
"""
HEAVY = ("airflow", "boto3", "cel_expr_python", "celpy", "confluent_kafka", "deltalake", "google", "grpc", "psycopg")
HEAVY += ("pyarrow", "pydantic", "pyspark")


def all_commands(group: typer.Typer = app, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [
        (*words, command.name or command.callback.__name__.replace("_", "-")) for command in group.registered_commands
    ]
    for inner in group.registered_groups:
        found += all_commands(inner.typer_instance, (*words, inner.name))
    return found


def failing(monkeypatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("pipestream.cli.settings.read_settings", fail)
    monkeypatch.setattr(options, "read_settings", fail)


def test_help_imports_nothing_heavy():
    code = f"import sys, pipestream.cli.main; print([name for name in {HEAVY!r} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_every_command_explains_itself_with_examples(run, words):
    ran = run(*words, "--help")

    assert ran.code == 0
    assert "Examples" in ran.out
    assert f"$ pipestream {' '.join(words)}".removesuffix(" list") in ran.out


def test_all_the_commands_are_there():
    assert {words[0] for words in all_commands()} == {
        "airflow", "assignments", "backfill", "demo", "dlq", "documents", "down", "drain", "engine", "fetch", "graph",
        "ingest", "leases", "ledger", "metrics", "plugins", "read", "repository", "runtime", "samples", "spark",
        "settings", "sidecar", "status", "topics", "up",
    }  # fmt: skip


def test_defaults_that_help_texts_show_are_those_of_the_work():
    assert signature(dlq_actions.replay).parameters["max_replays"].default == DEFAULT_MAX_REPLAYS
    assert signature(ledger.upkeep).parameters["retention_hours"].default == SHORTEST_RETENTION_HOURS


def test_the_version_is_printed(run):
    assert run("--version").out == f"pipestream {__version__}\n"


def test_an_unknown_command_ends_with_2(run):
    ran = run("grapf")

    assert ran.code == 2
    assert "grapf" in ran.err


def test_a_terminal_error_ends_with_2_and_no_traceback(run, monkeypatch):
    failing(monkeypatch, GraphInvalid([Problem("a.yaml", 3, "nodes[0].id", "is missing")]))

    ran = run("settings", "--json")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: a.yaml:3: nodes[0].id: is missing\n"


def test_a_transient_error_ends_with_1_and_says_that_it_may_pass(run, monkeypatch):
    failing(monkeypatch, StoreUnavailable("s3://bucket does not answer"))

    ran = run("settings")

    assert ran.code == 1
    assert ran.err.startswith("error: s3://bucket does not answer\n")
    assert "try the same command again" in ran.err


@pytest.mark.parametrize(
    ("error", "variable"),
    [
        (BrokerUnavailable("Kafka at 127.0.0.1:1 does not answer"), "PIPESTREAM_KAFKA_BOOTSTRAP"),
        (DatabaseUnavailable("PostgreSQL does not answer"), "PIPESTREAM_POSTGRES_DSN"),
        (LeaseStoreUnavailable("Consul does not answer"), "PIPESTREAM_CONSUL_ADDRESS"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_server_that_nobody_named_and_that_does_not_answer_is_told_how_to_be_named(run, monkeypatch, error, variable):
    failing(monkeypatch, error)

    unnamed = run("settings")
    monkeypatch.setenv(variable, "somewhere")
    named = run("settings")

    assert unnamed.code == named.code == 1
    assert f"run `pipestream up`, or set {variable}" in unnamed.err
    assert "pipestream up" not in named.err
    assert "try the same command again" in named.err


def test_a_server_of_a_stack_that_was_up_once_points_to_its_status(run, monkeypatch, tmp_path):
    failing(monkeypatch, BrokerUnavailable("Kafka at 127.0.0.1:1 does not answer"))
    (tmp_path / ".pipestream").mkdir()
    (tmp_path / ".pipestream" / "stack.toml").write_text("")

    assert "`pipestream status` shows whether that stack runs, and `pipestream up` starts it" in run("settings").err


def test_a_pattern_that_matches_no_node_of_the_graphs_is_said(monkeypatch, tmp_path, capsys):
    (tmp_path / "letters.yaml").write_text(LETTERS)
    monkeypatch.setenv("PIPESTREAM_GRAPHS_FOLDER", str(tmp_path))

    read_scope(node=["prase", "pa*"])

    assert capsys.readouterr().err == "no node matches 'prase'; the graphs have happy-end, parse\n"


@pytest.mark.parametrize(("transient", "code"), [(True, 1), (False, 2)])
def test_a_failed_range_ends_as_its_cause_deserves(run, monkeypatch, transient, code):
    failing(monkeypatch, RangeFailed(RangeOutcome("t", 0, 0, 5, None, 0.1, "broke", transient)))

    assert run("settings").code == code


def test_markup_in_an_error_is_printed_as_it_is(run, monkeypatch):
    failing(monkeypatch, PipestreamError("[bold]not markup[/bold] [/oops]"))

    assert "[bold]not markup[/bold] [/oops]" in run("settings").err


def test_a_broken_file_among_the_graphs_is_named_and_the_way_around_it(run, monkeypatch, tmp_path):
    (tmp_path / "broken.yaml").write_text("graph: [")
    monkeypatch.setenv("PIPESTREAM_GRAPHS_FOLDER", str(tmp_path))

    ran = run("topics")

    assert ran.code == 2
    assert "broken.yaml:2: file: not YAML" in ran.err.replace("\n", "")
    assert "without --graph, every graph in" in ran.err


def test_ctrl_c_ends_with_130_and_a_word(run, monkeypatch):
    failing(monkeypatch, KeyboardInterrupt())

    ran = run("settings")

    assert ran.code == 130
    assert ran.err == "interrupted; nothing is lost, and the same command can be run again\n"


def test_a_bug_keeps_its_traceback(run, monkeypatch):
    failing(monkeypatch, ZeroDivisionError("a bug"))

    with pytest.raises(ZeroDivisionError):
        run("settings")


def test_settings_are_listed_with_variable_and_meaning(run, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_DRAIN_BUDGET", "77")

    ran = run("settings", "--json")
    rows = {row["name"]: row for row in json.loads(ran.out)["settings"]}

    assert rows["drain_budget"] == {
        "name": "drain_budget",
        "variable": "PIPESTREAM_DRAIN_BUDGET",
        "group": "Drains",
        "type": "whole number",
        "default": 100_000,
        "value": 77,
        "description": "Most offsets one run drains from a slot of a topic.",
    }
    assert rows["cel_engine"]["type"] == "cel-expr | celpy"
    assert rows["s3_endpoint"]["value"] is None


@pytest.mark.parametrize("arguments", [["settings"], ["settings", "--json"]])
def test_settings_never_show_a_secret(run, monkeypatch, arguments):
    monkeypatch.setenv("PIPESTREAM_POSTGRES_DSN", "postgresql://someone:hunter2@db/pipestream")
    monkeypatch.setenv("PIPESTREAM_CONSUL_TOKEN", "swordfish")

    ran = run(*arguments)

    assert ran.code == 0
    assert "PIPESTREAM_POSTGRES_DSN" in ran.out
    for secret in ("hunter2", "swordfish"):
        assert secret not in ran.out + ran.err


def test_a_misspelt_setting_is_refused(run, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_DRAIN_BUDGTE", "1")

    ran = run("settings")

    assert ran.code == 2
    assert "PIPESTREAM_DRAIN_BUDGTE" in ran.err


def test_the_status_of_a_stack_that_never_ran_is_stopped(run):
    ran = run("status", "--json")

    assert ran.code == 1
    assert {server["name"]: server["state"] for server in json.loads(ran.out)["servers"]} == {
        "kafka": "stopped",
        "postgres": "stopped",
        "spark-connect": "stopped",
    }


def test_stopping_nothing_is_not_an_error(run):
    ran = run("down", "--json")

    assert ran.code == 0
    assert json.loads(ran.out) == {"stopped": []}


@pytest.mark.parametrize("variable", ["PIPESTREAM_GRPC_STOP_S", "PIPESTREAM_NO_SUCH_SETTING"])
def test_a_stack_is_stopped_although_the_settings_are_not_valid(run, monkeypatch, tmp_path, variable):
    asleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    records = {name: start_process(asleep, os.environ, tmp_path / "log") for name in ("engine", "kafka")}
    write_state(tmp_path / ".pipestream" / "stack.json", StackState("embedded", False, Ports(), records, live=True))
    monkeypatch.setenv(variable, "soon")

    ran = run("down", "--json")

    assert (ran.code, sorted(json.loads(ran.out)["stopped"])) == (0, ["engine", "kafka"])
    assert [name for name, record in records.items() if find_process(record)] == []
    assert "servers get the default time to stop, because the settings are not valid" in ran.err
    assert variable in ran.err


class HeldStore(NoLeaseStore):
    """A store with one topic, which somebody holds."""

    def assignments(self, topic=None):
        until = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
        return [Assignment("intake.a@g", 0, "run-1@host:1", 1_234_567, until)]


@pytest.mark.parametrize("command", ["leases", "assignments"])
def test_a_table_of_leases_shows_slot_holder_time_and_the_token_as_it_is_written_elsewhere(run, monkeypatch, command):
    monkeypatch.setattr("pipestream.leases.open_lease_store", lambda _: HeldStore())

    *_, names, _, row = run(command).out.rstrip().splitlines()

    assert names.split() == ["topic", "graph", "wanted", "slot", "holder", "until", "(UTC)", "token"]
    assert row.split() == [
        "intake.a",
        "g",
        "started",
        "x",
        "1",
        "0",
        "run-1@host:1",
        "2026-03-01",
        "08:30:00",
        "1234567",
    ]


@pytest.fixture
def no_leases(monkeypatch):
    """The no-leases mode, with the graphs that the project ships."""
    monkeypatch.setenv("PIPESTREAM_LEASES", "none")
    monkeypatch.setenv("PIPESTREAM_GRAPHS_FOLDER", str(Path(__file__).parents[3] / "dags" / "graphs"))


@pytest.mark.parametrize("command", ["leases", "assignments"])
def test_without_leases_the_list_says_that_replicas_do_not_apply(run, no_leases, command):
    ran = run(command)

    assert ran.code == 0
    assert "No leases: replicas do not apply" in ran.out
    assert "replicas do not apply" in " ".join(ran.out.split())
    assert "started x -" in ran.out
    listed = json.loads(run(command, "--json").out)
    assert listed["replicas_apply"] is False
    assert "intake.sample-files" in [slot["topic"] for slot in listed["slots"]]


def test_without_leases_replicas_cannot_be_set(run, no_leases):
    ran = run("leases", "set", "intake.sample-files", "--replicas", "2")

    assert ran.code == 2
    assert "PIPESTREAM_LEASES is none" in ran.err


def test_setting_a_lease_needs_something_to_set(run):
    ran = run("leases", "set", "intake.a")

    assert ran.code == 2
    assert "--replicas" in ran.err
