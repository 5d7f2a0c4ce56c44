"""The pool that bounds how many drains run at once.

Airflow never starts a task whose pool does not exist, and says so only in the scheduler's log. So this
listener makes the pool when a component of Airflow starts, as large as PIPESTREAM_MAX_LEASES says. The
setting is the truth: a size set in the UI lasts until the next start. To do it by hand::

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
    # Task runners call this too, but have no database. Scheduler, DAG processor and triggerer are jobs;
    # which of them this is, Airflow has not said yet, and any of them may come first.
    if getattr(component, "__tablename__", "") == "job":
        ensure_pool(load_settings().max_leases)


def ensure_pool(slots: int) -> None:
    """Make the pool, or give it ``slots`` slots. Changes nothing where that is so already."""
    from airflow.models.pool import Pool
    from sqlalchemy.exc import IntegrityError

    found = Pool.get_pool(POOL)
    if found is not None and found.slots == slots:
        return
    try:
        Pool.create_or_update_pool(POOL, slots, DESCRIPTION, include_deferred=False)
    except IntegrityError:
        # Components start together, and another one made the pool between our look and our insert.
        log.info("pool %s was made by another component", POOL)
    else:
        log.info("pool %s has %d slots", POOL, slots)
