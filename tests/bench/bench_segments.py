"""Measure a drain whose documents are in segments, against one object each and against the object store alone.

Every document is hydrated, decided over five conditions, saved and published, exactly once. The documents of a
contender come from another node, stored as the contender stores them. Each runs in a process of its own, over one
partition. What came out is read back before a rate is reported. Target: 5 times get and put alone.
"""

from __future__ import annotations

import pytest

from pipestream.documents.fetch import fetch_documents
from pipestream.documents.references import place_of
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc
from pipestream_testing.bench import sized
from pipestream_testing.courses import FIVE_CONDITIONS, Course, make_pipeline

pytestmark = [pytest.mark.slow, pytest.mark.stack]

ROUNDS = sized(3, 2)
SIZES = {"1 KB": 1_000, "10 KB": 10_000}
# Opening a producer and a consumer takes most of a second, so a fast contender needs more documents for its rate.
COUNTS = {"objects": sized(4_000, 1_000), "segments": sized(20_000, 6_000)}
WARM_UP = 20

GRAPH = f"""
graph: NAME
cluster: NAME
nodes:
  - {{id: feed, type: connector}}
  - {{id: start, type: connector, partitions: 1, storage: STORAGE}}{FIVE_CONDITIONS}
  - {{from: feed, to: start}}
"""

SEGMENTS, OBJECTS, ALONE = "segments", "one object each", "get and put alone"


def make_course(settings, unique, folder, size_bytes, storage):
    pipeline = make_pipeline(settings, folder, f"{unique}{storage}", GRAPH.replace("STORAGE", storage))
    course = Course(pipeline, f"pipestream.{unique}{storage}.start", "start", size_bytes=size_bytes)
    # Each round has its own documents: a drain that repeats a range finds its objects stored, and writes none.
    course.fill(WARM_UP + ROUNDS * COUNTS[storage], storage=storage)
    return course


def check(course, storage):
    """Read each output's document, and compare order and number."""
    count = COUNTS[storage]
    found = course.pipeline.read(f"pipestream.{course.name}.one")[-count:]
    places = [place_of(each.stream) for each in found]
    with open_store(course.settings.store_uri, course.settings) as store:
        documents = fetch_documents(store, places)
    assert [PipeDoc.FromString(each).doc_id for each in documents] == [each.doc_id for each in found]
    assert {place.is_in_segment for place in places} == {storage == "segments"}


@pytest.mark.parametrize("place", sized(["s3", "folder"], ["s3"]))
@pytest.mark.parametrize("size", SIZES)
def test_documents_in_segments_and_one_object_each(settings, unique, tmp_path, scenario, contenders, place, size):
    if place == "folder":
        settings = settings.model_copy(update={"store_uri": (tmp_path / "store").as_uri()})
    courses = {
        storage: make_course(settings, unique, tmp_path, SIZES[size], storage) for storage in ("objects", "segments")
    }
    kinds = {SEGMENTS: ("drain", "segments"), ALONE: ("objects", "objects")}
    kinds |= sized({OBJECTS: ("drain", "objects")}, {})
    taken = {name: [] for name in kinds}
    for number in range(ROUNDS + 1):
        for name, (kind, storage) in kinds.items():
            count, course = COUNTS[storage] if number else WARM_UP, courses[storage]
            start = WARM_UP + (number - 1) * count if number else 0
            found = contenders.product(kind).run(course.job(kind, start, start + count))
            if kind == "drain":
                course.check_last(f"pipestream.{course.name}.one", range(start, start + count))
            if number:  # the first round warms up
                taken[name].append({key: value / count for key, value in found.items()})
    for storage in {storage for kind, storage in kinds.values() if kind == "drain"}:
        check(courses[storage], storage)
    made = scenario(
        f"segments-{place}-{SIZES[size]}", f"Hydrate, decide, save and publish: {size} documents in segments, {place}"
    )
    for name, found in taken.items():
        made.add(name, "documents/s", *(1 / each["wall_s"] for each in found), is_rival=name != SEGMENTS)
    for name, found in taken.items():
        made.add(name, "requests a document", *(each["requests"] for each in found), is_rival=name != SEGMENTS)
    for name, found in taken.items():
        made.add(name, "µs of CPU a document", *(1e6 * each["cpu_s"] for each in found), is_rival=name != SEGMENTS)
    made.want_ratio("times get and put alone", SEGMENTS, ALONE, at_least=5)
    made.want_of("requests a document", SEGMENTS, "requests a document", at_most=0.05)
