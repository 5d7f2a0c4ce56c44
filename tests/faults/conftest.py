"""Fixtures of the fault tests, and the table of what they found."""

from __future__ import annotations

import re
import time

import psycopg
import pytest
from psycopg import sql

from pipestream.local import Stack, load_spec
from pipestream_testing.drains import DrainProcess, Gate
from pipestream_testing.length import LONG
from pipestream_testing.oracle import judge
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import StreamThread
from pipestream_testing.waiting import wait_until

PARTITIONS = 2
RECORDS = 35
# A run that is to go through outlives any pause of the machine. The lease of one that meets a fault may be waited out,
# so it is as short as lets it get there: two renewals may come late.
LEASE_TTL_S = 120.0
FAULTY_LEASE_TTL_S = 10.0


@pytest.fixture
def make_pipeline(settings, unique, tmp_path, request):
    """Make a pipeline whose ranges take several transactions.

    Changes are texts of the graph and what replaces them.
    """
    template = request.config.rootpath / "tests" / "data" / "exactly_once.yaml"

    def make(*changes, **setting_changes):
        text = template.read_text().replace("UNIQUE", unique)
        for old, new in changes:
            assert old in text, f"the graph has no {old!r}"
            text = text.replace(old, new)
        file = tmp_path / f"{unique}.yaml"
        file.write_text(text)
        quick = {"chunk_records": 10, "lease_ttl_s": LEASE_TTL_S, **setting_changes}
        made = Pipeline(settings.model_copy(update=quick), file)
        made.create_topics()
        return made

    return make


@pytest.fixture
def pipeline(make_pipeline):
    return make_pipeline()


@pytest.fixture
def topic(unique):
    """The topic that documents come in by."""
    return f"intake.{unique}"


@pytest.fixture
def documents():
    """Ids of documents, each its partition and sequence."""
    return [f"{partition}-{number}" for partition in range(PARTITIONS) for number in range(RECORDS)]


@pytest.fixture
def fill(topic):
    """Send documents to the partitions their ids name."""

    def send(pipeline, documents):
        for partition in range(PARTITIONS):
            pipeline.send(topic, [d for d in documents if d.startswith(f"{partition}-")], partition=partition)

    return send


@pytest.fixture
def check(rounds, topic):
    """Judge a round: every document exactly once, and the ledger tiles."""

    def check(fault, pipeline, documents, since=None, drained=(topic,)):
        seconds = None if since is None else time.monotonic() - since
        rounds.add(fault, judge(pipeline, documents, drained), seconds)

    return check


@pytest.fixture
def gate(tmp_path):
    """Holds a drain at a point while the test breaks something."""
    return Gate(tmp_path / "gate")


@pytest.fixture
def start_drain(topic):
    """Start a drain in a process of its own, with a fault if asked for, whose lease then expires quickly.

    One that is to go through in spite of its fault needs another ``lease_ttl_s``.
    """
    started = []

    def start(pipeline, run_id, fault="", of=topic, lease_ttl_s=FAULTY_LEASE_TTL_S):
        if fault:
            expiring = pipeline.settings.model_copy(update={"lease_ttl_s": lease_ttl_s})
            pipeline = Pipeline(expiring, pipeline.graph_file)
        process = DrainProcess(pipeline, of, run_id, fault)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def drain_when_free(topic):
    """Drain as soon as the lease of a run that died has expired."""

    def drain(pipeline, run_id, deadline_s=180, budget=1_000_000):
        deadline = time.monotonic() + deadline_s
        while True:
            report = pipeline.drain(topic, run_id, budget=budget)
            if report.status != "skipped":
                return report
            assert time.monotonic() < deadline, report.reason
            time.sleep(0.2)

    return drain


def end_leases(pipeline):
    """Let all leases run out now. That they do so by themselves, the first test of a stopped run shows."""
    with psycopg.connect(pipeline.settings.postgres_dsn.get_secret_value(), autocommit=True) as connection:
        connection.execute("UPDATE leases SET lease_until = clock_timestamp()")


@pytest.fixture(name="end_leases")
def end_leases_fixture():
    return end_leases


@pytest.fixture
def drain_after_death(drain_when_free):
    """Drain after a run that was killed, as if its lease ran out at once."""

    def drain(pipeline, run_id):
        end_leases(pipeline)
        return drain_when_free(pipeline, run_id)

    return drain


@pytest.fixture
def spark_master(request):
    """In the long version a cluster; else a Spark inside the job, which starts sooner and tries as often."""
    return request.getfixturevalue("spark_cluster") if LONG else "local[2,4]"


@pytest.fixture(scope="session")
def breakable_stack(tmp_path_factory, consul):
    """Kafka, PostgreSQL and Consul of the fault tests' own, to be killed and started again."""
    folder = tmp_path_factory.mktemp("breakable")
    # PostgreSQL runs as another user, who must get there; pytest's folders are for the owner only.
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == folder.stat().st_uid and "pytest" in parent.name:
            parent.chmod(0o755)
    spec = load_spec(profile="full", folder=folder, free_ports=True, durable=False)
    with Stack(spec).running(names=("kafka", "postgres", "consul")) as stack:
        yield stack


@pytest.fixture
def breakable_settings(breakable_stack, unique, tmp_path):
    """Settings for that stack, with places of this test's own."""
    main = breakable_stack.settings().postgres_dsn.get_secret_value()
    with psycopg.connect(main, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(unique)))
    return breakable_stack.settings(
        # How long a drain that met an outage waits before it gives up.
        kafka_timeout_s=15,
        store_uri=(tmp_path / "objects").as_uri(),
        ledger_uri=(tmp_path / "ledger").as_uri(),
        postgres_dsn=re.sub(r"/pipestream$", f"/{unique}", main),
        leases="sql",
    )


@pytest.fixture
def stream_to_the_end(pipeline, topic, documents):
    """Take over after a stream that died, as if its lease ran out at once, and drain all documents."""

    def stream():
        end_leases(pipeline)
        with StreamThread(pipeline, topic, run_id="stream-2") as stream:
            # Not by the group's offsets: the dead stream may have drained all, and this one must live to record it.
            wait_until(lambda: recorded() == len(documents), "not all were drained and recorded")
        assert stream.join().error is None

    def recorded():
        return sum(len(entry.range) for entry in pipeline.entries(topic))

    return stream
