"""The links that Airflow's UI shows on a task of a drain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class SparkUiLink(BaseOperatorLink):
    """Spark's own pages about the job of a drain. They are there while the job runs.

    Airflow reads links from XCom. The operator pushes this one as soon as it is known; ``get_link`` is called once more
    when the task ends.
    """

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        return str(getattr(operator, "spark_ui", ""))
