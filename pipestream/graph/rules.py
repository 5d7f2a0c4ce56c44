"""The rules for a graph. Every rule checks the whole draft and reports all problems.

The same rules hold for a file, for an import from the wire and for a graph built in code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.connectors.registry import check_connector
from pipestream.errors import ConnectorInvalid, GraphInvalid, IdInvalid, PluginBroken, SettingsInvalid
from pipestream.graph.components import strong_components
from pipestream.graph.expressions import check_expressions
from pipestream.graph.mapping_rules import check_mappings
from pipestream.graph.model import ON_ARRIVAL, Arrival, NodeType, Transport, Visibility
from pipestream.graph.module_rules import REMOTE_KINDS, AskModules, check_configs
from pipestream.graph.start import check_schedule, parse_start
from pipestream.graph.topic_rules import check_topics
from pipestream.ids import check_graph_id, check_key_part
from pipestream.modules.resolve import parse_module, resolve_module
from pipestream.modules.transports import open_transport, parse_engine
from pipestream.topic_names import INTAKE_CLUSTER, TopicKind, TopicName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipestream.graph.draft import Draft
    from pipestream.graph.model import Edge, Node
    from pipestream.graph.report import Report

_MAX_CYCLE_SHOWN = 8


def check_rules(draft: Draft, report: Report, *, look_up: bool, ask: AskModules | None = None) -> None:
    """Report every rule that a draft breaks.

    :param ask: also ask modules that run elsewhere which config they take.
    """
    _check_graph(draft, report)
    _check_ids(draft, report)
    _check_ends(draft, report)
    for place, node in draft.nodes:
        _check_node(place, node, report, look_up=look_up)
    _check_edges(draft, report)
    _check_datasources(draft, report, look_up=look_up)
    _check_cycles(draft, report)
    check_topics(draft, report)
    check_expressions(draft, report)
    check_mappings(draft, report)
    _check_reachable(draft, report)
    if look_up or ask:
        check_configs(draft, report, ask)


def _check_graph(draft: Draft, report: Report) -> None:
    graph = draft.graph
    _check_id(graph.graph_id, "graph", "graph id", report)
    _check_id(graph.cluster_id, "cluster", "cluster id", report)
    if graph.cluster_id == INTAKE_CLUSTER:
        # dlq.intake.x would be the dead letters of both node x and datasource x
        report.problem("cluster", f"a cluster cannot be called {INTAKE_CLUSTER}", "that word names the intake topics")
    if graph.schedule and graph.schedule != ON_ARRIVAL:
        _check_text(check_schedule, graph.schedule, "schedule", report)
    if graph.schedule != ON_ARRIVAL and graph.arrival != Arrival():
        report.problem("arrival", "is of no effect without the schedule on_arrival", "add schedule: on_arrival")


def _check_ids(draft: Draft, report: Report) -> None:
    """Ids must fit into a topic's name, and name one thing only."""
    for what, parts in (
        ("node", [(place, node.node_id) for place, node in draft.nodes]),
        ("edge", [(place, edge.edge_id) for place, edge in draft.edges]),
        ("datasource", [(place, source.datasource_id) for place, source in draft.datasources]),
    ):
        first_places: dict[str, str] = {}
        for place, part_id in parts:
            _check_id(part_id, f"{place}.id", f"{what} id", report)
            first = first_places.setdefault(part_id, place)
            if first != place:
                line = report.line_of(first)
                where = f"{first}, line {line}" if line else first
                hint = "give each edge an id of its own" if what == "edge" else ""
                report.problem(f"{place}.id", f"{what} {part_id} is already defined ({where})", hint)


def _check_ends(draft: Draft, report: Report) -> None:
    graph = draft.graph
    for field, node_id in (("happy_end", graph.happy_end), ("error_end", graph.error_end)):
        if not node_id:
            continue
        node = graph.node_by_id.get(node_id)
        if node is None:
            _report_unknown_node(draft, field, node_id, report)
        elif not node.is_end:
            report.problem(
                field, f"{node_id} is a {node.node_type.value}, not a sink", "an end consumes and routes nothing"
            )
    if graph.error_end and graph.error_end == graph.happy_end:
        report.problem(
            "error_end", f"{graph.error_end} is also the happy end", "name two sinks, or leave error_end out"
        )


def _check_node(place: str, node: Node, report: Report, *, look_up: bool) -> None:
    if node.engine:
        _check_engine(place, node.engine, report, look_up=look_up)
    if node.start_at:
        _check_text(parse_start, node.start_at, f"{place}.start_at", report)
    policy = node.dead_letters
    if None not in (policy.initial_backoff_ms, policy.max_backoff_ms) and (
        (policy.initial_backoff_ms or 0) > (policy.max_backoff_ms or 0)
    ):
        report.problem(
            f"{place}.dead_letters.max_backoff_ms",
            f"{policy.max_backoff_ms} is shorter than the first pause, {policy.initial_backoff_ms}",
        )
    _check_visibility(place, node, report)
    if node.protocol and node.module.partition(":")[0] in ("", "python", "grpc"):
        hint = "a Python function or a gRPC service has its own form; remove protocol"
        report.problem(f"{place}.protocol", "only modules behind a socket have a protocol: unix: and runtime:", hint)
    _check_module(place, node, report, look_up=look_up)


def _check_engine(place: str, engine: str, report: Report, *, look_up: bool) -> None:
    try:
        parsed = parse_engine(engine)
    except (PluginBroken, ValueError) as error:
        report.problem(f"{place}.engine", f"{engine!r} is not an address", str(error))
        return
    if look_up and parsed.transport != "grpc":
        try:
            open_transport(engine).close()
        except (PluginBroken, SettingsInvalid, ValueError) as error:
            report.problem(f"{place}.engine", f"{engine!r} cannot be used: {error}")


def _check_visibility(place: str, node: Node, report: Report) -> None:
    where = f"{place}.visible_to"
    if node.visibility is Visibility.RESTRICTED and not node.visible_to:
        hint = "visible_to: [CLUSTER], or visibility: public for all of them"
        report.problem(where, "a restricted node names the clusters that may send to it", hint)
    elif node.visible_to and node.visibility is not Visibility.RESTRICTED:
        report.problem(where, f"has no effect on a {node.visibility.value} node", "set visibility: restricted")
    for cluster_id in node.visible_to:
        _check_id(cluster_id, where, "cluster id", report)


def _check_module(place: str, node: Node, report: Report, *, look_up: bool) -> None:
    where = f"{place}.module"
    if not node.module:
        if node.node_type is NodeType.PROCESSOR and not node.engine and not report.is_unreadable(f"{place}.type"):
            hint = "a node that only passes documents on has type: connector"
            report.problem(where, f"processor {node.node_id} has no module", hint)
        return
    try:
        parsed = parse_module(node.module)
        if look_up and parsed.kind not in REMOTE_KINDS:
            resolve_module(node.module).close()
    except GraphInvalid as error:
        for problem in error.problems:
            report.problem(where, problem.message, problem.hint)
    except (PluginBroken, SettingsInvalid) as error:
        report.problem(where, str(error))
    except ValueError as error:
        report.problem(where, f"{node.module[:100]!r} is not a module: {error}")


def _check_edges(draft: Draft, report: Report) -> None:
    transports: dict[tuple[str, str, str], Edge] = {}
    for place, edge in draft.edges:
        _check_edge(draft, place, edge, report)
        pair = (edge.from_node_id, edge.to_cluster_id, edge.to_node_id)
        first = transports.setdefault(pair, edge)
        if first.transport is not edge.transport:
            report.problem(
                f"{place}.transport",
                f"{edge.transport.value}, but {first.edge_id} between the same nodes goes by {first.transport.value}",
                "one transport between two nodes",
            )


def _check_edge(draft: Draft, place: str, edge: Edge, report: Report) -> None:
    source = draft.graph.node_by_id.get(edge.from_node_id)
    if source is None:
        _report_unknown_node(draft, f"{place}.from", edge.from_node_id, report)
    elif source.is_end:
        report.problem(f"{place}.from", f"{edge.from_node_id} is a sink, and a sink routes nothing")
    if edge.is_cross_cluster:
        _check_id(edge.to_cluster_id, f"{place}.cluster", "cluster id", report)
        _check_id(edge.to_node_id, f"{place}.to", "node id", report)
        if edge.transport is Transport.GRPC:
            report.problem(f"{place}.transport", "an edge to another cluster always goes by Kafka", "remove transport")
        if edge.kafka_topic:
            bridge = TopicName(TopicKind.BRIDGE, edge.to_cluster_id, edge.to_node_id)
            report.problem(f"{place}.topic", f"an edge to another cluster always goes to {bridge}", "remove topic")
    elif edge.to_node_id not in draft.graph.node_by_id:
        _report_unknown_node(draft, f"{place}.to", edge.to_node_id, report)
    if edge.kafka_topic and edge.transport is Transport.GRPC:
        report.problem(f"{place}.topic", "an edge by gRPC has no topic", "remove topic, or set transport: kafka")


def _check_datasources(draft: Draft, report: Report, *, look_up: bool) -> None:
    for place, source in draft.datasources:
        if source.account_id:
            try:
                check_key_part(source.account_id, "account")
            except IdInvalid as error:
                report.problem(f"{place}.account", str(error))
        if source.entry_node_id:
            entry = draft.graph.node_by_id.get(source.entry_node_id)
            if entry is None:
                _report_unknown_node(draft, f"{place}.entry", source.entry_node_id, report)
            elif entry.is_bare_end:
                hint = "documents would end where they start"
                report.problem(f"{place}.entry", f"{source.entry_node_id} is a sink without a module", hint)
        if source.connector is not None and look_up:
            try:
                check_connector(source.connector)
            except (ConnectorInvalid, PluginBroken, SettingsInvalid) as error:
                report.problem(f"{place}.connector", str(error))
        if source.schedule:
            _check_text(check_schedule, source.schedule, f"{place}.schedule", report)
            if source.connector is None:
                report.problem(f"{place}.schedule", "a schedule without a connector", "add the connector it should run")
        if source.start_at:
            _check_text(parse_start, source.start_at, f"{place}.start_at", report)


def _check_cycles(draft: Draft, report: Report) -> None:
    """Every cycle needs an edge with a limit on how often a document can take it."""
    endless: dict[str, list[tuple[str, Edge]]] = {}
    for place, edge in draft.edges:
        if not (edge.max_hops or edge.is_cross_cluster or report.is_unreadable(f"{place}.max_hops")):
            endless.setdefault(edge.from_node_id, []).append((place, edge))
    node_ids = list(dict.fromkeys(node.node_id for _, node in draft.nodes))

    for component in strong_components(node_ids, lambda key: [edge.to_node_id for _, edge in endless.get(key, ())]):
        members = set(component)
        inside = [
            (place, edge)
            for node_id in component
            for place, edge in endless.get(node_id, ())
            if edge.to_node_id in members
        ]
        if inside:
            shown = [*component[:_MAX_CYCLE_SHOWN], "…"] if len(component) > _MAX_CYCLE_SHOWN else component
            place = min(inside, key=lambda found: report.line_of(found[0]) or 0)[0]
            report.problem(
                f"{place}.max_hops",
                f"documents can go round forever between {', '.join(shown)}",
                "set max_hops on an edge of the cycle",
            )


def _check_reachable(draft: Draft, report: Report) -> None:
    graph = draft.graph
    waiting = [source.entry_node_id for source in graph.datasources]
    waiting += [node.node_id for node in graph.nodes if node.is_bridged or node.node_type is NodeType.CONNECTOR]
    reached = {graph.happy_end, graph.error_end}
    while waiting:
        node_id = waiting.pop()
        if node_id not in reached:
            reached.add(node_id)
            waiting += [edge.to_node_id for edge in graph.edges_from.get(node_id, ()) if not edge.is_cross_cluster]
    for place, node in draft.nodes:
        if node.node_id not in reached:
            report.warning(
                f"{place}.id", f"no document can reach {node.node_id}", "add an edge or a datasource that leads to it"
            )


def _report_unknown_node(draft: Draft, field: str, node_id: str, report: Report) -> None:
    # If a node's own id could not be read, this may well be it: one mistake, one problem.
    if not draft.unreadable_nodes:
        hint = report.suggest(node_id, draft.graph.node_by_id.keys())
        report.problem(field, f"there is no node {_short(node_id)}", hint)


def _check_id(value: str, field: str, what: str, report: Report) -> None:
    if not value:
        return  # its absence is reported where it is read
    try:
        check_graph_id(value, what)
    except IdInvalid:
        report.problem(
            field,
            f"{what} {_short(value)!r} cannot be part of a topic name",
            "use 1 to 80 lower-case letters, digits, - and _, starting with a letter or digit",
        )


def _check_text(parse: Callable[[str], object], text: str, field: str, report: Report) -> None:
    try:
        parse(text)
    except ValueError as error:
        report.problem(field, str(error))


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."
