"""Drain what a request asks for.

In a module of its own: a process that only drains imports neither connectors nor dead letters, nor, where the ranges
are drained on Spark, what drains them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pipestream.deployment.versions import find_version
from pipestream.drain.left_alone import find_active, why_left_alone
from pipestream.drain.report import SKIPPED, DrainReport
from pipestream.drain.run import run_drain
from pipestream.leases import open_lease_store
from pipestream.telemetry.push import push_run
from pipestream.topic_names import datasource_of

if TYPE_CHECKING:
    from pipestream.drain.range_task import RangeOutcome, RangeTask
    from pipestream.drain.request import DrainRequest
    from pipestream.errors import LeaseLost
    from pipestream.settings import Settings


class CancellableRunner(Protocol):
    """Runs the range tasks of a drain: in this process, on Spark, or elsewhere."""

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterable[RangeOutcome]:
        """Run tasks side by side or one after the other, and return how each of their ranges ended."""

    def cancel(self, why: LeaseLost) -> None:
        """Stop the tasks: the run has lost its lease. Called from another thread."""


def run_request(request: DrainRequest, settings: Settings, runner: CancellableRunner | None = None) -> DrainReport:
    """Drain what a request asks for, with a lease store of its own. All drains in batches begin here.

    Skips also what the active version of the graph leaves alone, whatever the request's graph says.

    :param runner: runs the range tasks; in this process unless given.
    """
    graph_id, topic = request.graph.graph_id, request.topic
    if reason := why_left_alone(find_active(settings, [graph_id]), graph_id, datasource_of(topic)):
        return DrainReport(SKIPPED, topic, reason=reason, run_id=request.run_id, lane=request.lane.name)
    runner = runner or _runner_here(settings)
    with closing(open_lease_store(settings)) as leases:
        report = run_drain(
            request,
            settings,
            runner,
            leases=leases,
            find_graph=partial(find_version, settings, graph_id),
            on_lease_lost=runner.cancel,
        )
    values = {"records": report.records, "dead_letters": report.dead_letters, "seconds": report.seconds}
    push_run(settings, graph_id, topic, values, report.documents_out)
    return report


def _runner_here(settings: Settings) -> CancellableRunner:
    from pipestream.drain.local_runner import LocalRunner

    return LocalRunner(settings)
