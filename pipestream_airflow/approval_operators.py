"""The operators of an approval DAG: a dry run, and then, if somebody has approved it, the action itself."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pipestream.errors import TerminalError
from pipestream.graph.load import load_graph
from pipestream_airflow.approval_form import ApprovalParams
from pipestream_airflow.approval_work import do_work, find_work
from pipestream_airflow.connections import run_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

DRY_RUN, APPROVE, PERFORM, REPORT = TASKS = ("dry_run", "approve", "perform", "report")
ANSWER = "answer"
"""The XCom with what a person answered, and who it was."""
SHOWN = "shown"
"""The XCom with a digest of what a person was asked to approve."""
_MARKDOWN = re.compile(r"[\\`*\[\]<>|#!&~]")


class ApprovalDryRunOperator(BaseOperator):
    """Find out what a run would do, and write the request for approval. Nothing is changed.

    Fails if the run's form says what cannot be. Skips the rest of the run if there is nothing to do. Returns what was
    found, which is exactly what is done after the approval.

    :param graph_file: the graph's file.
    """

    ui_color = "#fef9c3"

    def __init__(self, *, graph_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.graph_file = graph_file

    def execute(self, context: Context) -> dict[str, Any]:
        run_name = f"{context['dag'].dag_id}/{context['run_id']}"
        try:
            params = ApprovalParams.read(context["params"])
            graph, (settings, _) = load_graph(Path(self.graph_file)), run_settings()
            work = find_work(params, graph, settings, now=datetime.now(UTC), run_name=run_name)
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        asked_by = context["dag_run"].triggering_user_name or "an unknown user"
        work["asked_by"] = asked_by
        reason = f": {as_text(params.reason)}" if params.reason else ", who gave no reason."
        head = f"Asked by **{as_text(asked_by)}**{reason}"
        work["body"] = f"{head}\n\n{work['body']}"
        self.log.info("%s\n%s", work["subject"], work["body"])
        if not work["count"]:
            raise AirflowSkipException(f"nothing to {params.action}: the dry run found nothing that would change")
        return work


class AnsweredApprovalOperator(ApprovalOperator):
    """An approval that keeps its answer, and what it asked for, in XComs of its own.

    Airflow keeps no return value of a task that skips others, which a rejected approval does. The report has to say who
    rejected it. If somebody clears the dry run alone, it may find something else than what was approved.
    """

    def execute(self, context: Context) -> Any:
        context["ti"].xcom_push(key=SHOWN, value=digest_of(context["ti"].xcom_pull(task_ids=DRY_RUN)))
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = {name: event.get(name) for name in ("chosen_options", "responded_by_user")}
        if answer["chosen_options"]:
            context["ti"].xcom_push(key=ANSWER, value=answer)
        return super().execute_complete(context, event)


class ApprovedActionOperator(BaseOperator):
    """Do what the dry run found, after somebody has approved it. A retry resumes it. Returns what was done.

    It checks the answer itself: any task of a run can be cleared alone, also one that a rejection skipped.

    :param graph_file: the graph's file.
    :param consul_conn_id: the connection that says where Consul is; None: the settings say it.
    """

    ui_color = "#fee2e2"

    def __init__(self, *, graph_file: str, consul_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.graph_file = graph_file
        self.consul_conn_id = consul_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        work, answer = context["ti"].xcom_pull(task_ids=DRY_RUN), _answer(context)
        if not work or not answer or answer["chosen_options"] != [AnsweredApprovalOperator.APPROVE]:
            raise AirflowFailException("there is no approval in this run; clear its first task to ask again")
        if context["ti"].xcom_pull(task_ids=APPROVE, key=SHOWN) != digest_of(work):
            raise AirflowFailException(
                "the dry run was repeated after this was approved, so the approval was for something else; clear the "
                "task approve, with those behind it, to ask again"
            )
        settings, _ = run_settings(self.consul_conn_id)
        try:
            return do_work(work, load_graph(Path(self.graph_file)), settings, by=decided_by(work, answer))
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error


class ApprovalReportOperator(BaseOperator):
    """Log what was asked for, who answered, and what was done, and return it. It runs in any case, as the last task."""

    ui_color = "#e2e8f0"

    def execute(self, context: Context) -> dict[str, Any]:
        work, done = (context["ti"].xcom_pull(task_ids=task) for task in (DRY_RUN, PERFORM))
        answer = _answer(context)
        report = {
            "asked": work["subject"] if work else "",
            "asked_by": work["asked_by"] if work else "",
            "answer": answer["chosen_options"][0] if answer else "",
            "answered_by": name_of(answer) if answer else "",
            "done": done or {},
        }
        for name, value in report.items():
            self.log.info("%s: %s", name.replace("_", " "), value or "nothing")
        return report


def _answer(context: Context) -> Any:
    return context["ti"].xcom_pull(task_ids=APPROVE, key=ANSWER)


def digest_of(work: Mapping[str, Any] | None) -> str:
    """Return what identifies the findings of a dry run."""
    return sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()


def as_text(text: str) -> str:
    """Return text of a person as one line of Markdown that shows it as it is: it must not look like the dry run."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split()))


def decided_by(work: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Return who decided, as it is recorded with what is done."""
    return f"{name_of(answer)}, asked by {work['asked_by']}"


def name_of(answer: Mapping[str, Any]) -> str:
    """Return who answered; without an answer in time, Airflow itself gives the default one."""
    user = answer.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "nobody in time")
