"""Registers Pipestream with Airflow."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from pipestream_airflow import drain_pool


class PipestreamPlugin(AirflowPlugin):
    """Keeps the pool of the drains the size that the settings say."""

    name = "pipestream"
    listeners = (drain_pool,)
