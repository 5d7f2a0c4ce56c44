"""One contender of the drain's benchmark, in a process of its own: ``python drain_rivals.py CONTENDER JOB_FILE``.

All do the same to the records of a range: fetch the document, decide over five conditions, save it under another name.
``drain`` is the product's task. ``loop`` is the plain way: one record after the other, boto3 or plain files, an offset
committed after each. ``objects`` only gets and puts, with nothing around it: what the store allows. Prints the seconds
of wall and CPU time, the most memory, and how many requests our client made to the object store, as JSON.

It imports only what earlier versions of the product have too, so that the same file measures those.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
from confluent_kafka import Consumer, Producer, TopicPartition

from pipestream.drain.range_task import RangeTask
from pipestream.drain.task import drain_ranges
from pipestream.engine.graph_conditions import compile_conditions
from pipestream.graph.proto import restore
from pipestream.objects.store import ObjectStore, open_store
from pipestream.settings import load_settings
from pipestream.wire import PipeDoc, PipeStream

THREADS = 16


def main() -> None:
    contender, file = sys.argv[1:]
    job = json.loads(Path(file).read_text())
    settings = load_settings()
    run = {"drain": drain, "loop": loop, "objects": objects}[contender]
    counters = [count_calls(name) for name in ("get", "put", "get_range") if hasattr(ObjectStore, name)]
    wall, cpu = time.perf_counter(), time.process_time()
    run(job, settings)
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**took, "peak_bytes": peak_bytes, "requests": sum(map(next, counters))}))


def count_calls(name: str) -> itertools.count[int]:
    """Count the calls of a method of the object store; the next value is their number."""
    method, calls = getattr(ObjectStore, name), itertools.count()

    def counted(*arguments: Any, **options: Any) -> Any:
        next(calls)  # atomic, and threads share it
        return method(*arguments, **options)

    setattr(ObjectStore, name, counted)
    return calls


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
