"""How much memory a task has at most: short and long ranges of small records, and few and many documents of 10 MB.

Each drain is a process of its own, and its peak is what the operating system says at its end. What bounds it is the
bytes in flight (``in_flight_bytes``), so a range that is many times as long must not need more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from dataclasses import asdict
from itertools import islice

import pytest

from pipestream.drain.range_task import transactional_id
from pipestream.graph.proto import to_binary
from pipestream.kafka.broker import Broker
from pipestream.objects.store import open_store
from pipestream.settings import CONFIG_VARIABLE
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing import drain_rivals
from pipestream_testing.bench import sized
from pipestream_testing.made import make_task
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.stack, pytest.mark.slow]

# Both hold more than the 128 MB that may be in flight: a range below that needs less memory the shorter it is
# (10,000 records 174 MB, 100,000 records 292 MB), which tells nothing about long ones.
RECORDS = sized((200_000, 1_000_000), (150_000, 300_000))
LARGE_DOCUMENTS = sized((50, 500), (20, 60))
LARGE_BYTES = 10_000_000
MEGABYTE = 1_000_000

GRAPH = """
graph: NAME
cluster: NAME
datasources:
  - {id: NAME, account: acme, entry: first, partitions: 1,
     persistence: {persist_pipedoc: PERSIST, max_inline_size_bytes: 100000}}
nodes:
  - {id: first, type: connector}
  - {id: second, type: connector, partitions: 1}
edges:
  - {from: first, to: second}
"""


@pytest.fixture
def pipeline(settings, unique, tmp_path):
    def make(*, persist: bool) -> Pipeline:
        file = tmp_path / "graph.yaml"
        file.write_text(GRAPH.replace("NAME", unique).replace("PERSIST", str(persist).lower()))
        # A folder: what the S3 server has cached would be another process's.
        made = Pipeline(settings.model_copy(update={"store_uri": (tmp_path / "objects").as_uri()}), file)
        made.create_topics()
        return made

    return make


def peak_bytes(pipeline: Pipeline, unique: str, start: int, end: int) -> int:
    """Drain a range in a process of its own, and return the most memory that it had."""
    topic, name = f"intake.{unique}", f"{unique}-{start}"
    task = make_task(
        topic,
        "first",
        topic_id=Broker(pipeline.settings).identify(topic).topic_id,
        datasource_id=unique,
        offsets=((0, start, end),),
        group=name,
        lane=unique,
        run_id=name,
        transactional_ids=(transactional_id(name, topic, 0),),
        graph=b64encode(to_binary(pipeline.graph)).decode(),
    )
    folder = pipeline.graph_file.parent
    job, config = folder / f"{name}.json", folder / "settings.toml"
    job.write_text(json.dumps({"task": asdict(task)}))
    write_settings(config, pipeline.settings)
    done = subprocess.run(
        [sys.executable, drain_rivals.__file__, "drain", str(job)],
        env={**os.environ, CONFIG_VARIABLE: str(config)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return int(json.loads(done.stdout)["peak_bytes"])


def check_outputs(pipeline: Pipeline, unique: str, count: int) -> None:
    found = Broker(pipeline.settings).watermarks(f"pipestream.{unique}.second", [0])[0].high
    assert found >= count, "documents are missing"


def test_memory_of_a_range_of_small_records(pipeline, unique, scenario):
    drained = pipeline(persist=False)
    short, long = RECORDS
    numbers = iter(range(short + long))
    made = scenario("memory-records", "Peak memory of a task, inline records of 1 KB")
    for count in RECORDS:
        start = short if count == long else 0
        drained.send_streams(f"intake.{unique}", (inline(number) for number in islice(numbers, count)))
        made.add(f"{count:,} records", "MB", peak_bytes(drained, unique, start, start + count) / MEGABYTE)
    check_outputs(drained, unique, short + long)
    ratio = made.median(f"{long:,} records") / made.median(f"{short:,} records")
    made.want(f"times the memory for {long // short} times the records", ratio, at_most=1.5)


def inline(number: int) -> PipeStream:
    stream = PipeStream()
    stream.document.doc_id = f"doc-{number:07}"
    stream.document.search_metadata.body = "x" * 1_000
    return stream


def test_memory_of_documents_of_ten_megabytes(pipeline, unique, scenario):
    drained = pipeline(persist=True)
    document = PipeDoc(doc_id="large")
    document.search_metadata.body = "x" * LARGE_BYTES
    key = f"documents/acme/{unique}/large.pb"
    with open_store(drained.settings.store_uri, drained.settings) as store:
        store.put(key, document.SerializeToString())
    reference = PipeStream()
    reference.document_ref.doc_id, reference.document_ref.object_key = "large", key
    few, many = LARGE_DOCUMENTS
    drained.send_streams(f"intake.{unique}", [reference] * (few + many))
    made = scenario("memory-large", "Peak memory of a task, documents of 10 MB")
    made.add(f"{few} documents", "MB", peak_bytes(drained, unique, 0, few) / MEGABYTE)
    made.add(f"{many} documents", "MB", peak_bytes(drained, unique, few, few + many) / MEGABYTE)
    check_outputs(drained, unique, few + many)
    ratio = made.median(f"{many} documents") / made.median(f"{few} documents")
    made.want(f"times the memory for {many / few:.0f} times the documents", ratio, at_most=1.5)
    made.note(f"bytes in flight: {drained.settings.in_flight_bytes / MEGABYTE:.0f} MB")
