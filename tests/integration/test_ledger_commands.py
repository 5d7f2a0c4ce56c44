"""``pipestream ledger`` on real servers, as an operator would type it."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from pipestream.leases import open_lease_store
from pipestream.leases.names import lease_name

pytestmark = pytest.mark.stack


@pytest.fixture
def rebaseline(run, pipeline, unique):
    """Run ``pipestream ledger rebaseline`` for the intake topic."""

    def command(*arguments):
        return run("ledger", "rebaseline", "-g", pipeline.graph_file, "-t", f"intake.{unique}", *arguments)

    return command


@pytest.fixture
def drained(pipeline, unique):
    """An intake topic whose three records are drained."""
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a", "b", "c"])
    pipeline.drain(topic, "run-1")
    return topic


def test_a_head_is_moved_by_offset_and_the_records_behind_it_are_drained_again(run, rebaseline, pipeline, drained):
    code, out, _ = rebaseline("--offset", "0:1", "--yes")
    report = pipeline.drain(drained, "run-2")

    assert (code, out) == (0, f"{drained}[0]: head moved from 3 to 1\n")
    assert report.records == 2
    entries = run("ledger", "entries", "--topic", drained, "--json").json()
    (move,) = [entry for entry in entries if entry["kind"] == "rebaselined"]
    assert (move["start"], move["end"]) == (3, 1)
    assert move["run_id"].startswith("rebaseline by ")


def test_heads_are_moved_to_a_place_and_reported_as_json(rebaseline, drained):
    code, out, _ = rebaseline("--to", "earliest", "--yes", "--json")

    moves = json.loads(out)
    assert code == 0
    assert [(each["topic"], each["partition"], each["start"], each["end"]) for each in moves] == [
        (drained, 0, 3, 0),
        (drained, 1, 0, 0),
    ]


def test_while_a_run_drains_the_topic_the_operator_is_told_who(rebaseline, pipeline, drained):
    with closing(open_lease_store(pipeline.settings)) as leases:
        lease = leases.acquire(lease_name(drained, pipeline.graph.graph_id), 0, "run-2@worker", 600)
        code, _, err = rebaseline("--to", "earliest", "--yes")
        leases.release(lease)

    assert code == 1
    assert f"{drained}@{pipeline.graph.graph_id} slot 0 is leased by run-2@worker" in err
    assert pipeline.ledger.heads(pipeline.graph.graph_id, drained, [0]) == {0: 3}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--to", "earliest"], "repeat with --yes", id="not confirmed"),
        pytest.param(["--yes"], "say where to", id="no place"),
        pytest.param(["--to", "earliest", "--offset", "0:1", "--yes"], "say where to", id="two places"),
        pytest.param(["--offset", "0-1", "--yes"], "is not PARTITION:OFFSET", id="not an offset"),
        pytest.param(["--offset", "0:9", "--yes"], "cannot start at 9: it holds 0..3", id="beyond the end"),
        pytest.param(["--offset", "7:0", "--yes"], "there is no such partition", id="no such partition"),
    ],
)
def test_a_move_that_cannot_be_is_refused_and_changes_nothing(rebaseline, pipeline, drained, arguments, told):
    code, _, err = rebaseline(*arguments)

    assert code == 2
    assert told in " ".join(err.replace("│", "").split())
    assert pipeline.ledger.heads(pipeline.graph.graph_id, drained, [0]) == {0: 3}


def test_upkeep_joins_files_and_moves_no_head(run, pipeline, unique, drained):
    pipeline.send(drained, ["d"])
    pipeline.drain(drained, "run-2")
    heads = run("ledger", "heads", "--json").out

    code, out, _ = run("ledger", "upkeep", "--json")

    done = {each["table"]: (each["files_joined"], each["files_made"]) for each in json.loads(out)}
    assert (code, done) == (0, {"plans": (2, 1), "entries": (2, 1)})
    assert run("ledger", "heads", "--json").out == heads
    assert run("ledger", "upkeep", "--retention-hours", "1").code == 2


def test_every_command_says_which_ledger_it_read(run, settings, pipeline, drained):
    folder = settings.ledger_uri.removeprefix("file://")

    for command in ("heads", "entries", "plans", "upkeep"):
        assert f"ledger {folder}\n" in run("ledger", command, "--json").err
