"""The first and the last task of a graph's run, on real servers, with the drains between them run in this process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from pipestream.drain.check import Finding
from pipestream.errors import SettingsInvalid
from pipestream.graph.load import load_graph
from pipestream.leases import open_lease_store
from pipestream.leases.store import DesiredState
from pipestream.ledger import Ledger
from pipestream.settings import Settings
from pipestream.views.age import forecast_age
from pipestream.views.standing import Standing, TopicStanding
from pipestream_airflow.check_operator import find_idle_tasks
from pipestream_airflow.graph_dag import build_graph_dag
from pipestream_airflow.notify import find_notifiers
from pipestream_airflow.registration import PAGES
from pipestream_testing.notices import to_file

BUSY, IDLE, OFF = Finding(""), Finding("nothing waits"), Finding("stopped", is_final=True)


def test_a_drain_is_skipped_if_nothing_waits_and_nothing_before_it_is_drained():
    upstream = {
        "a": ["check"],
        "b": ["check"],
        "after_a": ["a"],
        "after_b": ["b"],
        "after_both": ["after_a", "after_b"],
    }
    findings = {"a": BUSY, "b": IDLE, "after_a": IDLE, "after_b": IDLE, "after_both": IDLE}

    assert find_idle_tasks(upstream, findings) == ["b", "after_b"]


def test_a_stopped_topic_is_skipped_and_feeds_nothing():
    upstream = {"a": ["check"], "stopped": ["a"], "behind": ["stopped"]}

    assert find_idle_tasks(upstream, {"a": BUSY, "stopped": OFF, "behind": IDLE}) == ["stopped", "behind"]


def test_a_drain_that_would_fail_is_not_skipped_so_that_its_task_says_why():
    findings = {"a": Finding("", problem="the topic is missing"), "behind": IDLE}

    assert find_idle_tasks({"a": ["check"], "behind": ["a"]}, findings) == []


class Run:
    """One run of the graph's DAG: what Airflow tells its tasks, and what they push."""

    def __init__(self, dag: Any, run_id: str = "manual__1", **params: object) -> None:
        self.dag = dag
        self.pushed: dict[str, object] = {}
        now = datetime.now(UTC)
        self.context: dict[str, Any] = {
            "params": {**dag.params.dump(), **params},
            "dag": dag,
            "run_id": run_id,
            "dag_run": SimpleNamespace(run_type="manual", clear_number=0, run_after=now, start_date=now),
            "ti": SimpleNamespace(xcom_push=lambda key, value: self.pushed.update({key: value})),
        }

    def check(self) -> list[str]:
        """Run the check, and return the tasks that it skips."""
        try:
            self.dag.task_dict["check"].execute(self.context)
        except DownstreamTasksSkipped as skipped:
            return sorted(skipped.tasks)
        return []

    def report(self) -> dict[str, Any]:
        result: dict[str, Any] = self.dag.task_dict["report"].execute(self.context)
        return result


@pytest.fixture
def dag(pipeline, config_file, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))
    return build_graph_dag(pipeline.graph, pipeline.graph_file, pipeline.settings)


@pytest.mark.stack
def test_a_run_skips_what_is_idle_and_reports_what_it_drained(pipeline, dag, unique, capsys, monkeypatch):
    intake, second = f"intake.{unique}", f"pipestream.{unique}.second"
    drains = {task.task_id: task for task in dag.tasks if task.task_id.startswith("drain_")}
    run = Run(dag)

    assert run.check() == sorted([*drains, "report"]), "nothing waits anywhere"
    assert f"nothing to drain in {intake}" in capsys.readouterr().out
    assert run.pushed["return_value"][f"drain_intake_{unique}"] == f"nothing to drain in {intake}"

    pipeline.send(intake, ["a", "bad-b", "c"])
    assert run.check() == ["drain_fused"], "what only replays feed stays idle"
    only_second = Run(dag, topics=[second])
    assert only_second.check() == sorted([*drains, "report"])

    for task_id, topic in ((f"drain_intake_{unique}", intake), ("drain_second", second)):
        pipeline.drain(topic, f"{dag.dag_id}/manual__1/{task_id}")
    pipeline.send(intake, ["of another run"])
    pipeline.drain(intake, f"{dag.dag_id}/manual__10/drain_intake_{unique}")

    read, entries = Ledger.entries, []
    monkeypatch.setattr(
        Ledger, "entries", lambda *args, **wanted: (entries.extend(found := read(*args, **wanted)), found)[1]
    )
    report = run.report()

    assert {entry.run_id.rpartition("/")[0] for entry in entries} == {f"{dag.dag_id}/manual__1"}, "and reads no others"
    assert [(each["topic"], each["documents_in"], each["dead_letters"]) for each in report["topics"]] == [
        (intake, 3, 0),
        (second, 3, 1),
    ]
    assert report["topics"][0]["ranges"] == ["0:0-3"]
    assert sum(report["topics"][0]["documents_out"].values()) == 3
    assert report["documents_out"]["happy-end"] == 2
    assert report["dead_letters"] == 1
    assert "6 documents in, 1 dead letters" in capsys.readouterr().out


@pytest.mark.stack
def test_a_dry_run_counts_and_changes_nothing_and_dead_letters_come_back_by_the_filter(pipeline, dag, unique):
    intake, second = f"intake.{unique}", f"pipestream.{unique}.second"
    pipeline.send(intake, ["bad-a", "bad-b"])
    everything = sorted(task.task_id for task in dag.tasks if task.task_id != "check")
    dry = Run(dag, dry_run=True)

    assert dry.check() == everything
    found = {each["topic"]: each["offsets"] for each in dry.pushed["return_value"]["topics"]}
    assert found[intake] == 2
    assert pipeline.ledger.entries() == []

    pipeline.drain(intake, "run-1")
    pipeline.drain(second, "run-1")
    by_filter = {"mode": "dead_letters", "doc_ids": ["bad-a"]}
    preview = Run(dag, dry_run=True, **by_filter)
    assert preview.check() == everything
    assert preview.pushed["return_value"]["replay"]["sent"] == {second: 1}

    run = Run(dag, **by_filter)
    assert "drain_second" not in run.check()
    assert "drain_second" not in run.check(), "a retry of the check sends nothing again"
    assert pipeline.drain(second, "run-2").records == 1
    assert Run(dag, "manual__2", mode="dead_letters", nodes=["nowhere"]).check() == everything


@pytest.mark.stack
def test_a_replay_of_more_letters_than_allowed_fails_the_check_and_names_the_approval_dag(
    pipeline, dag, unique, monkeypatch
):
    pipeline.send(f"intake.{unique}", ["bad-a", "bad-b"])
    pipeline.drain(f"intake.{unique}", "run-1")
    pipeline.drain(f"pipestream.{unique}.second", "run-1")
    monkeypatch.setenv("PIPESTREAM_APPROVAL_LETTERS", "1")

    with pytest.raises(AirflowFailException, match=f"2 dead letters .* start the DAG pipestream_{unique}.approve"):
        Run(dag, mode="dead_letters").check()
    one = Run(dag, "manual__2", mode="dead_letters", doc_ids=["bad-a"])
    assert "drain_second" not in one.check(), "one is allowed"


class Told(BaseNotifier):
    """A notifier that keeps what it would send."""

    template_fields = ("text",)
    messages: ClassVar[list[str]] = []

    def __init__(self, text: str = "{{ dead_letters.message }}") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        assert context["dead_letters"].count
        self.messages.append(self.text)


class Broken(BaseNotifier):
    """A notifier whose server is down."""

    def notify(self, context: Any) -> None:
        raise ConnectionError("no answer")


@pytest.mark.stack
def test_a_run_with_a_new_error_or_many_dead_letters_notifies_once_and_others_do_not(
    pipeline, config_file, unique, monkeypatch
):
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))
    monkeypatch.setenv("PIPESTREAM_NOTIFY_SHARE", "0.6")
    monkeypatch.setattr(Told, "messages", [])
    notifiers = [Broken(), Told()]
    dag = build_graph_dag(pipeline.graph, pipeline.graph_file, pipeline.settings, on_dead_letters=notifiers)
    intake, second = f"intake.{unique}", f"pipestream.{unique}.second"

    def run(run_id: str, *doc_ids: str) -> list[str]:
        Told.messages.clear()
        pipeline.send(intake, doc_ids)
        for task_id, topic in ((f"drain_intake_{unique}", intake), ("drain_second", second)):
            pipeline.drain(topic, f"{dag.dag_id}/{run_id}/{task_id}")
        Run(dag, run_id).report()
        return list(Told.messages)

    assert run("manual__1", "good-1") == [], "no dead letters"
    (first,) = run("manual__2", "good-2", "bad-1")
    assert first.startswith(f"{unique}: 1 dead letter, with a new error\n50.0% of the records of {second}, in ")
    assert "1 x ModuleFailed at second (new, " in first
    assert first.endswith(f"/plugin/pipeline-dead-letters?pipeline={unique}")
    assert run("manual__3", "good-3", "bad-2") == [], "half of them failed, for a known reason"
    (last,) = run("manual__4", "bad-3", "bad-4")
    assert last.startswith(f"{unique}: 2 dead letters\n100.0% of the records")
    assert "2 x ModuleFailed at second (known, " in last


def test_the_settings_can_name_a_notifier_and_a_name_that_is_none_is_refused(monkeypatch):
    named = Settings(dead_letter_notifier="pipestream_testing.notices:to_file")

    assert find_notifiers(None, named) == [to_file]
    assert find_notifiers([], named) == [], "the DAG file decides"
    assert find_notifiers(None, Settings()) == []
    for wrong in ("pipestream_testing.notices:nothing", "no_such_module:x", "pipestream_testing.notices:NOT_ONE"):
        with pytest.raises(SettingsInvalid, match="dead_letter_notifier is"):
            find_notifiers(None, Settings(dead_letter_notifier=wrong))


@pytest.mark.stack
def test_a_stopped_topic_is_skipped_although_records_wait(pipeline, dag, unique):
    intake = f"intake.{unique}"
    pipeline.send(intake, ["a"])
    store = open_lease_store(pipeline.settings)
    store.register([intake])
    store.set_desired(intake, DesiredState(started=False))
    store.close()

    run = Run(dag)

    assert f"drain_intake_{unique}" in run.check()
    assert f"{intake} is stopped" in run.pushed["return_value"][f"drain_intake_{unique}"]


@pytest.mark.stack
def test_a_form_that_cannot_be_meant_fails_the_check_before_any_drain(dag):
    day = datetime(2026, 3, 1, tzinfo=UTC)
    backwards = {"since": day.isoformat(), "until": (day - timedelta(days=1)).isoformat()}

    with pytest.raises(AirflowFailException, match="must be before until"):
        Run(dag, mode="time_range", **backwards).check()


def test_a_drain_task_links_to_its_topic_its_ranges_and_its_dead_letters(task, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/prefix/")
    key = SimpleNamespace(dag_id="pipestream_sample", run_id="manual__1", task_id="drain_intake_files")

    links = {link.name: link.get_link(task, ti_key=key) for link in task.operator_extra_links}

    page = "https://airflow.example/prefix/plugin"
    assert links == {
        "Spark UI": "",
        "Topic": f"{page}/pipelines?pipeline=sample&node=parse",
        "Ledger": f"{page}/pipeline-ledger?pipeline=sample&topic=intake.files",
        "Dead letters": f"{page}/pipeline-dead-letters?pipeline=sample&node=parse",
    }
    ours = {entry["url_route"] for entry in PAGES}
    assert {urlsplit(link).path.rpartition("/")[2] for link in links.values() if link} <= ours


AGING = """
graph: aging
cluster: main
age_target_seconds: 60
datasources: [{id: files, account: acme, entry: parse, complete_hours: true}]
nodes: [{id: parse, type: connector}]
"""


@pytest.fixture
def warn(tmp_path, monkeypatch):
    """Makes the check of a graph look at the age of its documents, while the oldest record is so old."""
    file = tmp_path / "aging.yaml"
    file.write_text(AGING)
    settings = Settings(ledger_uri=tmp_path.as_uri(), leases="none")

    def warn(age_s: float, on_age_at_risk: Any) -> None:
        waits = TopicStanding("aging", "intake.files", 1, 0, age_s, True, False, held_slots=0, replicas=1)
        graph = load_graph(file)
        found = Standing((waits,), {}, (forecast_age(graph, [waits], {}),))
        monkeypatch.setattr("pipestream_airflow.check_operator.StandingView.find", lambda *_: found)
        dag = build_graph_dag(graph, file, settings, on_age_at_risk=on_age_at_risk)
        dag.task_dict["check"]._warn_of_age(Run(dag).context, settings)

    return warn


def test_the_check_tells_somebody_before_documents_get_too_old(warn):
    told: list[Any] = []

    warn(59, told.append)
    assert told == []
    warn(61, told.append)

    (context,) = told
    assert (context["age"].topic, context["age"].is_at_risk) == ("intake.files", True)
    assert context["run_id"] == "manual__1"


def test_a_notifier_that_fails_does_not_stop_the_run(warn):
    def fail(_: Any) -> None:
        raise ConnectionError("the messenger is down")

    warn(61, fail)


def test_a_check_that_finds_nothing_to_drain_leaves_the_hours_to_their_task(tmp_path):
    file = tmp_path / "aging.yaml"
    file.write_text(AGING)
    dag = build_graph_dag(load_graph(file), file, Settings())

    assert dag.task_dict["check"]._behind() == ["drain_intake_files", "report"]


def test_a_graph_that_drains_no_topic_has_runs_that_succeed(tmp_path):
    file = tmp_path / "none.yaml"
    file.write_text("""
graph: none
cluster: main
nodes: [{id: enter, type: connector}]
edges: [{from: enter, to: happy-end}]
""")
    run = Run(build_graph_dag(load_graph(file), file, Settings()))

    assert run.dag.task_dict["check"].execute(run.context) == {}


def test_a_dry_run_skips_every_task_also_the_one_that_starts_other_dags(tmp_path, monkeypatch):
    file = tmp_path / "aging.yaml"
    file.write_text(AGING)
    dag = build_graph_dag(load_graph(file), file, Settings())
    monkeypatch.setattr("pipestream_airflow.check_operator.CheckOperator.estimate", lambda *_: {})

    assert Run(dag, dry_run=True).check() == ["complete_hours", "drain_intake_files", "report"]


@pytest.mark.parametrize(("mode", "is_told"), [("catch_up", True), ("time_range", False)])
def test_a_backfill_does_not_warn_of_documents_that_it_does_not_drain(tmp_path, monkeypatch, mode, is_told):
    file = tmp_path / "aging.yaml"
    file.write_text(AGING)
    dag = build_graph_dag(load_graph(file), file, Settings())
    warned: list[object] = []
    check = "pipestream_airflow.check_operator.CheckOperator"
    monkeypatch.setattr(f"{check}._warn_of_age", lambda *_: warned.append(1))
    monkeypatch.setattr(f"{check}._examine", lambda *_: {"drain_intake_files": IDLE})

    Run(dag, mode=mode, since="2026-03-01T00:00:00Z" if mode == "time_range" else None).check()

    assert bool(warned) is is_told
