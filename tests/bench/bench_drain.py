"""Measure the drain against a loop that commits each record, Quix Streams, and the object store alone, in one run.

Every document is hydrated, decided over five conditions, saved and published. All contenders drain the same records of
one topic with one partition, each in a process of its own; they take turns. Outputs are counted and their order is
checked before a time is reported. Targets: 10 times the loop, 80 % of get and put alone.

``BENCH_DOCUMENTS`` and ``BENCH_ROUNDS`` change the length. ``BENCH_BEFORE`` names a checkout of an earlier version,
which then takes part as ``before``.
"""

from __future__ import annotations

import os

import pytest

from pipestream.documents.fetch import fetch_documents
from pipestream.documents.references import place_of
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc
from pipestream_testing.bench import sized
from pipestream_testing.courses import FIVE_CONDITIONS, Course, make_pipeline, make_topic

pytestmark = [pytest.mark.slow, pytest.mark.stack]

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", sized("4000", "1000")))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", sized("3", "2")))
BEFORE = os.environ.get("BENCH_BEFORE", "")
SIZES = {"1 KB": 1_000, "10 KB": 10_000}
CASES = sized(
    [("S3", "1 KB"), ("S3", "10 KB"), ("folder", "1 KB"), ("folder", "10 KB")],
    [("S3", "1 KB"), ("S3", "10 KB"), ("folder", "1 KB")],
)
# On S3 these wait for each document, and are so much slower that fewer documents tell as much.
FEW = DOCUMENTS // 15
WARM_UP = 20

GRAPH = f"""
graph: NAME
cluster: NAME
datasources: [{{id: NAME, account: acme, entry: start, partitions: 1}}]
nodes:
  - {{id: start, type: connector}}{FIVE_CONDITIONS}"""

OURS, OBJECTS, LOOP, QUIX = "pipestream", "objects alone", "loop, a commit each", "Quix Streams, exactly once"


class Contest:
    """The contenders, each with its share of the documents, and what tells whether it did its work."""

    def __init__(self, course: Course, contenders) -> None:
        self.course = course
        settings, name = course.settings, course.name
        self.outputs = {OURS: f"pipestream.{name}.one", "before": f"pipestream.{name}.one"}
        self.outputs |= {kind: make_topic(settings, f"{name}.{kind[:4]}") for kind in (LOOP, QUIX)}
        self.programs = {
            OURS: contenders.product("drain"),
            OBJECTS: contenders.product("objects"),
            LOOP: contenders.product("loop"),
            QUIX: contenders.rival("quix_hydrate.py"),
        }
        if BEFORE:
            self.programs["before"] = contenders.product("drain", before=BEFORE)

    def run(self, name: str, numbers: range) -> dict:
        """Let a contender process some documents; check what came out, and return its times."""
        course, count = self.course, len(numbers)
        if name == QUIX:
            numbers = range(count)  # it begins at the start of a topic
        label = name.split(",")[0].replace(" ", "-").lower()
        job = course.job(label, numbers.start, numbers.stop, is_plain=name == "before")
        found = self.programs[name].run({**job, "topic": self.outputs.get(name), **self._for_quix(name, count)})
        if name in self.outputs:
            course.check_last(self.outputs[name], numbers)
        if name != OURS:
            with open_store(course.settings.store_uri, course.settings) as store:
                assert name == "before" or sum(1 for _ in store.list(job["prefix"])) >= count
        return found

    def _for_quix(self, name: str, count: int) -> dict:
        if name != QUIX:
            return {}
        settings, course = self.course.settings, self.course
        store = {"store_uri": settings.store_uri}
        if settings.store_uri.startswith("s3:"):
            store |= {
                "endpoint": settings.s3_endpoint,
                "access_key": settings.s3_access_key.get_secret_value(),
                "secret_key": settings.s3_secret_key.get_secret_value(),
                "region": settings.s3_region,
            }
        state = course.folder / f"quix-{os.urandom(4).hex()}"
        place = {"broker": settings.kafka_bootstrap, "source": course.topic, "state": str(state), "count": count}
        return {**place, "store": store}

    def check_documents(self) -> None:
        """Read the documents that our outputs refer to."""
        course = self.course
        found = course.pipeline.read(self.outputs[OURS])[-DOCUMENTS:]
        with open_store(course.settings.store_uri, course.settings) as store:
            documents = fetch_documents(store, [place_of(each.stream) for each in found])
        assert [PipeDoc.FromString(each).doc_id for each in documents] == [each.doc_id for each in found]


@pytest.mark.parametrize(("place", "size"), CASES)
def test_hydrate_decide_save_and_publish(settings, unique, tmp_path, scenario, contenders, place, size):
    if place == "folder":
        settings = settings.model_copy(update={"store_uri": (tmp_path / "objects").as_uri()})
    pipeline = make_pipeline(settings, tmp_path, unique, GRAPH)
    course = Course(pipeline, f"intake.{unique}", "start", unique, SIZES[size])
    # Each round has its own documents: a drain that repeats a range finds its objects stored, and writes none.
    course.fill(WARM_UP + (2 if BEFORE else 1) * ROUNDS * DOCUMENTS)
    contest = Contest(course, contenders)
    counts = {name: FEW if name == LOOP or (name, place) == (QUIX, "S3") else DOCUMENTS for name in contest.programs}
    # Quix joins its group before it begins, which takes seconds.
    rounds = {name: max(1, ROUNDS // 2) if name == QUIX else ROUNDS for name in counts}
    for name in counts:
        if name != QUIX:  # its time begins with its first record
            contest.run(name, range(WARM_UP))
    taken = {name: [] for name in counts}
    for number in range(ROUNDS):
        for name in counts if number % 2 == 0 else reversed(counts):
            if number < rounds[name]:
                start = WARM_UP + (number + (ROUNDS if name == "before" else 0)) * DOCUMENTS
                taken[name].append(contest.run(name, range(start, start + counts[name])))
    contest.check_documents()
    made = scenario(
        f"drain-{place}-{size}".replace(" ", "").lower(),
        f"Hydrate, five conditions, save, publish: documents of {size} on {place}",
    )
    for name, found in taken.items():
        made.add(name, "documents/s", *(counts[name] / each["wall_s"] for each in found), is_rival=name != OURS)
    for name, found in taken.items():
        costs = [1e6 * each["cpu_s"] / counts[name] for each in found]
        made.add(name, "µs of CPU a document", *costs, is_rival=name != OURS)
    made.want_ratio("times the loop", OURS, LOOP, at_least=10)
    made.want_ratio("of objects alone", OURS, OBJECTS, at_least=0.8)
    made.want_ratio("times Quix Streams", OURS, QUIX, at_least=1)
