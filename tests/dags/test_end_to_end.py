"""The whole product: Airflow's scheduler, a Spark cluster, Consul leases, documents and ledger on S3.

One stack serves all tests of this file, which tell one story: documents are ingested, a scheduled run drains them, a
backfill drains a day again, the same backfill is asked for again, a person approves a replay, and the ledger is tidied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from pipestream.documents.references import key_of
from pipestream.leases.store import Assignment
from pipestream.ledger import Entry
from pipestream.objects.store import open_store
from pipestream_testing.airflow_api import wait_for
from pipestream_testing.airflow_stack import airflow_stack
from pipestream_testing.books import (
    APPROVAL_DAG,
    DAG,
    EARLIER,
    FILES,
    GRAPH,
    HAPPY_END,
    INDEX,
    INGEST_DAG,
    INTAKE,
    LEDGER,
    UPKEEP_DAG,
    Books,
)
from pipestream_testing.letters_dag import LETTERS, SERVERS, Letters
from pipestream_testing.live_dag import DAG as LIVE_DAG
from pipestream_testing.live_dag import TASK as LIVE_TASK
from pipestream_testing.live_dag import Client, LiveDag, runs_of
from pipestream_testing.parcels_dag import HOURLY, PARCELS, Parcels

pytestmark = [
    pytest.mark.stack,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.consul,
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> LiveDag:
    """The DAG of a small server, whose runs get old after a quarter of a minute."""
    return LiveDag(tmp_path_factory.mktemp("live") / "server", age_s=15)


@pytest.fixture(scope="module")
def books(tmp_path_factory, _only_our_settings, live) -> Iterator[Books]:
    folder = tmp_path_factory.mktemp("end-to-end")
    # A day that ended half a day ago, so that no test runs over the end of an interval.
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=12)
    graph = GRAPH.replace("SCHEDULE", f"0 {until.hour} * * *").replace("GATE", str(folder))
    files = {"tiny_live": live.dag_file, "hourly_parcels": HOURLY}
    graphs = {"books": graph, "letters": LETTERS, "parcels": PARCELS}
    environment = {
        "PIPESTREAM_LEDGER_URI": LEDGER,
        "PIPESTREAM_ARRIVAL_POLL_S": "1",
        # A tenth of it is how long the second task of a run may take to start before its documents start another run.
        "PIPESTREAM_ARRIVAL_REPEAT_S": "240",
    }
    with airflow_stack(folder, "full", graphs, environment, files) as stack:
        yield Books(stack, folder, (until - timedelta(days=1), until))


@dataclass(frozen=True)
class Ingested:
    run_id: str
    report: dict[str, object]


@pytest.fixture(scope="module")
def ingested(books) -> Ingested:
    """Some documents came in a day ago; Airflow has ingested others from a folder."""
    for number, doc_id in enumerate(EARLIER):
        noon = books.interval[0] + timedelta(hours=12)
        books.pipeline.send(INTAKE, [doc_id], partition=number % 2, timestamp=noon)
    folder = books.settings.sources_folder / "books"
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / f"{name}.txt").write_text(f"The text of {name}.")
    books.airflow.unpause(INGEST_DAG)
    run_id = books.airflow.trigger(INGEST_DAG)
    return Ingested(run_id, books.airflow.returned(INGEST_DAG, run_id, "ingest"))


@dataclass(frozen=True)
class Drained:
    """What was there while a run worked and after it."""

    run_id: str
    tasks: dict[str, str]
    lease: Assignment
    session: str | None
    live_lease: Assignment | None
    entries: list[Entry]
    heads: dict[int, int]
    group_offsets: dict[int, int]
    happy: Counter[str]
    dead: Counter[str]


def _watch(books: Books, run_id: str, lease_name: str) -> Drained:
    """Look at a run while a document waits at the gate, then let it finish."""
    books.gate.wait_for_arrival()
    lease, session = books.lease(lease_name), books.consul_session(lease_name)
    live_lease = books.lease(books.lease_name(backfill=False))
    assert lease is not None, f"nobody holds {lease_name}"
    books.gate.open()
    books.airflow.wait_for_run(DAG, run_id)
    tasks = books.airflow.drains(DAG, run_id)
    heads, offsets = books.ledger.heads("books", INTAKE, [0, 1]), books.pipeline.group_offsets(INTAKE)
    return Drained(run_id, tasks, lease, session, live_lease, books.entries(), heads, offsets, *books.ended())


@pytest.fixture(scope="module")
def scheduled(books, ingested) -> Drained:
    """The run that the scheduler starts when the DAG is unpaused."""
    books.airflow.unpause(DAG)
    return _watch(books, books.airflow.scheduled_run(DAG), books.lease_name(backfill=False))


@pytest.fixture(scope="module")
def backfilled(books, scheduled) -> Drained:
    """A backfill over the interval of the scheduled run, created through Airflow's API."""
    books.gate.close()
    backfill = books.post_backfill()
    found = _watch(books, scheduled.run_id, books.lease_name(backfill=True))
    books.airflow.wait_for_backfill(backfill)
    return found


# -- Airflow ingests -----------------------------------------------------------------------------


def test_the_ingestion_dag_stores_the_files_on_s3_and_publishes_each_once(books, ingested):
    assert ingested.report == {
        "datasource": "books",
        "new": len(FILES),
        "changed": 0,
        "unchanged": 0,
        "published": len(FILES),
        "failed": 0,
        "left_out": {},
        "stopped": "",
    }
    published = [found.stream.document_ref.object_key for found in books.pipeline.read(INTAKE)]
    with open_store(books.settings.store_uri, books.settings) as store:
        assert books.settings.store_uri.startswith("s3://")
        assert sorted(store.list("documents")) == sorted(filter(None, published))


# -- Airflow's scheduler starts a run ------------------------------------------------------------


def test_a_scheduled_run_takes_every_document_to_its_end_once(scheduled):
    assert scheduled.tasks == {"drain_intake_books": "success", "drain_index": "success"}
    assert scheduled.happy == Counter(name for name in (*FILES, *EARLIER) if not name.startswith("bad"))
    assert scheduled.dead == Counter(["bad-0", "bad-1"])


def test_the_last_task_reports_what_the_run_did(books, scheduled):
    report = books.airflow.returned(DAG, scheduled.run_id, "report")

    assert {each["topic"]: each["documents_in"] for each in report["topics"]} == {
        INTAKE: len(FILES + EARLIER),
        INDEX: len(FILES + EARLIER),
    }
    assert report["dead_letters"] == scheduled.dead.total()
    assert "2 dead letters" in books.airflow.log(DAG, scheduled.run_id, "report")


def test_the_run_works_on_the_spark_cluster(books, scheduled):
    said = books.airflow.log(DAG, scheduled.run_id, "drain_intake_books")

    assert "this drain runs on the Spark Connect server" in said
    assert "Spark-Submit cmd" not in said
    assert books.settings.spark_master.startswith("spark://")


def test_the_run_holds_the_lease_in_consul_while_it_works_and_gives_it_back(books, scheduled):
    task = f"{DAG}/{scheduled.run_id}/drain_intake_books"

    assert scheduled.session, "Consul has no lock on the lease's key"
    assert scheduled.lease.holder.startswith(f"{task}@")
    entered = {(entry.holder, entry.token) for entry in scheduled.entries if entry.run_id == task}
    assert entered == {(scheduled.lease.holder, scheduled.lease.token)}
    assert books.consul_session(books.lease_name(backfill=False)) is None


def test_what_goes_from_node_to_node_is_stored_on_s3(books, scheduled):
    sent = sorted(key_of(found.stream) for found in books.pipeline.read(INDEX))

    with open_store(books.settings.store_uri, books.settings) as store:
        stored = [key for key in store.list("streams") if key.endswith("/read.pb")]
    assert sent == sorted(stored)


def test_the_ledger_on_s3_has_every_record_once(books, scheduled):
    assert books.ledger.root == LEDGER
    counted = {
        topic: sum(entry.tally.records for entry in scheduled.entries if entry.range.topic == topic)
        for topic in (INTAKE, INDEX)
    }
    assert counted == {INTAKE: len(FILES + EARLIER), INDEX: len(FILES + EARLIER)}
    assert books.ledger_faults() == []


# -- a backfill is created through Airflow's API -------------------------------------------------


def test_a_backfill_drains_the_documents_of_its_interval_again_and_no_others(books, scheduled, backfilled):
    taken_in = [entry for entry in backfilled.entries if entry.lane == books.backfill_lane]

    assert backfilled.tasks == {"drain_intake_books": "success", "drain_index": "success"}
    assert sum(entry.tally.records for entry in taken_in) == len(EARLIER)
    assert backfilled.happy - scheduled.happy == Counter(name for name in EARLIER if not name.startswith("bad"))
    assert backfilled.dead - scheduled.dead == Counter(["bad-1"])


def test_a_backfill_moves_no_live_head(scheduled, backfilled):
    assert backfilled.heads == scheduled.heads
    assert backfilled.group_offsets == scheduled.group_offsets


def test_a_backfill_has_a_lease_of_its_own(backfilled):
    assert backfilled.session, "Consul has no lock on the lease's key"
    assert backfilled.lease.holder.startswith(f"{DAG}/{backfilled.run_id}/drain_intake_books/1@")
    assert backfilled.live_lease is None


def test_the_live_ledger_joins_without_gap_or_overlap_after_a_backfill(books, backfilled):
    assert books.ledger_faults() == []


def test_a_backfill_that_is_asked_for_again_does_nothing_and_says_so(books, backfilled):
    books.airflow.wait_for_backfill(books.post_backfill())

    assert books.airflow.drains(DAG, backfilled.run_id) == {"drain_intake_books": "skipped", "drain_index": "skipped"}
    assert f"of {INTAKE} is finished" in books.airflow.log(DAG, backfilled.run_id, "check")
    assert books.entries() == backfilled.entries
    assert books.ended() == (backfilled.happy, backfilled.dead)


# -- a person approves a replay ------------------------------------------------------------------


def test_a_replay_that_a_person_approves_is_run_to_its_end_by_the_scheduler(books, backfilled):
    books.airflow.unpause(APPROVAL_DAG)
    waiting = books.pipeline.read(INDEX)
    run_id = books.airflow.start(APPROVAL_DAG, action="replay", limit=1, reason="the module is repaired")

    asked = books.airflow.answer(APPROVAL_DAG, run_id, "approve", "Approve")
    books.airflow.wait_for_run(APPROVAL_DAG, run_id)

    assert asked["subject"] == "Replay 1 dead letter of books?"
    assert "the module is repaired" in asked["body"]
    report = books.airflow.returned(APPROVAL_DAG, run_id, "report")
    assert (report["answer"], report["answered_by"]) == ("Approve", "admin")
    assert (report["done"]["decided"], report["done"]["sent"]) == ({"replayed": 1}, {INDEX: 1})
    assert len(books.pipeline.read(INDEX)) == len(waiting) + 1


# -- Airflow tidies the ledger -------------------------------------------------------------------


def test_the_upkeep_dag_joins_the_files_of_the_ledger_and_changes_nothing_in_it(books, backfilled):
    books.airflow.unpause(UPKEEP_DAG)
    run_id = books.airflow.scheduled_run(UPKEEP_DAG)
    books.airflow.wait_for_run(UPKEEP_DAG, run_id)

    done = {table["table"]: table for table in books.airflow.returned(UPKEEP_DAG, run_id, "tidy_ledger")}
    assert done["entries"]["files_joined"] > done["entries"]["files_made"] == 1
    assert sorted(books.entries(), key=repr) == sorted(backfilled.entries, key=repr)
    assert books.ledger.heads("books", INTAKE, [0, 1]) == backfilled.heads


# -- a live DAG keeps a server up ----------------------------------------------------------------


@pytest.fixture(scope="module")
def handed_over(books, live) -> Client:
    """A client that asked the server all the time, while one run handed it over to the next."""
    books.airflow.unpause(LIVE_DAG)
    live.wait_for_server()
    with Client(live) as client:
        wait_for(lambda: any(links_of_run(books, 1).values()), "no second run has begun")
        # The next ones get old in no test: one that is paused between two runs would find nothing to stop.
        live.set_age(3_600)
        wait_for(lambda: list(runs_of(books.airflow, LIVE_DAG).values())[:2] == ["success", "success"], "no hand-over")
    return client


def links_of_run(books: Books, number: int) -> dict[str, str | None]:
    """Return the links of a run's live task. It has read its DAG file when it sets them."""
    found = list(runs_of(books.airflow, LIVE_DAG))[number : number + 1]
    return books.airflow.links(LIVE_DAG, found[0], LIVE_TASK) if found else {}


def test_a_run_hands_its_server_over_to_the_next_without_a_gap_in_its_answers(handed_over, live):
    assert handed_over.count > 0
    assert handed_over.failures == []
    assert handed_over.answers == {live.pid()}, "the server was started again"


def test_the_log_of_a_live_task_tells_of_health_and_throughput_and_its_links_lead_to_the_server(
    books, live, handed_over
):
    first, second, *_ = runs_of(books.airflow, LIVE_DAG)

    said = books.airflow.log(LIVE_DAG, first, LIVE_TASK)
    assert "tiny: healthy" in said
    assert "streams processed" in said
    assert "tiny server: ready on" in said, "what the server said"
    assert "adopted tiny" in books.airflow.log(LIVE_DAG, second, LIVE_TASK)
    links = books.airflow.links(LIVE_DAG, first, LIVE_TASK)
    assert links == {
        "Health": f"http://127.0.0.1:{live.port}/health",
        "Metrics": f"http://127.0.0.1:{live.port}/metrics",
    }


def test_a_server_that_is_killed_is_started_again(live, handed_over):
    first = live.wait_for_server()

    psutil.Process(first).kill()

    assert live.wait_for_server(other_than=first)
    assert f"ends {first}" not in live.notes()


@pytest.mark.slow
def test_clearing_the_task_stops_the_server_and_the_next_try_starts_another(books, live, handed_over):
    pid = live.wait_for_server()
    run_id = running_live(books)

    books.airflow.clear(LIVE_DAG, run_id, LIVE_TASK)

    live.wait_for_end(pid)
    assert live.wait_for_server(other_than=pid)


@pytest.mark.slow
def test_marking_the_task_failed_stops_the_server(books, live, handed_over):
    pid = live.wait_for_server()
    run_id = running_live(books)

    books.airflow.mark(LIVE_DAG, run_id, LIVE_TASK, "failed")

    live.wait_for_end(pid)


def test_pausing_the_dag_stops_the_server_and_leaves_no_process(books, live, handed_over):
    pid = live.wait_for_server()
    running_live(books)

    books.airflow.pause(LIVE_DAG)

    live.wait_for_end(pid)
    wait_for(lambda: live.processes(books.settings.live_folder) == [], "the guard is still there")
    wait_for(lambda: "running" not in runs_of(books.airflow, LIVE_DAG).values(), "the run has not ended")
    last = list(runs_of(books.airflow, LIVE_DAG))[-1]
    assert books.airflow.returned(LIVE_DAG, last, LIVE_TASK)["ended_by"] == "pause"


# -- a live DAG runs the product's own servers ---------------------------------------------------


def test_a_live_dag_runs_engine_repository_and_sidecar_until_it_is_paused(books):
    letters = Letters(books)
    letters.start()

    letters.hand_over("by-grpc")
    letters.upload("by-http")

    wait_for(lambda: letters.ended() == Counter(["by-grpc", "by-http"]), "a document has not reached its end")
    run_id = letters.pause()
    assert letters.processes() == []
    assert {task: letters.ended_by(run_id, task) for task in SERVERS} == dict.fromkeys(SERVERS, "pause")
    assert letters.ledger_faults() == []
    assert letters.ended() == Counter(["by-grpc", "by-http"])


# -- documents arrive, and a run starts by itself ------------------------------------------------


@pytest.fixture(scope="module")
def parcels(books) -> Parcels:
    started = Parcels(books)
    started.start()
    return started


@pytest.fixture(scope="module")
def arrived(parcels) -> str:
    """The run that three documents of an earlier hour have started."""
    parcels.send("p-0", "p-1", "p-2", hours_ago=1.5)
    return parcels.wait_for_run(1)


def test_documents_that_arrive_start_one_run_which_takes_them_to_their_end(parcels, arrived):
    assert parcels.ended() == Counter(["p-0", "p-1", "p-2"])
    assert (len(parcels.runs()), parcels.rings()) == (1, 1)


def test_a_dag_behind_the_graph_runs_once_for_each_complete_hour(parcels, arrived):
    told = parcels.told_hours(arrived)
    begin = parcels.hour - timedelta(hours=2)

    assert told[:2] == [f"{begin + timedelta(hours=number):%Y-%m-%dT%H:%M:%S}" for number in (0, 1)]
    wait_for(lambda: set(parcels.hourly_runs()) >= set(told), "an hour has no run")
    assert Counter(parcels.hourly_runs()) == Counter(told)


def test_no_run_starts_before_enough_waits_and_then_exactly_one(parcels, arrived):
    parcels.send("p-3", "p-4")
    parcels.send("p-5")

    again = parcels.wait_for_run(2)

    assert parcels.ended() == Counter(f"p-{number}" for number in range(6))
    assert (len(parcels.runs()), parcels.rings()) == (2, 2)
    assert not set(parcels.told_hours(again)) & set(parcels.told_hours(arrived)), "an hour was told twice"


@pytest.mark.slow
def test_documents_whose_event_was_lost_start_a_run_later(parcels, arrived):
    before, rings = len(parcels.runs()), parcels.rings()
    parcels.pause()  # Airflow drops the events of a paused DAG
    parcels.send("q-0", "q-1", "q-2")
    wait_for(lambda: parcels.rings() > rings, "nobody noticed the documents")

    parcels.unpause()

    parcels.wait_for_run(before + 1)
    assert {doc_id: count for doc_id, count in parcels.ended().items() if doc_id.startswith("q")} == {
        "q-0": 1,
        "q-1": 1,
        "q-2": 1,
    }


def running_live(books: Books) -> str:
    """Return the run of the live DAG whose task is at work."""

    def find() -> str:
        (last,) = list(runs_of(books.airflow, LIVE_DAG))[-1:]
        return last if books.airflow.tasks(LIVE_DAG, last).get(LIVE_TASK) == "running" else ""

    return str(wait_for(find, "no live task is at work"))


# -- a task is killed (long: Airflow waits before it retries) ------------------------------------


@pytest.mark.slow
def test_a_task_that_is_killed_gives_its_lease_back_and_its_retry_finishes_the_work(books, backfilled):
    books.gate.close()
    books.pipeline.send(INTAKE, ["late-0"])
    run_id = books.airflow.start(DAG)
    books.gate.wait_for_arrival()

    books.task_process(run_id, "drain_intake_books").kill()

    wait_for(
        lambda: books.consul_session(books.lease_name(backfill=False)) is None, "the killed task's job keeps its lease"
    )
    books.gate.open()
    books.airflow.wait_for_run(DAG, run_id)
    assert books.airflow.task(DAG, run_id, "drain_intake_books")["try_number"] == 2
    assert books.pipeline.doc_ids(HAPPY_END)["late-0"] == 1
    assert books.ledger_faults() == []
