"""Registers Pipestream with Airflow where its package is on the path without being installed.

An installed package registers itself, and Airflow reports a plugin that it meets twice as an error.
"""

from __future__ import annotations

from pipestream_airflow import registration

if not registration.is_registered_by_entry_point():
    PipestreamPlugin = registration.PipestreamPlugin
