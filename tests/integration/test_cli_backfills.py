"""`pipestream backfill` on real servers."""

from __future__ import annotations

import pytest

from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


# Four records, and in each of the two partitions the marker of the transaction that published them.
OFFSETS = 6


def test_a_backfill_runs_next_to_the_live_run_and_once(run, applied, documents, unique):
    topic = f"intake.{unique}"
    run("ingest", "--graph", applied, "--datasource", unique, documents)
    run("drain", "--graph", applied, "--topic", topic)
    arguments = ("backfill", "again", "--graph", applied, "--topic", topic, "--since", "2026-01-01", "--json")

    estimate = run(*arguments, "--dry-run")
    first = run(*arguments)
    second = run(*arguments)
    lanes = {head["lane"] for head in run("ledger", "heads", "--json").json()}

    assert estimate.json()["offsets"] == OFFSETS
    assert (first.json()["lane"], first.json()["records"]) == (f"{unique}@again", 4)
    assert run("ledger", "entries", "--lane", f"{unique}@again", "--json").json()[0]["run_id"] == first.json()["run_id"]
    assert second.json()["run_id"] != first.json()["run_id"]
    assert run("ledger", "entries", "--run", second.json()["run_id"], "--json").json() == []
    assert lanes == {unique, f"{unique}@again"}


@pytest.mark.parametrize(
    ("options", "drained_again"),
    [
        pytest.param(["--offsets", "0:1-3", "--offsets", "1:1-2"], ["b", "c", "f"], id="offsets"),
        pytest.param(["--offsets", "0:0-3"], ["a", "b", "c"], id="offsets of one partition"),
        pytest.param(["--since", "PT6H", "--doc-id", "b", "--doc-id", "e"], ["b", "e"], id="documents"),
        pytest.param(["--offsets", "0:1-4", "--doc-id", "a", "--doc-id", "b"], ["b"], id="documents among offsets"),
    ],
)
def test_a_backfill_drains_the_offsets_and_documents_that_are_named_and_no_others(
    run, applied, settings, unique, options, drained_again
):
    topic = f"intake.{unique}"
    pipeline = Pipeline(settings, applied)
    pipeline.send(topic, ["a", "b", "c", "d"], partition=0)
    pipeline.send(topic, ["e", "f"], partition=1)

    ran = run("backfill", "some", "--graph", applied, "--topic", topic, *options)

    assert ran.code == 0, ran.err
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == dict.fromkeys(drained_again, 1)


def test_a_backfill_of_a_datasource_covers_every_graph_that_drains_it(run, applied, documents, unique, monkeypatch):
    folder = applied.parent / "graphs"
    folder.mkdir()
    text = applied.read_text()
    (folder / "one.yaml").write_text(text)
    other = text.replace(f"graph: {unique}", f"graph: {unique}-other").replace(
        f"cluster: {unique}", f"cluster: {unique}b"
    )
    (folder / "other.yaml").write_text(other)
    monkeypatch.setenv("PIPESTREAM_GRAPHS_FOLDER", str(folder))
    run("graph", "apply", folder / "other.yaml")
    run("ingest", "--graph", applied, "--datasource", unique, documents)
    arguments = ("backfill", "again", "--datasource", unique, "--since", "PT6H")

    estimates = run(*arguments, "--dry-run", "--json").json()
    said = run(*arguments)
    finished = run(*arguments, "--json").json()

    assert [estimate["offsets"] for estimate in estimates] == [OFFSETS, OFFSETS]
    assert said.code == 0, said.err
    assert said.out.count(f"intake.{unique}: 4 records") == 2
    assert [report["lane"] for report in finished] == [f"{unique}@again", f"{unique}-other@again"]
    assert [report["status"] for report in finished] == ["empty", "empty"]


def test_a_backfill_uses_the_graph_of_then(run, applied, documents, unique):
    topic = f"intake.{unique}"
    run("ingest", "--graph", applied, "--datasource", unique, documents)
    run("drain", "--graph", applied, "--topic", topic)
    # From now on everything ends at once.
    applied.write_text(applied.read_text().partition("edges:")[0])
    run("graph", "apply", applied)
    arguments = ("--graph", applied, "--topic", topic, "--since", "PT6H", "--json")

    now = run("backfill", "as-now", *arguments).json()
    then = run("backfill", "as-then", *arguments, "--graph-version", "then").json()
    first = run("backfill", "as-first", *arguments, "--graph-version", "1").json()

    assert now["documents_out"] == {"happy-end": 4}
    assert then["documents_out"] == first["documents_out"] == {"first--second": 3, "happy-end": 1}


def test_a_backfill_without_a_range_is_refused(run, applied, unique):
    ran = run("backfill", "again", "--graph", applied, "--topic", f"intake.{unique}")

    assert ran.code == 2
    assert "say what to cover" in ran.err
