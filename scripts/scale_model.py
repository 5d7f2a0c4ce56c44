"""A day of a large installation, minute by minute: documents, executors, brokers, objects, ledger and leases.

The unit costs are measured on a machine of two cores (docs/scale.md says how) or are the public limits and prices of
the services. The model is small enough to read: change a figure and run it again.

    python scripts/scale_model.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Costs:
    """What one unit of work costs."""

    cpu_ms_per_document: float = 0.83
    """Of an executor core, per document and topic: read, hydrate, five conditions, store, publish."""
    run_s: float = 1.75
    """Fixed cost of a run of one topic on a warm Spark, in seconds of a slot."""
    record_bytes: float = 400
    """A record with a reference, compressed in its batch."""
    ledger_commit_ms: float = 120
    """A commit of the ledger on S3: one list, one get and one conditional put, 40 ms each."""
    requests_per_document: float = 2
    """Of the object store, per document and topic: a get and a put."""
    put_price: float = 5e-6
    get_price: float = 4e-7
    """Dollars a request: S3 Standard, us-east-1."""
    prefix_puts_per_s: float = 3_500
    """What S3 takes per prefix before it answers SlowDown."""
    broker_mb_per_s: float = 50
    """What a broker should write in the long run, replicas included: half of a gp3 volume with 125 MB/s."""
    consul_writes_per_s: float = 500
    """What a Consul cluster should take in the long run."""


@dataclass(frozen=True, slots=True)
class Load:
    """What comes in, and through how many topics."""

    documents_per_day: float
    hops: int = 5
    """Topics that a document passes."""
    topics: int = 50
    peak: float = 2.0
    """The busiest minute against the mean."""

    def arriving(self, minute: int) -> float:
        """Return the documents of a minute: a wave, lowest at midnight."""
        mean = self.documents_per_day / MINUTES
        return mean * (1 - (self.peak - 1) * math.cos(2 * math.pi * minute / MINUTES))


@dataclass(frozen=True, slots=True)
class Plant:
    """What there is to do the work."""

    executor_cores: int
    brokers: int
    prefixes: int = 256
    """Prefixes over which the object store spreads the keys; S3 splits them by itself as load grows."""
    replication: int = 3
    run_every_min: int = 5
    """How often a topic's run starts; 0: all topics stream, and one commit a few seconds serves all of them."""
    record_every_s: float = 5
    lease_ttl_s: float = 20


@dataclass(frozen=True, slots=True)
class Day:
    """What a day came to."""

    documents: float
    finished: float
    peak_backlog: float
    longest_wait_min: float
    """From a document's arrival to its last topic, at the worst moment."""
    busy: dict[str, float]
    """The busiest minute of each part, as a share of what it can do."""
    requests: float
    dollars: float

    @property
    def first_to_break(self) -> str:
        """The part that has the least left, among those that do not grow by adding machines."""
        fixed = {part: share for part, share in self.busy.items() if part not in ("executors", "brokers")}
        return max(fixed, key=lambda part: fixed[part])


def simulate(load: Load, plant: Plant, costs: Costs) -> Day:
    """Run a day, minute by minute. What an executor cannot do in a minute waits for the next."""
    waiting = [0.0] * load.hops
    peak_backlog = longest_wait = finished = worked = 0.0
    busy = dict.fromkeys(("executors", "brokers", "object store", "ledger", "leases"), 0.0)
    runs_per_min = load.topics / plant.run_every_min if plant.run_every_min else 0.0
    fixed_s = runs_per_min * costs.run_s
    commits_per_min = runs_per_min or 60 / plant.record_every_s
    # A run takes and frees its lease. A stream keeps it, and renews it at a third of its time.
    lease_writes_per_s = runs_per_min * 2 / 60 if runs_per_min else load.topics * 3 / plant.lease_ttl_s
    for minute in range(MINUTES):
        waiting[0] += load.arriving(minute)
        seconds = max(0.0, plant.executor_cores * 60 - fixed_s)
        capacity = seconds / (costs.cpu_ms_per_document / 1_000)
        done = min(capacity, sum(waiting))
        finished += _serve(waiting, done)
        worked += done
        peak_backlog = max(peak_backlog, sum(waiting))
        rate = done / 60
        longest_wait = max(longest_wait, sum(waiting) / done if done else 0.0)
        now = {
            "executors": (load.arriving(minute) * load.hops * costs.cpu_ms_per_document / 1_000 + fixed_s)
            / (plant.executor_cores * 60),
            "brokers": rate * costs.record_bytes * plant.replication / 1e6 / (plant.brokers * costs.broker_mb_per_s),
            "object store": rate * costs.requests_per_document / 2 / (plant.prefixes * costs.prefix_puts_per_s),
            "ledger": commits_per_min * costs.ledger_commit_ms / 60_000,
            "leases": lease_writes_per_s / costs.consul_writes_per_s,
        }
        busy = {part: max(share, now[part]) for part, share in busy.items()}
    wait_min = longest_wait + load.hops * plant.run_every_min / 2
    requests = worked * costs.requests_per_document
    dollars = worked * (costs.requests_per_document / 2) * (costs.put_price + costs.get_price)
    return Day(load.documents_per_day, finished, peak_backlog, wait_min, busy, requests, dollars)


def _serve(waiting: list[float], done: float) -> float:
    """Move documents one topic on, the last topic first, and return how many are through."""
    through = 0.0
    for hop in reversed(range(len(waiting))):
        moved = min(waiting[hop], done)
        waiting[hop] -= moved
        done -= moved
        if hop + 1 < len(waiting):
            waiting[hop + 1] += moved
        else:
            through += moved
    return through


def cores_for(load: Load, plant: Plant, costs: Costs, busiest: float = 0.8) -> int:
    """Return how many executor cores keep the busiest minute below a share of them."""
    peak_per_s = load.documents_per_day / 86_400 * load.peak * load.hops
    runs_s = load.topics / plant.run_every_min / 60 * costs.run_s if plant.run_every_min else 0.0
    return math.ceil((peak_per_s * costs.cpu_ms_per_document / 1_000 + runs_s) / busiest)


def brokers_for(load: Load, plant: Plant, costs: Costs, busiest: float = 0.6) -> int:
    """Return how many brokers, at least three, keep the busiest minute below a share of their disks."""
    peak_per_s = load.documents_per_day / 86_400 * load.peak * load.hops
    needed = peak_per_s * costs.record_bytes * plant.replication / 1e6 / costs.broker_mb_per_s
    return max(3, math.ceil(needed / busiest))


def fitting(load: Load, plant: Plant, costs: Costs) -> Plant:
    """Return a plant that is large enough for a load."""
    return replace(plant, executor_cores=cores_for(load, plant, costs), brokers=brokers_for(load, plant, costs))


def partitions_for(load: Load, costs: Costs, busiest: float = 0.8) -> int:
    """Return the partitions of the busiest topic: one task drains one partition, with one core."""
    peak_per_s = load.documents_per_day / 86_400 * load.peak
    return math.ceil(peak_per_s * costs.cpu_ms_per_document / 1_000 / busiest)


BILLION = Load(1e9)
ONE_MACHINE = Plant(executor_cores=1, brokers=3)


def scenarios() -> dict[str, tuple[Load, Plant, Costs]]:
    """Return what docs/scale.md shows, each with a plant that fits."""
    costs = Costs()
    streaming = replace(ONE_MACHINE, run_every_min=0)
    many = Load(1e9, topics=10_000)
    segments = replace(costs, requests_per_document=0.005, cpu_ms_per_document=0.24)
    inline = replace(costs, requests_per_document=0, record_bytes=1_000, cpu_ms_per_document=0.17)
    found = {
        "10⁹ a day, runs every 5 min": (BILLION, ONE_MACHINE, costs),
        "10⁹ a day, in segments": (BILLION, ONE_MACHINE, segments),
        "10⁹ a day of 1 KB, kept in the records": (BILLION, ONE_MACHINE, inline),
        "10⁹ a day, streaming": (BILLION, streaming, costs),
        "10⁹ a day in 10,000 topics, runs every 5 min": (many, ONE_MACHINE, costs),
        "10⁹ a day in 10,000 topics, runs every 60 min": (many, replace(ONE_MACHINE, run_every_min=60), costs),
        "10⁹ a day in 10,000 topics, streaming": (many, streaming, costs),
    }
    return {name: (load, fitting(load, plant, costs), costs) for name, (load, plant, costs) in found.items()}


def plants_table() -> str:
    """Return what each scenario needs and how busy it is, as Markdown."""
    columns = ["executor cores", "brokers", "partitions of the busiest topic", "requests a day"]
    columns += ["requests, $ a day", "longest wait, min"]
    rows = [f"| load | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    for name, (load, plant, costs) in scenarios().items():
        day = simulate(load, plant, costs)
        rows.append(
            f"| {name} | {plant.executor_cores} | {plant.brokers} | {partitions_for(load, costs)} | "
            f"{day.requests:.1e} | {day.dollars:,.0f} | {day.longest_wait_min:.1f} |"
        )
    return "\n".join(rows)


def busy_table(times: float = 1.0) -> str:
    """Return how busy each part is in the busiest minute, at so many times the load.

    Executors and brokers are added until they suffice, since that is a matter of money. The rest stays as it is.
    """
    parts = ("executors", "brokers", "object store", "ledger", "leases")
    rows = [f"| load | {' | '.join(parts)} | first to break |", "| --- |" + " ---: |" * len(parts) + " --- |"]
    for name, (load, plant, costs) in scenarios().items():
        grown = replace(load, documents_per_day=load.documents_per_day * times, topics=round(load.topics * times))
        day = simulate(grown, fitting(grown, plant, costs), costs)
        shares = " | ".join(f"{day.busy[part]:.0%}" for part in parts)
        rows.append(f"| {name} | {shares} | {day.first_to_break} |")
    return "\n".join(rows)


def scale_tables() -> dict[str, str]:
    """Return the tables of docs/scale.md."""
    return {"plants": plants_table(), "busy": busy_table(), "ten times": busy_table(10)}


if __name__ == "__main__":
    for title, table in scale_tables().items():
        print(f"\n{title}\n\n{table}")
