"""The commands that a new user types first, as far as they need no servers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import typer

from pipestream.cli.options import parse_moment
from pipestream.drain.backfill import parse_offsets
from pipestream.samples.generate import LEAST

GRAPH = """\
graph: {name}
cluster: {name}
datasources:
  - {{id: mail, account: acme, entry: {name}-read}}
nodes:
  - {{id: {name}-read, module: "python:pipestream_testing.steps:pass_on"}}
"""


@pytest.fixture
def graphs(tmp_path, monkeypatch):
    """Two graphs on one datasource, as the graphs folder."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text(GRAPH.format(name=name))
    monkeypatch.setenv("PIPESTREAM_GRAPHS_FOLDER", str(folder))
    return folder


def test_samples_go_where_the_sample_graphs_connector_looks(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_SOURCES_FOLDER", str(tmp_path / "sources"))

    ran = run("samples", "--count", "20")

    assert ran.code == 0
    assert ran.out.startswith(f"20 documents in {tmp_path / 'sources' / 'samples'}: ")
    assert len([file for file in (tmp_path / "sources" / "samples").rglob("*") if file.is_file()]) == 20


def test_samples_go_into_any_folder_and_another_seed_makes_others(run, tmp_path):
    first = run("samples", tmp_path / "a", "--count", "20", "--json")
    run("samples", tmp_path / "b", "--count", "20", "--seed", "8")

    assert json.loads(first.out)["documents"] == 20
    texts = [(tmp_path / name / "html" / "html-0000.html").read_text() for name in "ab"]
    assert texts[0] != texts[1]


def test_the_fewest_samples_are_those_that_the_generator_can_make(run, tmp_path):
    assert run("samples", tmp_path, "--count", str(LEAST)).code == 0
    assert run("samples", tmp_path, "--count", str(LEAST - 1)).code == 2


def test_samples_that_cannot_be_written_are_an_error_of_ours(run, tmp_path):
    (tmp_path / "file").write_text("")

    ran = run("samples", tmp_path / "file")

    assert ran.code == 2
    assert "cannot be written: Not a directory" in ran.err


def test_airflow_without_a_stack_says_how_to_get_one(run):
    ran = run("airflow", "dags", "list")

    assert ran.code == 2
    assert "run `pipestream up`" in ran.err


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T08:30", datetime(2026, 3, 1, 8, 30, tzinfo=UTC)),
        ("2026-03-01 08:30:15", datetime(2026, 3, 1, 8, 30, 15, tzinfo=UTC)),
        ("2026-03-01T08:30:00Z", datetime(2026, 3, 1, 8, 30, tzinfo=UTC)),
        ("2026-03-01T08:30+02:00", datetime(2026, 3, 1, 6, 30, tzinfo=UTC)),
    ],
)
def test_a_time_is_utc_unless_it_says_a_zone(text, moment):
    assert parse_moment(text) == moment


def test_a_duration_counts_back_from_now():
    assert abs(datetime.now(UTC) - parse_moment("PT6H") - timedelta(hours=6)) < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "yesterday", "6h", "earliest", "committed:x", "2026-13-01"])
def test_what_is_not_a_time_is_refused_with_an_example(text):
    with pytest.raises(typer.BadParameter, match="2026-01-31T08:00"):
        parse_moment(text)


@pytest.mark.parametrize("command", [["dlq", "list"], ["backfill", "march", "--datasource", "mail"]])
def test_every_command_reads_times_in_the_same_ways(run, graphs, monkeypatch, command):
    monkeypatch.setenv("PIPESTREAM_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("PIPESTREAM_KAFKA_TIMEOUT_S", "0.2")

    wrong = run(*command, "--since", "yesterday")
    right = [run(*command, "--since", text) for text in ("2026-03-01T08:30", "2026-03-01T08:30+02:00", "P1D")]

    assert wrong.code == 2
    assert "is not a time" in wrong.err
    # The time was understood: what is missing now is the broker, or the database.
    assert {ran.code for ran in right} == {1}


def test_a_backfill_needs_a_topic_or_a_datasource_and_not_both(run, graphs):
    for arguments in ([], ["--topic", "intake.mail", "--datasource", "mail"]):
        ran = run("backfill", "march", "--since", "P1D", *arguments)

        assert ran.code == 2
        assert "--topic NAME, or --datasource ID" in " ".join(ran.err.split())


def test_a_backfill_of_an_unknown_datasource_names_the_known_ones(run, graphs):
    ran = run("backfill", "march", "--datasource", "male", "--since", "P1D")

    assert ran.code == 2
    assert "no graph has a datasource 'male' (graphs: one, two); there are: mail" in ran.err


def test_a_backfill_of_a_topic_that_is_not_drained_names_those_that_are(run, graphs):
    ran = run("backfill", "march", "--topic", "pipestream.one.happy-end", "--since", "P1D", "-g", graphs / "one.yaml")

    assert ran.code == 2
    assert "no graph drains pipestream.one.happy-end (graphs: one); drained are: intake.mail" in ran.err


def test_offsets_are_read_as_a_half_open_range_per_partition():
    assert parse_offsets(["0:100-200", "12:0-1"]) == {0: (100, 200), 12: (0, 1)}


@pytest.mark.parametrize(
    "text", ["", "0", "100-200", "0:", "0:100", "0:100-", "0:-200", "0:100..200", "0:1-2-3", ":1-2", "a:1-2", "0:1-b"]
)
def test_what_are_not_offsets_is_refused_with_an_example(run, graphs, text):
    ran = run("backfill", "march", "--datasource", "mail", "--offsets", "1:0-5", "--offsets", text)

    assert ran.code == 2
    assert ran.err == f"error: {text!r} is not PARTITION:START-END, such as 0:100-200\n"


@pytest.mark.parametrize("text", ["0:200-100", "0:7-7"])
def test_offsets_that_end_before_they_start_are_refused(run, graphs, text):
    ran = run("backfill", "march", "--datasource", "mail", "--offsets", text)

    assert ran.code == 2
    assert "is not a range of offsets" in ran.err


def test_a_second_range_of_one_partition_is_refused(run, graphs):
    ran = run("backfill", "march", "--datasource", "mail", "--offsets", "0:1-2", "--offsets", "0:5-6")

    assert ran.code == 2
    assert "'0:5-6' is a second range of partition 0" in ran.err


def test_a_backfill_with_a_bad_id_is_reported(run, graphs):
    ran = run("backfill", "March", "--datasource", "mail", "--since", "P1D")

    assert ran.code == 2
    assert ran.err.startswith("error: backfill id 'March' cannot be used in names: use 1 to 80 lower-case letters")


def test_a_drain_refuses_a_place_to_start_that_is_none(run, graphs):
    ran = run("drain", "-g", graphs / "one.yaml", "-t", "intake.mail", "--start-at", "beginning")

    assert ran.code == 2
    assert "is not a place to start" in " ".join(ran.err.split())
