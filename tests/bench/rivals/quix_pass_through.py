"""Quix Streams with exactly-once on: pass the records of one topic on to another until all have come out.

Run by the benchmark in the rivals' environment: ``quix_pass_through.py BROKER INPUT OUTPUT GROUP COUNT STATE_FOLDER``.
It prints the seconds from the first record to the last commit, and the CPU seconds of the process.
"""

import sys
import time

from quixstreams import Application

broker, source, target, group, count, state_folder = sys.argv[1:]
wanted = int(count)
application = Application(
    broker_address=broker,
    consumer_group=group,
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=state_folder,
    auto_create_topics=False,
    loglevel="ERROR",
    producer_extra_config={"compression.type": "lz4", "linger.ms": 20},
)
seen = 0
started = cpu_started = 0.0


def note(value):
    global seen, started, cpu_started
    if not seen:
        started, cpu_started = time.perf_counter(), time.process_time()
    seen += 1
    return value


topic_in = application.topic(source, value_deserializer="bytes", key_deserializer="bytes")
topic_out = application.topic(target, value_serializer="bytes", key_serializer="bytes")
application.dataframe(topic_in).apply(note).to_topic(topic_out)
# Returns after the last commit.
application.run(count=wanted)
print(time.perf_counter() - started, time.process_time() - cpu_started)
