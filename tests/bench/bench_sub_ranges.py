"""A module with 5 ms of CPU per document, two cores: one partition in sub-ranges against two partitions.

Every contender has a topic of its own, and drains it in one warm Spark session with two task slots; they take turns.
The plan chooses the sub-ranges itself, from the ledger entry of a first run that is not measured. Outputs are counted,
and their order and repetitions are checked, before a time is reported. Target: 90 % of the rate on two partitions.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.bench import sized
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.spark]

COUNT = sized(6_000, 3_000)
# Long enough to tell the cost of a document.
FIRST_COUNT = 1_600
ROUNDS = sized(3, 1)

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
        report = self.pipeline.drain(f"intake.{self.name}", f"run-{len(self.sent[0])}", runner=runner)
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
def make_course(settings, unique, tmp_path):
    def make(label, partitions, sub_ranges):
        name = f"{unique}{label}"
        file = tmp_path / f"{name}.yaml"
        file.write_text(GRAPH.replace("NAME", name).replace("PARTITIONS", str(partitions)))
        pipeline = Pipeline(settings.model_copy(update={"sub_ranges": sub_ranges}), file)
        pipeline.create_topics()
        return Course(pipeline, name, partitions)

    return make


def test_one_partition_in_sub_ranges_against_two_partitions(make_course, scenario, settings, tmp_path, monkeypatch):
    from pipestream_spark.runner import SparkRunner
    from pipestream_spark.warm_session import WarmSession

    write_settings(tmp_path / "spark.toml", settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "spark.toml"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    courses = {
        "1 partition, sub-ranges": make_course("a", 1, "auto"),
        "2 partitions": make_course("b", 2, "never"),
        "1 partition, one task": make_course("c", 1, "never"),
    }
    taken, reason = {name: [] for name in courses}, ""
    with closing(WarmSession("sub-ranges", "local[2]")) as session:
        runner = SparkRunner("sub-ranges", session.find)
        for course in courses.values():
            course.drain(FIRST_COUNT, runner)
        for number in range(ROUNDS):
            for name, course in courses.items() if number % 2 == 0 else reversed(courses.items()):
                report, seconds = course.drain(COUNT, runner)
                taken[name].append(seconds)
                assert report.tasks.startswith("sub-ranges of") == (name == "1 partition, sub-ranges"), report.tasks
                reason = report.tasks if name == "1 partition, sub-ranges" else reason
    made = scenario("sub-ranges", "A module with 5 ms of CPU per document, two cores")
    for name, seconds in taken.items():
        made.add(name, "documents/s", *(COUNT / each for each in seconds), is_rival=name != "1 partition, sub-ranges")
    ours = made.median("1 partition, sub-ranges")
    made.want("of the rate on two partitions", ours / made.median("2 partitions"), at_least=0.9)
    made.note(f"{ours / made.median('1 partition, one task'):.2f} times one task")
    made.note(f"the plan: {reason}")
