"""The links that Airflow's UI shows on a task of a drain.

Airflow reads links from XCom, where it puts what ``get_link`` returns when the task has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from pipestream.graph.flow import topic_targets
from pipestream.graph.load import load_graph
from pipestream.ids import graph_of_dag_id

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


def page_url(route: str, **query: str) -> str:
    """Return the address of one of our pages in Airflow's UI, with what it shows in the query string.

    :param route: the page, as ``registration.PAGES`` names it.
    """
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{base}/plugin/{route}?{urlencode(query)}"


class SparkUiLink(BaseOperatorLink):
    """Spark's own pages about the job of a drain. They are there while the job runs.

    The operator pushes this one as soon as it is known; ``get_link`` is called once more when the task ends.
    """

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        return str(getattr(operator, "spark_ui", ""))


class TopicLink(BaseOperatorLink):
    """The node that the task's topic leads to, in the picture of its graph."""

    name = "Topic"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return page_url("pipelines", pipeline=graph_of_dag_id(ti_key.dag_id), node=_node(operator))


class LedgerLink(BaseOperatorLink):
    """The ranges and runs of the task's topic."""

    name = "Ledger"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        topic = str(getattr(operator, "topic", ""))
        return page_url("pipeline-ledger", pipeline=graph_of_dag_id(ti_key.dag_id), topic=topic)


class DeadLettersLink(BaseOperatorLink):
    """The dead letters of the node that the task's topic leads to."""

    name = "Dead letters"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return page_url("pipeline-dead-letters", pipeline=graph_of_dag_id(ti_key.dag_id), node=_node(operator))


def _node(operator: BaseOperator) -> str:
    graph = load_graph(Path(str(getattr(operator, "graph_file", ""))))
    return topic_targets(graph)[str(getattr(operator, "topic", ""))]
