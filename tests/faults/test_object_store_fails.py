"""The object store refuses, keeps silent or loses its answers for a while; the ledger's store as well."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest

from pipestream_testing.faulty import FaultyProxy, Trouble
from pipestream_testing.length import by_length
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


@pytest.fixture
def proxy(stack):
    """Stands between the drain and the S3 server."""
    server = urlsplit(stack.settings().s3_endpoint)
    with FaultyProxy(server.hostname, server.port) as running:
        yield running


@pytest.fixture
def far(proxy):
    """Return a pipeline as a drain sees it that reaches S3 through the proxy.

    Only a process of its own may use it: the Delta client waits for S3 without letting the proxy's threads run.
    """

    def far(pipeline, **changes):
        through = {"s3_endpoint": proxy.url, **changes}
        return Pipeline(pipeline.settings.model_copy(update=through), pipeline.graph_file)

    return far


@pytest.mark.parametrize(
    ("part", "times"),
    # Documents are stored side by side; the crash marker of a chunk by itself, so that it meets all the trouble.
    [pytest.param("/streams/", 40, id="documents"), pytest.param("/drains/", 10, id="crash markers")],
)
def test_a_store_that_is_busy_for_a_while_is_asked_again(
    pipeline, far, proxy, documents, fill, check, start_drain, part, times
):
    fill(pipeline, documents)
    proxy.make(Trouble.BUSY, times=times, method="PUT", part=part)
    busy_since = time.monotonic()

    drain = start_drain(far(pipeline), "run-1")

    assert drain.wait() == 0, drain.log
    assert proxy.made == times
    check("S3 answers 503 for a while", pipeline, documents, busy_since)


def test_a_store_that_stays_busy_fails_the_run_and_the_next_one_completes(
    pipeline, far, proxy, documents, fill, check, start_drain, drain_when_free
):
    fill(pipeline, documents)
    proxy.make(Trouble.BUSY, times=1_000_000)

    drain = start_drain(far(pipeline), "run-1")

    assert drain.wait() == 1, drain.log
    assert "SlowDown" in drain.log
    failed_at = time.monotonic()
    drain_when_free(pipeline, "run-2")
    check("S3 answers 503 for longer than a run waits", pipeline, documents, failed_at)


@pytest.mark.parametrize(
    ("trouble", "times", "row"),
    [
        pytest.param(Trouble.SILENCE, 3, "S3 times out for a while", id="silence", marks=pytest.mark.slow),
        pytest.param(Trouble.LOST_ANSWER, 15, "S3 accepts a PUT and the answer is lost", id="lost answer"),
    ],
)
def test_a_store_whose_answers_do_not_come_is_asked_again(
    pipeline, far, proxy, documents, fill, check, start_drain, drain_when_free, trouble, times, row
):
    fill(pipeline, documents)
    proxy.make(trouble, times=times, method="PUT")
    since = time.monotonic()

    # Silence is as long as the client waits, so let it be short.
    drain = start_drain(far(pipeline, s3_timeout_s=5.0), "run-1")

    assert drain.wait() in (0, 1), drain.log
    assert proxy.made == times
    drain_when_free(pipeline, "run-2")
    check(row, pipeline, documents, since)


@pytest.mark.parametrize(
    ("trouble", "times", "row"),
    [
        pytest.param(Trouble.BUSY, 40, "S3 answers 503 to reads for a while", id="busy"),
        pytest.param(Trouble.SILENCE, 3, "S3 times out on reads for a while", id="silence", marks=pytest.mark.slow),
    ],
)
def test_a_store_that_does_not_give_documents_for_a_while_is_asked_again(
    pipeline, far, proxy, unique, topic, documents, fill, check, start_drain, trouble, times, row
):
    # Documents come in inline; between nodes they are references to objects.
    second = f"pipestream.{unique}.second"
    fill(pipeline, documents)
    pipeline.drain(topic, "run-1")
    proxy.make(trouble, times=times, method="GET", part="/streams/")
    since = time.monotonic()

    drain = start_drain(far(pipeline, s3_timeout_s=5.0), "run-2", of=second)

    assert drain.wait() == 0, drain.log
    assert proxy.made == times
    check(row, pipeline, documents, since, drained=[topic, second])
    # Not even as dead letters: a store that is away is no fault of a document.
    assert pipeline.doc_ids(f"pipestream.{unique}.happy-end") == dict.fromkeys(documents, 1)


@pytest.mark.parametrize("table", ["plans", "entries"])
@pytest.mark.parametrize("trouble", by_length([Trouble.LOST_ANSWER], [Trouble.LOST_ANSWER, Trouble.BUSY]))
def test_a_ledger_commit_that_met_trouble_is_made_once(
    make_pipeline, far, proxy, unique, documents, fill, check, start_drain, trouble, table
):
    pipeline = make_pipeline(ledger_uri=f"s3://pipestream/{unique}/ledger")
    pipeline.ledger.table_uris()  # makes the tables, so that the commit below is a plan or an entry
    fill(pipeline, documents)
    proxy.make(trouble, times=1, method="PUT", part=f"/{table}/_delta_log/")
    since = time.monotonic()

    drain = start_drain(far(pipeline), "run-1")

    # Not a conflict: who committed was this very run.
    assert drain.wait() == 0, drain.log
    assert proxy.made == 1
    check(f"ledger on S3: {trouble.value}", pipeline, documents, since)
