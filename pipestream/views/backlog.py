"""What waited in topics at past times: where each topic ended then, less how far it was drained then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pipestream.kafka.broker import Broker
from pipestream.kafka.scan import find_held
from pipestream.views.timeline import Series, Window, empty_series, heads_over_time, keep_busiest

if TYPE_CHECKING:
    import pyarrow as pa

    from pipestream.ledger import Ledger
    from pipestream.settings import Settings


def add_backlog(
    series: Series,
    drained: pa.Table,
    window: Window,
    topics: Iterable[str],
    most: int,
    *,
    settings: Settings,
    ledger: Ledger,
) -> Series:
    """Return the series of the busiest topics with their backlog at the end of each bin, and the sum of the others.

    Where a topic ended at a time follows from the times of its records. Producers may set these, so it is as right as
    they are.

    :param drained: what ``read_drained_over_time`` returned.
    :param topics: those to choose from.
    :param most: how many have a series of their own.
    :raises TransientError: Kafka did not answer.
    """
    points = len(series.times)
    known = {each.topic: each for each in series.series}
    every = Series(series.times, [known.get(topic) or empty_series(topic, points) for topic in topics])
    held = {(each.topic, each.partition): each for each in find_held(settings, [each.topic for each in every.series])}
    found = ledger.heads_of((window.graph_id, *place) for place in held)
    heads = {place: found.get((window.graph_id, *place), each.start) for place, each in held.items()}
    now: Counter[str] = Counter()
    for place, each in held.items():
        now[each.topic] += max(0, each.end - heads[place])
    kept = keep_busiest(every, now, most)
    wanted = {each.topic for each in kept.series}
    places = [place for place in held if place[0] in wanted]
    walked = heads_over_time(drained, window, {place: heads[place] for place in places}, points)
    ends = Broker(settings).offsets_over_time(places, [int(moment * 1000) for moment in series.times])
    waiting: dict[str, list[int]] = {topic: [0] * points for topic in wanted}
    for place in places:
        for number in range(points):
            # A partition without a record at or after that time ended where it ends now.
            end = ends[number].get(place, held[place].end)
            waiting[place[0]][number] += max(0, end - walked[place][number])
    return replace(kept, series=[replace(each, backlog=waiting[each.topic]) for each in kept.series])
