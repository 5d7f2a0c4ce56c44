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
        "connection-types": [
            {
                "hook-class-name": "pipestream_airflow.consul_hook.ConsulHook",
                "hook-name": "Consul",
                "connection-type": "consul",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "extra"],
                    "relabeling": {"password": "ACL token"},
                    "placeholders": {"host": "127.0.0.1", "port": "8500"},
                },
                "conn-fields": {
                    "scheme": {
                        "label": "Scheme",
                        "schema": {"type": ["string", "null"], "default": "http", "enum": ["http", "https"]},
                    },
                    "ca_file": {
                        "label": "CA file",
                        "description": "The CA certificate of Consul over TLS: a path on the workers.",
                        "schema": {"type": ["string", "null"]},
                    },
                },
            }
        ],
        "extra-links": [
            "pipestream_airflow.drain_links.DeadLettersLink",
            "pipestream_airflow.drain_links.LedgerLink",
            "pipestream_airflow.drain_links.SparkUiLink",
            "pipestream_airflow.drain_links.TopicLink",
            "pipestream_airflow.live_links.HealthLink",
            "pipestream_airflow.live_links.MetricsLink",
        ],
    }
