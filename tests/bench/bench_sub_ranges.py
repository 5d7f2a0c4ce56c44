"""A module with 5 ms of CPU per document, two cores: one partition in sub-ranges against two partitions.

Every contender has a topic of its own, and drains it in one warm Spark session with two task slots; they take turns.
In the full form the plan chooses sub-ranges itself, from the ledger entry of a first run that is not measured. Outputs
are counted, and their order and repetitions are checked, before a time is reported. Target: 90 % of the rate on two
partitions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from pipestream_testing.bench import sized
from pipestream_testing.courses import make_pipeline
from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.spark]

COUNT = sized(6_000, 1_600)
# Of the first run, from whose ledger entry the plan knows the cost of a document. The quick form has no time for it.
FIRST_COUNT = sized(1_600, 100)
SUB_RANGES = sized("auto", "always")
ROUNDS = sized(3, 1)

WARM_UP = 100
OURS, TWO, ONE = "1 partition, sub-ranges", "2 partitions", "1 partition, one task"

GRAPH = """
graph: NAME
cluster: NAME
datasources: [{id: NAME, account: acme, entry: first, partitions: PARTITIONS}]
nodes:
  - id: first
    module: python:pipestream_testing.modules:computing
    config: {cpu_s: 0.005}
  - {id: second, type: connector, partitions: 1}
edges:
  - {from: first, to: second}
"""


@dataclass(slots=True)
class Course:
    """A topic, and what was sent to each of its partitions so far."""

    pipeline: Pipeline
    name: str
    partitions: int
    sent: dict[int, list[str]] = field(default_factory=dict)

    def drain(self, count, runner):
        """Send documents, drain them, check what came out in all, and return the report and the seconds."""
        for partition in range(self.partitions):
            before = self.sent.setdefault(partition, [])
            numbers = range(len(before), len(before) + count // self.partitions)
            doc_ids = [f"{partition}-{number:06}" for number in numbers]
            self.pipeline.send(f"intake.{self.name}", doc_ids, partition=partition)
            before += doc_ids
        started = time.perf_counter()
        report = self.pipeline.run(f"intake.{self.name}", f"run-{len(self.sent[0])}", runner=runner)
        seconds = time.perf_counter() - started
        assert report.records == count
        self.check()
        return report, seconds

    def check(self):
        """Check that every document came out once, in the order of its partition."""
        found = {partition: [] for partition in self.sent}
        for each in self.pipeline.read(f"pipestream.{self.name}.second"):
            found[int(each.doc_id[0])].append(each.doc_id)
        assert found == self.sent, "documents are lost, doubled or out of order"
        self.pipeline.check_ledger_tiles(f"intake.{self.name}")


@pytest.fixture
def make_course(session_settings, unique, tmp_path):
    def make(label, partitions, sub_ranges):
        settings = session_settings.model_copy(update={"sub_ranges": sub_ranges})
        name = f"{unique}{label}"
        pipeline = make_pipeline(settings, tmp_path, name, GRAPH.replace("PARTITIONS", str(partitions)))
        return Course(pipeline, name, partitions)

    return make


def test_one_partition_in_sub_ranges_against_two_partitions(make_course, scenario, spark):
    from pipestream_spark.runner import SparkRunner

    courses = {OURS: make_course("a", 1, SUB_RANGES), TWO: make_course("b", 2, "never")}
    courses |= sized({ONE: make_course("c", 1, "never")}, {})
    taken, reason = {name: [] for name in courses}, ""
    runner = SparkRunner("sub-ranges", spark.find)
    for name, course in courses.items():
        # The plan needs the cost of a document; the others only warm up.
        course.drain(FIRST_COUNT if name == OURS else WARM_UP, runner)
    for number in range(ROUNDS):
        for name, course in courses.items() if number % 2 == 0 else reversed(courses.items()):
            report, seconds = course.drain(COUNT, runner)
            taken[name].append(seconds)
            assert report.tasks.startswith("sub-ranges of") == (name == OURS), report.tasks
            reason = report.tasks if name == OURS else reason
    made = scenario("sub-ranges", "A module with 5 ms of CPU per document, two cores")
    for name, seconds in taken.items():
        made.add(name, "documents/s", *(COUNT / each for each in seconds), is_rival=name != OURS)
    made.want_ratio("of the rate on two partitions", OURS, TWO, at_least=0.9)
    if ONE in taken:
        made.want_ratio("times one task", OURS, ONE, at_least=1.5)
    made.note(f"the plan: {reason}")
