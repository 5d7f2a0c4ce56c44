"""The task that tells Airflow which hours of a datasource are drained to their end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from pipestream.errors import TerminalError
from pipestream.graph.load import load_graph
from pipestream.views.hour_proof import HOUR
from pipestream.views.hours import MOST_HOURS, CompleteHours, LastHour, find_complete_hours
from pipestream_airflow.assets import complete_hours_asset
from pipestream_airflow.connections import run_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.sdk import Asset, Context

KEY = "%Y-%m-%dT%H:%M:%S"
"""How a partition's key is written. Airflow's own mappers of times read this format."""


class CompleteHoursOperator(BaseOperator):
    """Update the asset of each datasource for the hours that are complete, each hour once.

    Which hours Airflow was told of is read from the asset's events, and Airflow records an event together with the
    task's success. So a task that dies, or is retried, announces each hour exactly once.

    The event's ``extra`` says up to which offsets the intake topic is complete, and how many records came after their
    hour was said to be complete.

    :param graph_file: path of the graph's file. (templated)
    :param datasource_ids: the datasources, whose assets are the inlets and the outlets of the task.
    """

    template_fields: Sequence[str] = ("graph_file",)
    ui_color = "#dcfce7"

    def __init__(self, *, graph_file: str, datasource_ids: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.graph_file = graph_file
        self.datasource_ids = list(datasource_ids)

    def execute(self, context: Context) -> dict[str, list[str]]:
        try:
            graph = load_graph(Path(self.graph_file))
            settings, _ = run_settings()
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        told: dict[str, list[str]] = {}
        updated: list[Asset] = []
        for datasource_id in self.datasource_ids:
            asset = complete_hours_asset(graph.graph_id, datasource_id)
            last = read_last(context["inlet_events"][asset].ascending(False).limit(MOST_HOURS))
            found = find_complete_hours(settings, graph, datasource_id, last, datetime.now(UTC))
            self._log(datasource_id, found)
            told[datasource_id] = [_key(until) for until in found.ends]
            if found.ends:
                event = context["outlet_events"][asset]
                event.add_partitions(told[datasource_id])
                event.extra = describe(found)
                updated.append(asset)
        # Airflow updates the assets that stand here, also without a partition.
        self.outlets = updated
        return told

    def _log(self, datasource_id: str, found: CompleteHours) -> None:
        for until in found.ends:
            self.log.info("%s: the hour from %s UTC is complete", datasource_id, _key(until))
        if found.missing:
            self.log.info("%s: %s", datasource_id, found.missing)
        for begin, count in sorted(found.late.items()):
            self.log.warning(
                "%s: %d records of the hour from %s UTC came after it was complete; a run with the mode time_range "
                "drains that hour again",
                datasource_id,
                count,
                begin.strftime(KEY),
            )


def describe(found: CompleteHours) -> dict[str, Any]:
    """Return what an event says about its hours."""
    return {
        "until": found.ends[-1].strftime(KEY),
        "offsets": {str(partition): bound for partition, bound in sorted(found.bounds.items())},
        "late": {begin.strftime(KEY): count for begin, count in sorted(found.late.items())},
    }


def read_last(events: Iterable[Any]) -> LastHour | None:
    """Return the last hour that events of an asset name; None if none does.

    :param events: the newest ones. Those of one task have the same ``extra``, which says where its last hour ends.
    """
    extras = [event.extra for event in events if event.partition_key and event.extra and "until" in event.extra]
    if not extras:
        return None
    newest = max(extras, key=lambda extra: str(extra["until"]))
    until = datetime.strptime(newest["until"], KEY).replace(tzinfo=UTC)
    return LastHour(until, {int(partition): bound for partition, bound in newest["offsets"].items()})


def _key(until: datetime) -> str:
    return (until - HOUR).strftime(KEY)
