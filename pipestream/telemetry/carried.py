"""Carry what a process has counted to another one, which has an endpoint or pushes: from Spark's workers to the driver.

Nobody scrapes a worker, and it may be gone a moment later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import Counter, Histogram

from pipestream.telemetry import metrics

# Gauges say how a process is now, which means nothing in another one.
_CARRIED = {name: each for name, each in vars(metrics).items() if isinstance(each, Counter | Histogram)}

Counted = Mapping[tuple[str, tuple[str, ...]], Sequence[float]]
"""The numbers of a metric by its name here and the values of its labels: of a histogram its sum, then its buckets."""


def take_counts() -> Counted:
    """Return what this process has counted so far."""
    return {
        (name, tuple(labels)): [each.get() for each in _numbers(child)]
        for name, metric in _CARRIED.items()
        for labels, child in list(metric._metrics.items())
    }


def counts_since(before: Counted) -> str:
    """Return what this process has counted since ``before``, as JSON; empty if nothing."""
    grown = []
    for (name, labels), values in take_counts().items():
        earlier = before.get((name, labels)) or [0.0] * len(values)
        if values != earlier:
            grown.append((name, labels, [now - then for now, then in zip(values, earlier, strict=True)]))
    return json.dumps(grown) if grown else ""


def add_counts(text: str) -> None:
    """Count in this process what another one has counted.

    A metric that is another one here is left out: the other process may have another version, and has done its work.

    :param text: from ``counts_since``.
    """
    for name, labels, values in json.loads(text) if text else ():
        metric = _CARRIED.get(name)
        if metric is None or len(labels) != len(metric._labelnames):
            continue
        numbers = _numbers(metric.labels(*labels))
        if len(numbers) == len(values):
            for number, value in zip(numbers, values, strict=True):
                if value:
                    number.inc(value)


def _numbers(child: Any) -> list[Any]:
    """Return the values that a child of a metric keeps. The library can only observe one value after the other."""
    return [child._sum, *child._buckets] if isinstance(child, Histogram) else [child._value]
