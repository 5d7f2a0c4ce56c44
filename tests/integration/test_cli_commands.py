"""The commands on real servers: from a graph file to a complete ledger, as a person would type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.leases import open_lease_store
from pipestream.leases.names import lease_name
from pipestream.views.audit import audit_topic
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


def test_documents_go_from_a_folder_to_a_complete_ledger(run, applied, documents, unique):
    intake, second = f"intake.{unique}", f"pipestream.{unique}.second"

    ingested = run("ingest", "--graph", applied, "--datasource", unique, documents, "--json")
    waiting = run("ledger", "check", "--graph", applied, "--json")
    told = run("ledger", "check", "--graph", applied)
    first_drain = run("drain", "--graph", applied, "--topic", intake, "--run-id", "r1", "--json")
    second_drain = run("drain", "--graph", applied, "--topic", second, "--run-id", "r2", "--json")
    complete = run("ledger", "check", "--graph", applied, "--json")

    assert ingested.json()["published"] == 4
    assert (waiting.code, waiting.json()["complete"]) == (1, False)
    assert (told.code, told.out.splitlines()[-1]) == (1, "the ledger has no gap; what waits is for the next run")
    assert first_drain.json()["documents_out"] == {"first--second": 3, "happy-end": 1}
    assert (second_drain.json()["records"], second_drain.json()["dead_letters"]) == (3, 1)
    assert (complete.code, complete.json()["complete"]) == (0, True)


def test_a_second_ingestion_finds_nothing_new(run, applied, documents, unique):
    arguments = ("ingest", "--graph", applied, "--datasource", unique, documents)
    run(*arguments)

    ran = run(*arguments)

    assert ran.code == 0
    assert "4 documents: 0 new, 0 changed, 4 unchanged; 0 published" in ran.out


def test_a_connectors_relative_path_starts_from_the_folder_of_sources(run, applied, documents, unique, monkeypatch):
    applied.write_text(
        applied.read_text().replace("entry: first", "entry: first\n    connector: {kind: folder, path: documents}")
    )
    monkeypatch.setenv("PIPESTREAM_SOURCES_FOLDER", str(documents.parent))
    monkeypatch.chdir("/")

    ran = run("ingest", "--graph", applied, "--datasource", unique, "--json")

    assert ran.json()["published"] == 4


def test_the_ledger_shows_what_a_run_did(run, applied, documents, unique, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_SUB_RANGES", "always")
    run("ingest", "--graph", applied, "--datasource", unique, documents)
    run("drain", "--graph", applied, "--topic", f"intake.{unique}", "--run-id", "r1")

    entries = run("ledger", "entries", "--run", "r1", "--json").json()
    plans = run("ledger", "plans", "--run", "r1", "--json").json()
    assert {plan["tasks_reason"].rpartition(": ")[2] for plan in plans} == {"the setting sub_ranges is always"}
    heads = run("ledger", "heads", "--lane", unique, "--json").json()

    assert sum(entry["records"] for entry in entries) == 4
    assert {entry["run_id"] for entry in entries} == {"r1"}
    planned = {(r["partition"], r["start"], r["end"]) for plan in plans for r in plan["ranges"]}
    assert planned == {(entry["partition"], entry["start"], entry["end"]) for entry in entries}
    assert {(head["partition"], head["head"]) for head in heads} == {(e["partition"], e["end"]) for e in entries}
    assert "r1" in run("ledger", "entries").out
    shown = run("ledger", "plans").out
    assert "r1" in shown
    assert "sub-ranges" in shown


def test_topics_show_lag_and_dead_letters(run, applied, documents, unique):
    run("ingest", "--graph", applied, "--datasource", unique, documents)

    before = {row["topic"]: row for row in run("topics", "--graph", applied, "--json").json()}
    run("drain", "--graph", applied, "--topic", f"intake.{unique}")
    run("drain", "--graph", applied, "--topic", f"pipestream.{unique}.second")
    after = {row["topic"]: row for row in run("topics", "--graph", applied, "--json").json()}

    # Four records, and in each of the two partitions the marker of the transaction that published them.
    assert before[f"intake.{unique}"]["lag"] == 6
    assert after[f"intake.{unique}"]["lag"] == 0
    assert after[f"pipestream.{unique}.second"]["dead_letters"] == 1
    assert [part["head"] for part in before[f"intake.{unique}"]["partitions"]] == [None, None]
    assert sum(part["head"] for part in after[f"intake.{unique}"]["partitions"]) == 6
    assert f"dlq.{unique}.second" in run("topics", "--graph", applied).out


def test_topics_that_are_not_drained_show_what_they_hold_without_asking_the_ledger(
    run, applied, settings, unique, monkeypatch
):
    dead = f"dlq.{unique}.second"
    Pipeline(settings, applied).send(dead, ["a", "b", "c"])
    asked = []
    monkeypatch.setattr(
        "pipestream.views.topics.audit_topic", lambda *args: asked.append(args[-1]) or audit_topic(*args)
    )

    rows = {row["topic"]: row for row in run("topics", "--graph", applied, "--json").json()}

    assert rows[dead]["partitions"] == [{"partition": 0, "low": 0, "high": 3, "head": None}]
    assert (rows[dead]["drained"], rows[dead]["lag"], rows[dead]["dead_letters"]) == (False, None, None)
    assert sorted(asked) == [topic for topic, row in rows.items() if row["drained"]] != []


def test_topics_that_are_missing_are_reported(run, graph_file, unique):
    ran = run("topics", "--graph", graph_file)

    assert ran.code == 1
    assert f"intake.{unique}" in ran.err


def test_a_topic_that_is_missing_cannot_be_drained(run, graph_file, unique, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_TOPIC_ATTEMPTS", "1")

    ran = run("drain", "--graph", graph_file, "--topic", f"intake.{unique}")

    assert ran.code == 2
    assert f"topic intake.{unique} does not exist; apply the graph that needs it: pipestream graph apply" in ran.err


def test_a_drain_says_who_holds_the_lease(run, applied, settings, unique):
    topic = f"intake.{unique}"
    Pipeline(settings, applied).send(topic, ["a"])
    store = open_lease_store(settings)
    lease = store.acquire(lease_name(topic, unique), 0, "somebody else", 600)
    try:
        ran = run("drain", "--graph", applied, "--topic", topic)
        slots = run("leases", topic, "--json").json()["slots"]
    finally:
        store.release(lease)
        store.close()

    assert ran.code == 0
    assert "skipped" in ran.out
    assert "somebody else" in ran.out
    assert [(slot["slot"], slot["holder"], slot["token"]) for slot in slots] == [(0, "somebody else", lease.token)]


def test_a_topic_is_stopped_and_scaled(run, applied, unique):
    topic = f"intake.{unique}"

    run("leases", "set", topic, "--stopped", "--replicas", "2")
    stopped = run("leases", topic, "--json").json()["slots"]
    run("leases", "set", topic, "--started")
    started = run("leases", "list", topic, "--json").json()["slots"]

    assert [(slot["slot"], slot["started"]) for slot in stopped] == [(0, False), (1, False)]
    assert [(slot["slot"], slot["started"]) for slot in started] == [(0, True), (1, True)]


def test_a_topic_and_a_graph_are_moved_between_batch_and_streaming(run, applied, unique):
    topic = f"intake.{unique}"

    one = run("leases", "set", topic, "--mode", "streaming", "--json").json()
    shown = run("leases", topic).out
    again = run("graph", "apply", applied)
    kept = run("leases", "--json").json()["slots"]
    skipped = run("drain", "--graph", applied, "--topic", topic)
    whole = run("graph", "mode", unique, "streaming", "--json").json()
    back = run("graph", "mode", applied, "batch", "--json").json()

    assert one == {"topic": topic, "started": True, "replicas": 1, "mode": "streaming"}
    assert "started x 1, streaming" in " ".join(shown.split())
    assert again.code == 0
    assert {slot["topic"] for slot in kept if slot["mode"] == "streaming"} == {topic}
    assert "skipped" in skipped.out
    assert "is in streaming mode" in skipped.out
    topics = [topic, f"pipestream.{unique}.fused", f"pipestream.{unique}.second"]
    assert [(each["topic"], each["mode"]) for each in whole] == [(name, "streaming") for name in topics]
    assert [(each["topic"], each["mode"]) for each in back] == [(name, "batch") for name in topics]


def test_a_graph_that_was_never_applied_has_no_mode(run, graph_file, unique):
    unknown = run("graph", "mode", "nobody", "streaming")
    ran = run("graph", "mode", graph_file, "streaming")

    assert (unknown.code, ran.code) == (2, 2)
    assert "is not registered; apply its graph first" in ran.err


def test_all_topics_of_a_graph_are_stopped_at_once(run, applied, unique):
    ran = run("leases", "set", "--graph", applied, "--stopped", "--json")
    slots = run("leases", "--json").json()["slots"]

    topics = [f"intake.{unique}", f"pipestream.{unique}.fused", f"pipestream.{unique}.second"]
    assert [(each["topic"], each["started"]) for each in ran.json()] == [(topic, False) for topic in topics]
    assert [(slot["topic"], slot["started"]) for slot in slots] == [(topic, False) for topic in topics]


def test_a_topic_begins_with_the_slots_of_its_graph_and_keeps_what_the_operator_sets(run, graph_file, unique):
    graph_file.write_text(graph_file.read_text().replace("account: acme", "account: acme\n    slots: 2"))
    topic = f"intake.{unique}"

    run("graph", "apply", graph_file)
    at_first = run("leases", topic, "--json").json()["slots"]
    run("leases", "set", topic, "--replicas", "3", "--stopped")
    run("graph", "apply", graph_file)
    later = run("leases", topic, "--json").json()["slots"]

    assert [(slot["slot"], slot["replicas"]) for slot in at_first] == [(0, 2), (1, 2)]
    assert [(slot["replicas"], slot["started"]) for slot in later] == [(3, False)] * 3
    assert {slot["replicas"] for slot in run("leases", f"pipestream.{unique}.second", "--json").json()["slots"]} == {1}


@pytest.mark.parametrize("command", ["leases", "assignments"])
@pytest.mark.parametrize("store", ["sql", "consul"])
def test_the_holder_of_a_slot_is_shown_with_its_time_and_token(
    run, applied, settings, consul, unique, store, command, monkeypatch
):
    monkeypatch.setenv("PIPESTREAM_LEASES", store)
    topic = f"intake.{unique}"
    leases = open_lease_store(settings.model_copy(update={"leases": store}))
    before = datetime.now(UTC)
    lease = leases.acquire(lease_name(topic, unique), 0, "somebody else", 600)
    after = datetime.now(UTC)
    try:
        (slot,) = run(command, topic, "--json").json()["slots"]
        shown = run(command, topic).out
    finally:
        leases.release(lease)
        leases.unregister([topic])
        leases.close()

    until = datetime.fromisoformat(slot["until"])
    assert (slot["holder"], slot["token"]) == ("somebody else", lease.token)
    # Consul may keep a session for twice its time.
    assert before + timedelta(seconds=600) <= until <= after + timedelta(seconds=1_200)
    assert shown.rstrip().splitlines()[-1].split() == [
        topic, unique, "started", "x", "1", "0", "somebody", "else",
        *f"{until:%Y-%m-%d %H:%M:%S}".split(), str(lease.token)
    ]  # fmt: skip


def test_an_unregistered_topic_cannot_be_set(run, applied):
    ran = run("leases", "set", "intake.nobody", "--stopped")

    assert ran.code == 2
    assert "intake.nobody is not registered" in ran.err


def test_a_topic_that_was_never_drained_starts_where_the_run_says(run, applied, documents, unique):
    topic = f"intake.{unique}"
    run("ingest", "--graph", applied, "--datasource", unique, documents)

    first = run("drain", "--graph", applied, "--topic", topic, "--start-at", "latest", "--json")
    second = run("drain", "--graph", applied, "--topic", topic, "--start-at", "earliest", "--json")
    kinds = {entry["kind"] for entry in run("ledger", "entries", "--topic", topic, "--json").json()}

    assert (first.code, first.json()["status"]) == (0, "empty")
    assert second.json()["status"] == "empty", "a place once chosen is kept"
    assert kinds == {"skipped"}


def test_dead_letters_are_listed_shown_and_decided_about(run, applied, documents, unique):
    run("ingest", "--graph", applied, "--datasource", unique, documents)
    run("drain", "--graph", applied, "--topic", f"intake.{unique}")
    run("drain", "--graph", applied, "--topic", f"pipestream.{unique}.second")

    (letter,) = run("dlq", "list", "--graph", applied, "--json").json()
    shown = run("dlq", "show", letter["id"]).json()
    preview = run("dlq", "replay", "--graph", applied, "--dry-run", "--json").json()
    run("dlq", "quarantine", "--graph", applied, "--node", "second")
    waiting = run("dlq", "list", "--graph", applied, "--json").json()
    set_aside = run("dlq", "list", "--graph", applied, "--state", "quarantined", "--json").json()
    run("dlq", "release", "--graph", applied, "--letter", letter["id"])
    replayed = run("dlq", "replay", "--graph", applied, "--action", f"{unique}-fix", "--json").json()
    again = run("dlq", "replay", "--graph", applied, "--action", f"{unique}-fix", "--json").json()

    assert (letter["node"], letter["error"]) == ("second", "ModuleFailed")
    assert shown["id"] == letter["id"]
    assert preview["sent"] == {f"pipestream.{unique}.second": 1}
    assert (len(waiting), len(set_aside)) == (0, 1)
    assert replayed["sent"] == {f"pipestream.{unique}.second": 1}
    assert again["decided_now"] == 0
    assert run("dlq", "list", "--graph", applied).out.endswith("0 dead letters\n")


def test_a_letter_that_is_not_there_is_reported(run, applied, unique):
    ran = run("dlq", "show", f"dlq.{unique}.second/0/99")

    assert ran.code == 2
    assert f"there is no dead letter dlq.{unique}.second/0/99" in ran.err


@pytest.mark.spark
@pytest.mark.usefixtures("spark_connect")
def test_a_topic_is_drained_on_the_spark_that_is_up_and_no_folder_is_left_where_it_was_typed(
    run, applied, documents, unique, tmp_path, monkeypatch
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PIPESTREAM_SPARK_MODE", "connect")
    run("ingest", "--graph", applied, "--datasource", unique, documents)

    ran = run("drain", "--spark", "--graph", applied, "--topic", f"intake.{unique}", "--run-id", "r1", "--json")

    assert ran.code == 0
    assert ran.json()["records"] == 4
    assert ran.json()["documents_out"] == {"first--second": 3, "happy-end": 1}
    assert list(here.iterdir()) == []
