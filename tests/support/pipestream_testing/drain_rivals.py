"""Contenders of the benchmarks of drains: ``python drain_rivals.py CONTENDER``, with a job in JSON on each line.

All do the same to the records of a range: fetch the document, decide over five conditions, save it under another name.
``drain`` is the product's task. ``loop`` is the plain way: one record after the other, boto3 or plain files, an offset
committed after each. ``objects`` only gets and puts, with nothing around it: what the store allows. ``run`` is a whole
run of the product, from lease to ledger. Each job is answered by a line of JSON: when it began and ended, seconds of
wall and CPU time, the most memory so far, and how many requests our client made to the object store.

All but ``run`` import only what earlier versions of the product have too, so that the same file measures those.
"""

from __future__ import annotations

import json
import os
import sys
import time
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

import boto3
from confluent_kafka import Consumer, Producer, TopicPartition

from pipestream.drain.range_task import RangeTask
from pipestream.drain.task import drain_ranges
from pipestream.engine.graph_conditions import compile_conditions
from pipestream.graph.proto import restore
from pipestream.objects.store import ObjectStore, open_store
from pipestream.settings import CONFIG_VARIABLE, load_settings
from pipestream.wire import PipeDoc, PipeStream

THREADS = 16


def main() -> None:
    run = {"drain": drain, "loop": loop, "objects": objects, "run": run_topic}[sys.argv[1]]
    calls = count_calls("get", "put", "get_range")
    answers = _own_output()
    for line in sys.stdin:
        job = json.loads(line)
        os.environ[CONFIG_VARIABLE] = job["config"]
        settings = load_settings()
        calls.clear()
        began, wall, cpu = time.time(), time.perf_counter(), time.process_time()
        run(job, settings)
        figures = {
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
            "began": began,
            "ended": time.time(),
            "peak_bytes": _peak_bytes(),
            "requests": len(calls),
        }
        answers.write(json.dumps(figures) + "\n")
        answers.flush()


def _peak_bytes() -> int:
    """Return the most memory that this process had. (``ru_maxrss`` begins with that of the process that started it.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _own_output() -> TextIO:
    """Return the standard output, and let everyone else write to the standard error instead."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def count_calls(*names: str) -> list[None]:
    """Return a list that gets longer by one with each call of these methods of the object store."""
    calls: list[None] = []

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            calls.append(None)  # atomic, and threads share it
            return method(*arguments, **options)

        return counted

    for name in names:
        if hasattr(ObjectStore, name):
            setattr(ObjectStore, name, counting(getattr(ObjectStore, name)))
    return calls


def run_topic(job: dict[str, Any], settings: Any) -> None:
    from pipestream_testing.pipeline import Pipeline

    report = Pipeline(settings, Path(job["graph_file"])).run(job["topic"], job["run_id"])
    assert report.status == "drained", report


def drain(job: dict[str, Any], settings: Any) -> None:
    task = RangeTask(**{**job["task"], "offsets": tuple(tuple(each) for each in job["task"]["offsets"])})
    (outcome,) = drain_ranges(task, settings)
    assert not outcome.error, outcome.error
    assert outcome.end == task.offsets[0][2]


def loop(job: dict[str, Any], settings: Any) -> None:
    get, put = _plain_store(settings)
    graph = restore(b64decode(job["task"]["graph"])).graph
    conditions = compile_conditions(graph, settings.cel_engine)
    _, start, end = job["task"]["offsets"][0]
    common = {"bootstrap.servers": settings.kafka_bootstrap}
    producer = Producer({**common, "enable.idempotence": True, "linger.ms": 0})
    consumer = Consumer({**common, "group.id": job["group"], "enable.auto.commit": False})
    consumer.assign([TopicPartition(job["task"]["topic"], 0, start)])
    done = start
    while done < end:
        message = consumer.poll(10)
        if message is None or message.error() is not None or message.offset() >= end:
            continue
        stream = PipeStream.FromString(message.value())
        document = PipeDoc.FromString(get(stream.document_ref.object_key))
        matched = conditions.matching_edges("start", conditions.activation(stream, document))
        stream.document_ref.object_key = f"{job['prefix']}/{document.doc_id}.pb"
        put(stream.document_ref.object_key, document.SerializeToString())
        for _ in matched:
            producer.produce(job["topic"], stream.SerializeToString(), document.doc_id)
        producer.flush()
        consumer.commit(message, asynchronous=False)
        done = message.offset() + 1
    consumer.close()


def objects(job: dict[str, Any], settings: Any) -> None:
    with open_store(settings.store_uri, settings) as store, ThreadPoolExecutor(THREADS) as pool:

        def copy(key: str) -> None:
            store.put(f"{job['prefix']}/{key.rpartition('/')[2]}", store.get(key))

        for _ in pool.map(copy, job["keys"]):
            pass


def _plain_store(settings: Any) -> tuple[Callable[[str], bytes], Callable[[str, bytes], Any]]:
    place = urlsplit(settings.store_uri)
    if place.scheme == "file":
        folder = Path(unquote(place.path))

        def write(key: str, data: bytes) -> None:
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(data)

        return lambda key: (folder / key).read_bytes(), write
    client = boto3.client(
        "s3",
        endpoint_url=settings.s3_endpoint,
        aws_access_key_id=settings.s3_access_key.get_secret_value(),
        aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
        region_name=settings.s3_region,
    )
    prefix = place.path.strip("/")
    return (
        lambda key: client.get_object(Bucket=place.netloc, Key=f"{prefix}/{key}")["Body"].read(),
        lambda key, data: client.put_object(Bucket=place.netloc, Key=f"{prefix}/{key}", Body=data),
    )


if __name__ == "__main__":
    main()
