"""Registers Pipestream with Airflow."""

from __future__ import annotations

from importlib.metadata import entry_points

from airflow.plugins_manager import AirflowPlugin

from pipestream_airflow import drain_pool


class PipestreamPlugin(AirflowPlugin):
    """Keeps the pool of the drains at the size in the settings."""

    name = "pipestream"
    listeners = [drain_pool]  # noqa: RUF012 - Airflow declares it so, as an attribute of instances


def is_registered_by_entry_point() -> bool:
    """Return whether the installed package registers the plugin itself, so that ``plugins/`` must not do it again."""
    return any(point.value.startswith(f"{__name__}:") for point in entry_points(group="airflow.plugins"))
