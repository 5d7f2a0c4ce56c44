"""Registers Pipestream with Airflow. The code is in ``pipestream_airflow/registration.py``."""

from __future__ import annotations

from pipestream_airflow.registration import PipestreamPlugin

__all__ = ["PipestreamPlugin"]
