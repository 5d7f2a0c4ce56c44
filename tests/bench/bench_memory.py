"""How much memory a task has at most: short and long ranges of small records, and few and many documents of 10 MB.

Each drain is a process of its own, and its peak is what the operating system says at its end. What bounds it is the
bytes in flight (``in_flight_bytes``), so a range that is many times as long must not need more. The quick form allows
fewer bytes in flight, so that shorter ranges tell the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pipestream.objects.store import open_store
from pipestream.wire import PipeStream
from pipestream_testing.bench import sized
from pipestream_testing.contenders import Contenders
from pipestream_testing.courses import INLINE, Course, doc_id, make_document, make_pipeline, read_keys, send_inline

pytestmark = [pytest.mark.stack, pytest.mark.slow]

MEGABYTE = 1_000_000
IN_FLIGHT_BYTES = sized(128, 16) * MEGABYTE
CHUNK_BYTES = sized(16, 4) * MEGABYTE
# All ranges hold more than may be in flight: below that, a range needs less memory the shorter it is, which tells
# nothing about long ones.
RECORDS = sized((200_000, 1_000_000), (18_000, 36_000))
LARGE_DOCUMENTS = sized((50, 1_000), (8, 24))
LARGE_BYTES = 10 * MEGABYTE

GRAPH = """
graph: NAME
cluster: NAME
datasources:
  - {id: NAME, account: acme, entry: first, partitions: 1PERSISTENCE}
nodes:
  - {id: first, type: connector}
  - {id: second, type: connector, partitions: 1}
edges:
  - {from: first, to: second}
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """A course whose drains are measured one by one."""

    course: Course
    contenders: Contenders
    doc_ids: Callable[[int], str]
    """The id of the document in a record of some number."""

    def peak_mb(self, start: int, end: int) -> float:
        """Drain a range in a process of its own, check what came out, and return the most memory that it had."""
        program = self.contenders.fresh("drain")
        try:
            peak = program.run(self.course.job("drain", start, end))["peak_bytes"]
        finally:
            program.stop()
        (found,) = read_keys(self.course.settings, f"pipestream.{self.course.name}.second").values()
        assert found == [self.doc_ids(number) for number in range(end)], "documents are lost, doubled or out of order"
        return peak / MEGABYTE


@pytest.fixture
def watch(settings, unique, tmp_path, contenders):
    def make(persistence: str, doc_ids: Callable[[int], str] = doc_id) -> Watched:
        # A folder: what the S3 server has cached would be another process's.
        own = {"store_uri": (tmp_path / "objects").as_uri()}
        own |= {"in_flight_bytes": IN_FLIGHT_BYTES, "chunk_bytes": CHUNK_BYTES}
        pipeline = make_pipeline(
            settings.model_copy(update=own), tmp_path, unique, GRAPH.replace("PERSISTENCE", persistence)
        )
        return Watched(Course(pipeline, f"intake.{unique}", "first", unique), contenders, doc_ids)

    yield make
    # Ten gigabytes in the full form, which pytest would keep for some runs.
    shutil.rmtree(tmp_path / "objects", ignore_errors=True)


def compare(made, watched: Watched, counts: tuple[int, int], what: str) -> None:
    few, many = counts
    made.add(f"{few:,} {what}", "MB", watched.peak_mb(0, few))
    made.add(f"{many:,} {what}", "MB", watched.peak_mb(few, few + many))
    made.want_ratio(
        f"times the memory for {many / few:.0f} times the {what}", f"{many:,} {what}", f"{few:,} {what}", at_most=1.5
    )
    made.note(f"bytes in flight: {IN_FLIGHT_BYTES / MEGABYTE:.0f} MB")


def test_memory_of_a_range_of_small_records(watch, unique, scenario):
    watched = watch(f", {INLINE}")
    send_inline(watched.course.settings, f"intake.{unique}", sum(RECORDS))
    made = scenario("memory-records", "Peak memory of a task, inline records of 1 KB")
    compare(made, watched, RECORDS, "records")


def test_memory_of_documents_of_ten_megabytes(watch, unique, scenario):
    document = make_document(0, LARGE_BYTES)
    watched = watch("", lambda _: document.doc_id)  # one document for all records: what counts is its size
    course = watched.course
    key = f"documents/acme/{unique}/large.pb"
    with open_store(course.settings.store_uri, course.settings) as store:
        store.put(key, document.SerializeToString())
    references = [PipeStream() for _ in range(sum(LARGE_DOCUMENTS))]
    for stream in references:
        stream.document_ref.doc_id, stream.document_ref.object_key = document.doc_id, key
    course.pipeline.send_streams(f"intake.{unique}", references)
    made = scenario("memory-large", "Peak memory of a task, documents of 10 MB")
    compare(made, watched, LARGE_DOCUMENTS, "documents")
