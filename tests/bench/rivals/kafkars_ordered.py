"""kafkars: read a topic in order of time until all of its records have come out.

Run by the benchmark in the rivals' environment: ``kafkars_ordered.py BROKER TOPIC GROUP BATCH_SIZE COUNT``. It prints
the seconds from opening to the last record, the CPU seconds of the process, the records, and how often the time went
back.
"""

import sys
import time
from itertools import pairwise

from kafkars import ConsumerManager, SourceTopic

broker, topic, group, batch_size, count = sys.argv[1:]
started, cpu_started = time.perf_counter(), time.process_time()
manager = ConsumerManager(
    config={"bootstrap.servers": broker, "group.id": group},
    topics=[SourceTopic.from_earliest(topic)],
    batch_size=int(batch_size),
)
batches = []
found = 0
while found < int(count) and time.perf_counter() - started < 300:
    batches.append(manager.poll(timeout_ms=1_000))
    found += batches[-1].num_rows
taken = time.perf_counter() - started, time.process_time() - cpu_started
times = [ms for batch in batches for ms in batch.column("timestamp").cast("int64").to_pylist()]
print(*taken, len(times), sum(after < before for before, after in pairwise(times)))
