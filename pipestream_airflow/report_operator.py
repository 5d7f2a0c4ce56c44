"""The last task of a graph's run: what the run did, from the ledger."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from pipestream.graph.load import load_graph
from pipestream.ledger import Ledger
from pipestream.times import to_utc
from pipestream.views.letter_notice import find_notice
from pipestream.views.run_summary import prefix_of_tasks, summarize_entries
from pipestream_airflow.connections import run_settings
from pipestream_airflow.drain_links import page_url
from pipestream_airflow.notify import find_notifiers, notify

if TYPE_CHECKING:
    from datetime import datetime

    from airflow.sdk import Context

    from pipestream.settings import Settings
    from pipestream.views.run_summary import RunSummary
    from pipestream_airflow.notify import OnDeadLetters

CLOCKS_APART = timedelta(hours=1)
"""How far the clock of Airflow's database may be ahead of those that enter ranges."""


class ReportOperator(BaseOperator):
    """Log what the run did, topic by topic, and return it.

    The numbers are those of the ledger. So they are there for a drain that failed after part of its work, too, and a
    range that an earlier try recorded counts once.

    If the run left dead letters, and they are many or have an error that is new, it then calls the notifiers, once.

    :param graph_id: the graph that the DAG drains.
    :param graph_file: the graph's file; without it nobody is notified.
    :param on_dead_letters: a notifier of Airflow, or several; None: the one that the settings name, if any.
    """

    ui_color = "#e2e8f0"

    def __init__(
        self, *, graph_id: str, graph_file: str = "", on_dead_letters: OnDeadLetters = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.graph_id = graph_id
        self.graph_file = graph_file
        self.on_dead_letters = on_dead_letters

    def execute(self, context: Context) -> dict[str, Any]:
        run_name = f"{context['dag'].dag_id}/{context['run_id']}"
        settings, _ = run_settings()
        # Not those of other graphs and runs: a day of topics that stream has many thousand.
        entries = Ledger(settings).entries(
            graph_id=self.graph_id, run_prefix=prefix_of_tasks(run_name), since=_begin_of(context)
        )
        summary = summarize_entries(run_name, entries)
        for line in summary.describe():
            self.log.info("%s", line)
        if self.graph_file:
            self._notify(summary, context, settings)
        return summary.to_fields()

    def _notify(self, summary: RunSummary, context: Context, settings: Settings) -> None:
        """Tell the notifiers of dead letters. It is the last step, so a retry of the task repeats no message."""
        notifiers = find_notifiers(self.on_dead_letters, settings)
        if not notifiers:
            return
        link = page_url("pipeline-dead-letters", pipeline=self.graph_id)
        notice = find_notice(summary, load_graph(Path(self.graph_file)), settings, link=link)
        if notice is not None:
            self.log.info("notifying: %s", notice.message)
            notify(notifiers, context, notice)


def _begin_of(context: Context) -> datetime:
    """Return a time before the run's first entry. A run that was cleared has a later start than its first entries."""
    run = context["dag_run"]
    return min(to_utc(moment) for moment in (run.run_after, run.start_date) if moment) - CLOCKS_APART
