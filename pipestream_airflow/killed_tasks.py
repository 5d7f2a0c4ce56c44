"""How long a task may take that Airflow kills."""

from __future__ import annotations

KILL_WAIT_S = 4.0
"""How long a killed task waits for what it has started. Airflow sends it SIGTERM, and kills it 5 s later.

No setting changes the 5 s. What needs longer ends without the task: a guard stops its server, and a drain that was
asked to stop gives back its lease.
"""
