"""The pool that bounds how many drains run at once.

Airflow never starts a task whose pool does not exist, and says so only in the scheduler's log. So this listener creates
the pool when a component of Airflow starts. Its size is PIPESTREAM_MAX_LEASES. The setting wins: a size set in the UI
lasts until the next start. To create the pool by hand::

    airflow pools set pipestream_drains 4 "Pipestream drains that may run at once"
"""

from __future__ import annotations

import logging

from airflow.listeners import hookimpl

from pipestream.settings import load_settings

POOL = "pipestream_drains"
DESCRIPTION = "Pipestream drains that may run at once; its size is PIPESTREAM_MAX_LEASES"

log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: object) -> None:
    # Task runners call this too, but have no database. Scheduler, DAG processor and triggerer are jobs. Airflow does
    # not say yet which of them this is, and any of them may start first.
    if getattr(component, "__tablename__", "") == "job":
        ensure_pool(load_settings().max_leases)


def ensure_pool(slots: int) -> None:
    """Create the pool, or set its size to ``slots``. Does nothing if it already has that size."""
    from airflow.models.pool import Pool
    from sqlalchemy.exc import IntegrityError

    found = Pool.get_pool(POOL)
    if found is not None and found.slots == slots:
        return
    try:
        Pool.create_or_update_pool(POOL, slots, DESCRIPTION, include_deferred=False)
    except IntegrityError:
        # Components start together, and another one created the pool between our query and our insert.
        log.info("pool %s was created by another component", POOL)
    else:
        log.info("pool %s has %d slots", POOL, slots)
