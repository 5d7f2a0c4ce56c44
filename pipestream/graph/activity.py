"""Whether a graph's documents move at all: the one rule for ``mode: design`` and for a datasource's ``paused``.

Everything that would move documents asks here: drains and backfills on the command line, in Spark and in Airflow, and
the connectors that bring documents in. A document that is uploaded to a paused datasource is still taken, and waits.
"""

from __future__ import annotations

from pipestream.graph.model import Graph, GraphMode
from pipestream.topic_names import datasource_of


def why_inactive(graph: Graph, datasource_id: str = "") -> str:
    """Return why a graph, or one of its datasources, is left alone; empty if it is not."""
    if graph.mode is GraphMode.DESIGN:
        return f"graph {graph.graph_id} is in design; set mode: production in its file when it is ready"
    source = graph.datasource_by_id.get(datasource_id)
    if source is not None and source.paused:
        return f"datasource {datasource_id} is paused in the graph; remove paused: true from its file to resume"
    return ""


def why_not_drained(graph: Graph, topic: str) -> str:
    """Return why a topic of a graph is left alone; empty if it is not."""
    return why_inactive(graph, datasource_of(topic))
