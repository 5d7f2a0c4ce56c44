"""Quix Streams with exactly-once on: pass the records of one topic on to another until all have come out.

Run by the benchmark in the rivals' environment, with a job in JSON on each line of the standard input. It answers with
the seconds of wall and CPU time from the first record to the last commit.
"""

import json
import os
import sys
import time

from quixstreams import Application


def pass_on(job):
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

    def note(value):
        if not began:
            began.extend((time.perf_counter(), time.process_time()))
        return value

    source = application.topic(job["source"], value_deserializer="bytes", key_deserializer="bytes")
    target = application.topic(job["target"], value_serializer="bytes", key_serializer="bytes")
    application.dataframe(source).apply(note).to_topic(target)
    # Returns after the last commit.
    application.run(count=job["count"])
    return {"wall_s": time.perf_counter() - began[0], "cpu_s": time.process_time() - began[1]}


answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    answers.write(json.dumps(pass_on(json.loads(line))) + "\n")
    answers.flush()
