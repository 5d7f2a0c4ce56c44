"""The assets of Airflow that stand for datasources and topics, so that its asset view shows a pipeline.

An asset has no host in its name: the same graph has the same assets in every installation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from airflow.sdk import Asset, AssetWatcher

from pipestream.graph.flow import destination_of, why_not_drained
from pipestream.graph.order import drain_order
from pipestream.topic_names import intake_topic, node_topic
from pipestream_airflow.lag_trigger import LagTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

GROUP = "pipestream"


# The tasks around a topic share its asset, and making one takes longer than looking it up.
@lru_cache(maxsize=8192)
def topic_asset(topic: str) -> Asset:
    """Return the asset of a topic that a graph drains. An intake topic is the datasource's asset."""
    return Asset(name=topic, uri=f"pipestream://topics/{topic}", group=GROUP)


def datasource_asset(datasource_id: str) -> Asset:
    """Return the asset that is updated when a datasource's documents arrive in its intake topic."""
    return topic_asset(intake_topic(datasource_id))


def complete_hours_asset(graph_id: str, datasource_id: str) -> Asset:
    """Return the asset with a partition for each hour whose documents a graph has drained to their end.

    A partition's key is the begin of its hour in UTC, such as ``2026-11-17T08:00:00``. A DAG that should run once for
    each hour has the schedule ``PartitionedAssetTimetable(assets=complete_hours_asset(...))``.

    :param datasource_id: a datasource of the graph that has ``complete_hours: true``.
    """
    name = f"complete.{graph_id}.{datasource_id}"
    return Asset(name=name, uri=f"pipestream://complete/{graph_id}/{datasource_id}", group=GROUP)


def written_assets(feeds: Mapping[str, Sequence[str]]) -> dict[str, list[Asset]]:
    """Return the assets that draining each topic of a graph can update.

    :param feeds: the graph's ``fed_topics``.
    """
    return {topic: [topic_asset(each) for each in sorted(fed)] for topic, fed in feeds.items()}


def find_updated(assets: Sequence[Asset], graph: Graph, documents_out: Mapping[str, int]) -> list[Asset]:
    """Return those of a drain's assets to which it wrote documents.

    :param documents_out: the documents that left by each edge, or reached an end, as a drain reports them.
    """
    written = {destination_of(edge, graph).topic for edge in graph.edges if documents_out.get(edge.edge_id)}
    written |= {
        node_topic(graph.cluster_id, end) for end in (graph.happy_end, graph.error_end) if documents_out.get(end)
    }
    return [asset for asset in assets if asset.name in written]


def arrival_asset(graph: Graph, settings: Settings) -> Asset:
    """Return the asset that the triggerer updates when enough waits in a graph's topics for a run."""
    topics = sorted({step.topic for step in drain_order(graph, 1) if not why_not_drained(graph, step.topic)})
    trigger = LagTrigger(
        graph_id=graph.graph_id,
        topics=topics,
        records=graph.arrival.records or settings.arrival_records,
        oldest_s=graph.arrival.oldest_seconds or settings.arrival_oldest_s,
        consul_conn_id=settings.consul_conn_id,
    )
    return Asset(
        name=f"waiting.{graph.graph_id}",
        uri=f"pipestream://waiting/{graph.graph_id}",
        group=GROUP,
        watchers=[AssetWatcher(name=f"lag.{graph.graph_id}", trigger=trigger)],
    )
