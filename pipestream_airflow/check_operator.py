"""The first task of a graph's run: find out what waits in all topics at once, and skip drains with nothing to do."""

from __future__ import annotations

import logging
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DownstreamTasksSkipped

from pipestream.dead_letters import Act, ActionRequest, Selection, dead_letter_topics, run_action
from pipestream.dead_letters.approval import check_replay
from pipestream.dead_letters.preview import preview_action
from pipestream.drain.check import Finding, examine_topics
from pipestream.drain.estimate import estimate_request
from pipestream.drain.request import DrainRequest
from pipestream.errors import RequestInvalid, TerminalError
from pipestream.graph.load import load_graph
from pipestream.leases import open_lease_store
from pipestream.views.standing import StandingView
from pipestream_airflow.connections import run_settings
from pipestream_airflow.drain_operator import DrainOperator, name_run
from pipestream_airflow.hours_operator import CompleteHoursOperator
from pipestream_airflow.run_params import RunParams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow.sdk import Context

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings


class CheckOperator(BaseOperator):
    """Look at all topics that the DAG's drain tasks drain, and skip the tasks that have nothing to do, in one go.

    A task of its own for a topic in which nothing waits costs about two seconds of Airflow. A drain is skipped if the
    run did not choose its topic, or nothing waits in it and no drain before it can write to it. If that holds for
    all drains, everything behind this task is skipped. A drain that would fail is not skipped: its task says why.

    What it finds is advice. Each drain task looks at its topic again when it starts.

    Fails before any drain if fields of the run's form contradict each other. Returns what was found, by task.

    If the graph has ``age_target_seconds``, it warns when documents will be older than that at their end even though
    this run starts now, and calls ``on_age_at_risk``. A backfill drains nothing of what waits, so it warns of nothing.

    :param consul_conn_id: the connection that says where Consul is; None: the settings say it.
    :param on_age_at_risk: called with Airflow's context, in which ``age`` is the forecast; a notifier, for example.
    """

    ui_color = "#fef9c3"

    def __init__(
        self, *, consul_conn_id: str | None = None, on_age_at_risk: Callable[[Any], Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.consul_conn_id = consul_conn_id
        self.on_age_at_risk = on_age_at_risk

    def execute(self, context: Context) -> dict[str, Any]:
        drains = self._drains()
        if not drains:  # all that such a graph has are ends, and a node that only an engine is told to enter
            self.log.info("the graph drains no topic")
            return {}
        settings, _ = run_settings(self.consul_conn_id)
        try:
            params = RunParams.read(context["params"], context["dag_run"].run_type)
            requests = _requests(drains, context)
            chosen = {each.topic: each for each in requests.values() if isinstance(each, DrainRequest)}
            if params.dry_run:
                everything = sorted(self.get_flat_relative_ids(upstream=False))
                self._skip(context, self.estimate(params, list(chosen.values()), settings), everything)
            if params.mode == "dead_letters":
                self._replay(params, context, settings)
            if not any(each.backfill for each in chosen.values()):
                self._warn_of_age(context, settings)
            findings = self._examine(requests, chosen, settings)
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        idle = find_idle_tasks({task.task_id: sorted(task.upstream_task_ids) for task in drains}, findings)
        for task in drains:
            finding = findings[task.task_id]
            state = "skipped" if task.task_id in idle else "drained"
            because = finding.reason or finding.problem or "records wait in it"
            if task.task_id not in idle and finding.reason:
                because = f"{finding.reason}, and a drain before it may write to it"
            self.log.info("%s is %s: %s", task.topic, state, because)
        found = {task_id: finding.reason or finding.problem for task_id, finding in findings.items()}
        if idle:
            self._skip(context, found, self._behind() if len(idle) == len(drains) else idle)
        return found

    def estimate(self, params: RunParams, requests: Sequence[DrainRequest], settings: Settings) -> dict[str, Any]:
        """Log and return what a run would do, and do nothing.

        :raises TerminalError: a drain would refuse, for this reason.
        """
        self.log.info("this is a dry run: nothing is changed")
        estimates = [estimate_request(request, settings) for request in requests]
        found: dict[str, Any] = {"topics": [asdict(each) for each in estimates]}
        for each in estimates:
            self.log.info("%s", each.describe())
        if params.mode == "dead_letters":
            preview = preview_action(
                replay_request(params, self._graph(), settings, "dry-run"), settings, [self._graph()]
            )
            found["replay"] = {"sent": dict(preview.sent), "left_open": dict(preview.left_open)}
            self.log.info("dead letters that would be sent back, by topic: %s", dict(preview.sent) or "none")
        return found

    def _replay(self, params: RunParams, context: Context, settings: Settings) -> None:
        """Send dead letters back. A retry of the task resumes the same action, so each is sent once.

        :raises ApprovalNeeded: there are too many for a replay that nobody has approved.
        """
        graph = self._graph()
        request = replay_request(params, graph, settings, name_run(context, self.task_id))
        check_replay(request, settings, [graph], graph.graph_id)
        report = run_action(request, settings, [graph])
        self.log.info("%s: dead letters sent back, by topic: %s", report.action_id, report.sent or "none")
        for reason, count in report.left_open.items():
            self.log.warning("%d dead letters stay: %s", count, reason)

    def _warn_of_age(self, context: Context, settings: Settings) -> None:
        graph = self._graph()
        if not graph.age_target_seconds:
            return
        with closing(open_lease_store(settings)) as leases:
            (age,) = StandingView(settings, leases).find([graph]).ages
        self.log.log(logging.WARNING if age.is_at_risk else logging.INFO, "%s", age.describe())
        if age.is_at_risk and self.on_age_at_risk is not None:
            try:
                # A copy: a notifier changes when its templates are rendered.
                deepcopy(self.on_age_at_risk)({**context, "age": age})
            except Exception:
                self.log.exception("nobody was told that documents get too old; the run continues")

    def _graph(self) -> Graph:
        return load_graph(Path(self._drains()[0].graph_file))

    def _behind(self) -> list[str]:
        """Return the tasks that have nothing to do if no drain has. An hour can be over although nothing waits."""
        behind = self.get_flat_relative_ids(upstream=False)
        return sorted(each for each in behind if not isinstance(self.dag.task_dict[each], CompleteHoursOperator))

    def _skip(self, context: Context, found: Mapping[str, Any], task_ids: Sequence[str]) -> NoReturn:
        # Airflow pushes no return value of a task that skips others.
        context["ti"].xcom_push(key="return_value", value=dict(found))
        raise DownstreamTasksSkipped(tasks=list(task_ids))  # type: ignore[no-untyped-call]

    def _drains(self) -> list[DrainOperator]:
        """Return the drain tasks behind this one, each after those that it waits for."""
        behind = self.get_flat_relative_ids(upstream=False)
        in_order = self.dag.topological_sort()  # type: ignore[no-untyped-call]
        return [task for task in in_order if isinstance(task, DrainOperator) and task.task_id in behind]

    def _examine(
        self, requests: Mapping[str, DrainRequest | Finding], chosen: Mapping[str, DrainRequest], settings: Settings
    ) -> dict[str, Finding]:
        """Return what is found about each task. A topic on a cycle has several tasks, and one answer."""
        found = dict(zip(chosen, examine_topics(settings, list(chosen.values())), strict=True))
        return {task_id: each if isinstance(each, Finding) else found[each.topic] for task_id, each in requests.items()}


def _requests(drains: Sequence[DrainOperator], context: Context) -> dict[str, DrainRequest | Finding]:
    """Return what each task is to drain, or why it has nothing to drain in this run."""
    found: dict[str, DrainRequest | Finding] = {}
    for task in drains:
        try:
            found[task.task_id] = task.request(context)
        except AirflowSkipException as skipped:
            found[task.task_id] = Finding(str(skipped), is_final=True)
    return found


def replay_request(params: RunParams, graph: Graph, settings: Settings, run_name: str) -> ActionRequest:
    """Return the replay of the dead letters that a run's form chose.

    :raises RequestInvalid: the graph has no dead-letter topics.
    """
    topics = tuple(dead_letter_topics([graph], settings))
    if not topics:
        raise RequestInvalid(f"graph {graph.graph_id} has no dead letters to replay: choose another mode")
    return ActionRequest(
        act=Act.REPLAY,
        # An id of an action is part of an object's key, and Airflow's run ids have other characters.
        action_id=f"airflow-{sha256(run_name.encode()).hexdigest()[:20]}",
        topics=topics,
        selection=Selection(
            nodes=params.nodes,
            errors=params.errors,
            doc_ids=params.doc_ids,
            since=params.since,
            until=params.until,
            graphs=(graph.graph_id,),
        ),
        by=run_name,
    )


def find_idle_tasks(upstream: Mapping[str, Sequence[str]], findings: Mapping[str, Finding]) -> list[str]:
    """Return the tasks that will have nothing to do.

    :param upstream: the tasks that each task waits for, in an order in which those come first. Tasks that are not
        among the keys are ignored.
    """
    busy: set[str] = set()
    for task_id, before in upstream.items():
        finding = findings[task_id]
        if not finding.is_final and (not finding.reason or not busy.isdisjoint(before)):
            busy.add(task_id)
    return [task_id for task_id in upstream if task_id not in busy]
