"""Where a document enters: the graphs of its datasource that a call means, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipestream.drain.packing import Packer
from pipestream.engine.carry import Carrier
from pipestream.engine.intake import Entrance
from pipestream.engine.passing import Passage, find_passage
from pipestream.engine_server.graphs import Directory, LiveGraphs
from pipestream.engine_server.inline_passage import InlinePassage, find_inline_passage
from pipestream.engine_server.served import ServedGraph
from pipestream.errors import RecordInvalid, RequestInvalid
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest
from pipestream.graph.model import Datasource
from pipestream.settings import Settings
from pipestream.telemetry.meter import GatheringMeter
from pipestream.topic_names import intake_topic

# Choices that are remembered. Calls name few different places, and what is wrong comes in any number.
_MOST_CHOICES = 256


@dataclass(frozen=True, slots=True)
class Door:
    """Where the documents of a datasource enter one graph."""

    served: ServedGraph
    source: Datasource
    carrier: Carrier
    topic: str
    is_blocking: bool
    """Whether a module or a remote engine is called behind it."""
    packer: Packer
    meter: GatheringMeter
    """Counts what happens in the event loop, until a call is answered."""
    passage: Passage | None
    """Passes documents on in the event loop, where the entry node does nothing else; it counts in ``meter``."""
    inline_passage: InlinePassage | None
    """The same for those that stay in their records."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The graphs that a document enters, or why there are none."""

    doors: tuple[Door, ...] = ()
    reasons: tuple[str, ...] = ()
    may_retry: bool = False
    is_for_all: bool = True
    """Whether every graph that has the datasource is meant, also one that is paused."""
    accounts: frozenset[str] = frozenset()
    """Of the datasource in these graphs."""
    path: str = ""
    """How the datasource wants its documents to go: ``direct`` or ``stored``; empty: by their size."""
    is_blocking: bool = False
    """Whether a module or a remote engine is called behind one of the doors."""

    def check(self, request: IntakeHandoffRequest) -> None:
        """Refuse what no graph can take, before anything is done.

        :raises RequestInvalid: it has no document, or it would start in several accounts.
        :raises RecordInvalid: it names another account.
        """
        if request.stream.WhichOneof("document_payload") is None:
            raise RequestInvalid("the stream has neither a document nor a reference to one")
        if len(self.accounts) > 1:
            raise RequestInvalid(
                f"datasource {request.datasource_id} belongs to the accounts {', '.join(sorted(self.accounts))} in "
                "different graphs; set account_id to the one whose document it is"
            )
        if request.account_id and request.account_id not in self.accounts:
            door = self.doors[0]
            raise RecordInvalid(
                f"the request is of account {request.account_id[:100]!r}, but datasource {request.datasource_id} of "
                f"graph {door.served.graph.graph_id} belongs to {door.source.account_id!r}"
            )


class Doors:
    """Finds where documents enter, among the graphs that are served now."""

    def __init__(self, graphs: LiveGraphs, settings: Settings, instance: str) -> None:
        self._graphs = graphs
        self._settings = settings
        self._instance = instance
        self._known = Directory()
        self._choices: dict[tuple[str, str, str, str], Choice] = {}

    def choose(self, request: IntakeHandoffRequest) -> Choice:
        """Return the graphs that a call means: by entry node, by graph, and by account where they have several."""
        directory = self._graphs.directory
        if directory is not self._known:
            self._known, self._choices = directory, {}
        stream = request.stream
        # A sidecar hands over what one graph's lane read of the topic; the lanes of the others read it for themselves.
        account_id = request.account_id or stream.metadata.account_id or stream.document_ref.account_id
        asked = (request.datasource_id, request.target_entry_node_id, stream.metadata.graph_id, account_id)
        found = self._choices.get(asked)
        if found is None:
            found = self._choose(directory, *asked)
            if found.doors and len(self._choices) < _MOST_CHOICES:
                self._choices[asked] = found
        return found

    def _choose(self, directory: Directory, datasource_id: str, node_id: str, graph_id: str, account_id: str) -> Choice:
        entries = directory.entries(datasource_id)
        active, reasons = directory.active_entries(datasource_id)
        if not active:
            none = f"no applied graph has the datasource {datasource_id[:100]!r}"
            return Choice(reasons=tuple(reasons or [none]), may_retry=bool(reasons))
        meant = [
            served
            for served in entries
            if node_id in ("", _source(served, datasource_id).entry_node_id) and graph_id in ("", served.graph.graph_id)
        ]
        meant = [each for each in meant if _source(each, datasource_id).account_id == account_id] or meant
        if not meant:
            return Choice(reasons=(_say_where_it_enters(entries, datasource_id, node_id, graph_id),))
        targets = [served for served in active if served in meant]
        if not targets:
            return Choice(reasons=tuple(reasons), may_retry=True)
        problems = [
            f"graph {served.graph.graph_id}: {problem}"
            for served in targets
            for problem in served.own.ways[_source(served, datasource_id).entry_node_id].problems
        ]
        if problems:
            return Choice(reasons=tuple(problems), may_retry=True)
        # A graph that is paused now drains the intake topic later, so it counts, too.
        accounts = {_source(served, datasource_id).account_id for served in entries}
        doors = tuple(self._door(served, datasource_id) for served in targets)
        # One graph that wants its documents stored first is enough: they share the intake topic.
        paths = {door.source.path for door in doors}
        return Choice(
            doors,
            tuple(reasons),
            is_for_all=meant == entries and len(accounts) == 1,
            accounts=frozenset(door.source.account_id for door in doors),
            path=next((path for path in ("stored", "direct") if path in paths), ""),
            is_blocking=any(door.is_blocking for door in doors),
        )

    def _door(self, served: ServedGraph, datasource_id: str) -> Door:
        local, source = served.own, _source(served, datasource_id)
        entrance = Entrance(local.graph, source.entry_node_id, served.graph.graph_id, source.datasource_id)
        carrier = Carrier(entrance, self._instance, local.services, self._settings)
        is_blocking = local.ways[source.entry_node_id].is_blocking
        meter = GatheringMeter(local.services.meter)
        counting = replace(local.services, meter=meter)
        passage, inline_passage = find_passage(entrance, counting), find_inline_passage(entrance, counting)
        topic = intake_topic(source.datasource_id)
        return Door(served, source, carrier, topic, is_blocking, local.packer, meter, passage, inline_passage)


def _source(served: ServedGraph, datasource_id: str) -> Datasource:
    return served.graph.datasource_by_id[datasource_id]


def _say_where_it_enters(entries: Sequence[ServedGraph], datasource_id: str, node_id: str, graph_id: str) -> str:
    places = ", ".join(f"{each.graph.graph_id} at {_source(each, datasource_id).entry_node_id}" for each in entries)
    asked = f"at {node_id[:100]!r}" + (f" of graph {graph_id[:100]!r}" if graph_id else "")
    return f"datasource {datasource_id} does not enter {asked}: it enters {places}"
