"""The links that Airflow's UI shows on a task that keeps a server up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class HealthLink(BaseOperatorLink):
    """How the server is, as it says itself."""

    name = "Health"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        return f"{getattr(operator, 'url', '')}/health"


class MetricsLink(BaseOperatorLink):
    """The server's metrics, as Prometheus reads them."""

    name = "Metrics"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        return f"{getattr(operator, 'url', '')}/metrics"
