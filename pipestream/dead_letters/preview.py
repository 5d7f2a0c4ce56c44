"""What an action would do, without doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipestream.dead_letters.action import ActionRequest, decide
from pipestream.dead_letters.browse import Histogram, list_dead_letters
from pipestream.dead_letters.destinations import Destinations, NoWayBack
from pipestream.dead_letters.letter import State
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.settings import Settings


@dataclass(slots=True)
class Preview:
    """The letters an action would decide about."""

    histogram: Histogram = field(default_factory=Histogram)
    decided: Counter[State] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    """Records that a replay would send, by topic."""
    left_open: Counter[str] = field(default_factory=Counter)


def preview_action(request: ActionRequest, settings: Settings, graphs: Sequence[Graph] = ()) -> Preview:
    """Return what ``run_action`` would do now. Nothing is written, not even a plan."""
    destinations = Destinations(graphs, Broker(settings).existing())
    plan = request.plan(())
    preview = Preview()
    for letter in list_dead_letters(settings, request.topics, request.selection, states=request.act.applies_to):
        if request.limit is not None and preview.decided.total() >= request.limit:
            break
        state = decide(letter, plan)
        if state is State.REPLAYED:
            try:
                preview.sent[destinations.find(letter)] += 1
            except NoWayBack as error:
                preview.left_open[str(error)] += 1
                continue
        if state is not None:
            preview.decided[state] += 1
            preview.histogram.add(letter)
    return preview
