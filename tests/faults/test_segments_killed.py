"""Kill and overtake drains that write segments: only a committed reference says which segment counts."""

from __future__ import annotations

import signal
import time

import pytest

from pipestream import faults
from pipestream.documents.fetch import fetch_document
from pipestream.documents.references import place_of
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc
from pipestream_testing.length import by_length

pytestmark = pytest.mark.stack

# A chunk of ten documents is more than the four that a segment needs.
STEPS = [
    (point, nth)
    for point in by_length((faults.SEGMENTS_BUILT, faults.CHUNK_STORED), faults.SEGMENT_POINTS)
    for nth in by_length((2,), range(1, 7))
]


@pytest.fixture
def documents():
    """Twelve chunks a partition. The next try drains chunk by chunk what the killed one may have worked on."""
    return [f"{partition}-{number}" for partition in range(2) for number in range(120)]


@pytest.fixture
def pipeline(make_pipeline):
    return make_pipeline(("  - id: first\n", "  - id: first\n    storage: segments\n"))


@pytest.fixture
def check_segments(pipeline, documents, check, unique):
    """Judge a round, and read each document where its record says it is."""

    def check_segments(fault, since):
        check(fault, pipeline, documents, since)
        found = pipeline.read(f"pipestream.{unique}.second")
        with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
            places = [place_of(each.stream) for each in found]
            read = [PipeDoc.FromString(fetch_document(store, place)).doc_id for place in places]
            named, stored = {place.key for place in places}, set(store.list("segments"))
        assert read == [each.doc_id for each in found]
        assert any(place.is_in_segment for place in places)
        return {key for key in named if key.startswith("segments/")}, stored

    return check_segments


@pytest.mark.parametrize(("point", "nth"), STEPS)
def test_a_drain_killed_around_its_segments_loses_and_repeats_nothing(
    pipeline, documents, fill, start_drain, drain_after_death, check_segments, point, nth
):
    fill(pipeline, documents)
    killed = start_drain(pipeline, "run-1", f"{point}=kill@{nth}")
    assert killed.wait() == -signal.SIGKILL, killed.log
    died_at = time.monotonic()
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        left = set(store.list("segments"))

    drain_after_death(pipeline, "run-2")

    named, stored = check_segments(f"SIGKILL at {point}, with segments", died_at)
    assert named <= stored
    if point == faults.CHUNK_STORED:
        assert left - named, "the killed run left a segment that no record refers to"


@pytest.mark.parametrize("point", by_length((faults.SEGMENTS_BUILT,), faults.SEGMENT_POINTS[:3]))
def test_a_late_put_of_an_overtaken_drain_changes_no_document(
    pipeline, documents, fill, start_drain, drain_after_death, check_segments, point
):
    fill(pipeline, documents)
    stale = start_drain(pipeline, "stale", f"{point}=stop", lease_ttl_s=60.0)
    stale.wait_until_stopped()
    stopped_at = time.monotonic()
    drain_after_death(pipeline, "new")
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        before = {key: store.get(key) for key in store.list("segments")}

    stale.send_signal(signal.SIGCONT)
    assert stale.wait() != 0, stale.log

    named, stored = check_segments(f"SIGSTOP at {point}, overtaken, with segments", stopped_at)
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        assert {key: store.get(key) for key in before} == before
    if point == faults.SEGMENTS_BUILT:
        assert stored - set(before), "the overtaken run wrote its segment late"
    assert named <= set(before)


def test_a_drain_that_fails_while_it_builds_segments_builds_others_the_next_time(
    pipeline, documents, fill, start_drain, drain_when_free, check_segments
):
    fill(pipeline, documents)
    failing = start_drain(pipeline, "run-1", f"{faults.SEGMENTS_BUILT}=fail@2", lease_ttl_s=60.0)
    failing.wait()
    failed_at = time.monotonic()

    drain_when_free(pipeline, "run-2")

    named, stored = check_segments("a transient error while segments are built", failed_at)
    assert named == stored, "no segment was stored that is not referred to"
