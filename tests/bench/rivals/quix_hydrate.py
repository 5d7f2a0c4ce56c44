"""Quix Streams with exactly-once on: fetch a document, decide over five conditions, save it, publish a reference.

Run by the benchmark in the rivals' environment, with a job in JSON on each line of the standard input. It answers with
the seconds of wall and CPU time from the first record to the last commit. A record after the other: that is how Quix
Streams calls the functions of its user.
"""

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import boto3
from quixstreams import Application

from pipestream.gen.ai.pipestream.data.v1.pipeline_core_types_pb2 import PipeDoc, PipeStream


def open_store(place):
    """Return what gets and what puts an object."""
    uri = urlsplit(place["store_uri"])
    if uri.scheme == "file":
        folder = Path(unquote(uri.path))

        def write(key, data):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(data)

        return lambda key: (folder / key).read_bytes(), write
    client = boto3.client(
        "s3",
        endpoint_url=place["endpoint"],
        aws_access_key_id=place["access_key"],
        aws_secret_access_key=place["secret_key"],
        region_name=place["region"],
    )
    prefix = uri.path.strip("/")
    return (
        lambda key: client.get_object(Bucket=uri.netloc, Key=f"{prefix}/{key}")["Body"].read(),
        lambda key, data: client.put_object(Bucket=uri.netloc, Key=f"{prefix}/{key}", Body=data),
    )


def matches(document):
    """The five conditions in plain Python, which is what one would write here."""
    metadata = document.search_metadata
    return (
        metadata.document_type == "PDF",
        document.blob_bag.blob.size_bytes > 10_000_000,
        metadata.source_uri.startswith("s3://sensitive-bucket/"),
        "legal" in metadata.tags.tag_data,
        metadata.content_length > 1_000_000,
    )


def hydrate(job):
    get, put = open_store(job["store"])
    application = Application(
        broker_address=job["broker"],
        consumer_group=job["group"],
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=job["state"],
        auto_create_topics=False,
        loglevel="ERROR",
        producer_extra_config={"compression.type": "lz4", "linger.ms": 20},
    )
    began = []

    def process(value):
        if not began:
            began.extend((time.perf_counter(), time.process_time()))
        stream = PipeStream.FromString(value)
        document = PipeDoc.FromString(get(stream.document_ref.object_key))
        decided = matches(document)
        stream.document_ref.object_key = f"{job['prefix']}/{document.doc_id}.pb"
        put(stream.document_ref.object_key, document.SerializeToString())
        return stream.SerializeToString() if any(decided) else None

    source = application.topic(job["source"], value_deserializer="bytes", key_deserializer="bytes")
    target = application.topic(job["topic"], value_serializer="bytes", key_serializer="bytes")
    application.dataframe(source).apply(process).to_topic(target)
    # Returns after the last commit.
    application.run(count=job["count"])
    return {"wall_s": time.perf_counter() - began[0], "cpu_s": time.process_time() - began[1]}


answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    answers.write(json.dumps(hydrate(json.loads(line))) + "\n")
    answers.flush()
