"""What ``airflow providers list`` shows about this package."""

from __future__ import annotations

from typing import Any

from pipestream import __version__


def get_provider_info() -> dict[str, Any]:
    """Describe this package to Airflow: the entry point ``apache_airflow_provider``.

    The plugin is an entry point of its own (``airflow.plugins``), which every component of Airflow loads.
    """
    return {
        "package-name": "pipestream-airflow",
        "name": "Pipestream",
        "description": "Documents through a processing graph, in batches and backfills that lose nothing.",
        "versions": [__version__],
    }
