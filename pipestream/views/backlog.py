"""What waited in topics at past times: where each topic ended then, less how far it was drained then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pipestream.kafka.broker import Broker
from pipestream.kafka.scan import find_held
from pipestream.views.timeline import Series, TopicSeries, Window, heads_over_time

if TYPE_CHECKING:
    from pipestream.ledger import Ledger
    from pipestream.settings import Settings


def add_backlog(series: Series, settings: Settings, ledger: Ledger, window: Window, topics: Iterable[str]) -> Series:
    """Return the series of topics with their backlog at the end of each bin.

    Where a topic ended at a time follows from the times of its records. Producers may set these, so it is as right as
    they are.

    :raises TransientError: Kafka did not answer.
    """
    points = len(series.times)
    wanted = list(topics)
    held = {(each.topic, each.partition): each for each in find_held(settings, wanted)}
    heads = ledger.heads_of((window.graph_id, *place) for place in held)
    known = {place: heads.get((window.graph_id, *place), each.start) for place, each in held.items()}
    drained = heads_over_time(ledger, window, known, points)
    times_ms = [int(moment * 1000) for moment in series.times]
    ends = Broker(settings).offsets_over_time(list(held), times_ms)
    waiting: dict[str, list[int]] = {topic: [0] * points for topic in wanted}
    for place, each in held.items():
        for number in range(points):
            # A partition without a record at or after that time ended where it ends now.
            end = ends[number].get(place, each.end)
            waiting[place[0]][number] += max(0, end - drained[place][number])
    found = {each.topic: each for each in series.series}
    empty = TopicSeries("", [0] * points, [0] * points, [0.0] * points)
    return Series(
        series.times,
        [replace(found.get(topic, empty), topic=topic, backlog=waiting[topic]) for topic in wanted],
    )
