"""What a person does with the pages, in a real browser on a running Airflow with real Kafka."""

from __future__ import annotations

import re
import uuid
from contextlib import closing
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from pipestream.ids import graph_dag_id
from pipestream.leases import open_lease_store
from pipestream_testing.pages import Visit, visit
from pipestream_testing.web_server import PASSWORD, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.stack, pytest.mark.airflow]

HOSTILE = "<img src=x onerror=\"globalThis.hacked='yes'\">"
"""A title that would run a script, if a page did not escape it."""


def test_after_signing_in_a_person_finds_the_picture_in_the_navigation(
    browser: Browser, web: WebServer, pipeline: Pipeline
) -> None:
    with visit(browser, web, user="") as page:
        page.expected_statuses = (401,)
        page.page.goto(web.address)
        page.page.get_by_label("Username").fill("admin")
        page.page.get_by_label("Password").fill(PASSWORD)
        page.page.get_by_role("button", name=re.compile("sign in", re.IGNORECASE)).click()
        page.page.get_by_role("link", name="Pipelines").first.click()
        page.page.get_by_label(f"Pipeline {pipeline.graph.graph_id}").click()
        for node in ("first", "second", "fused", "happy-end"):
            expect(page.node(node)).to_be_visible()
        assert page.complaints == []


def test_the_numbers_of_the_picture_change_after_a_drain(page: Visit, pipeline: Pipeline) -> None:
    unique = pipeline.graph.graph_id
    pipeline.send(f"intake.{unique}", ["one", "two", "three"])
    page.open("pipelines", pipeline=unique)
    expect(page.node("first").locator("[data-number=lag]")).to_have_text("3 waiting")
    pipeline.drain(f"intake.{unique}", f"run-{uuid.uuid4()}")
    expect(page.node("first").locator("[data-number=lag]")).to_have_text("0 waiting")
    expect(page.node("second").locator("[data-number=lag]")).not_to_have_text("0 waiting")
    expect(page.node("second")).to_contain_text(re.compile("[1-9] dead"))
    page.node("second").click()
    details = page.page.get_by_label("Details", exact=True)
    expect(details).to_contain_text("python:pipestream_testing.steps:fail_on_bad")
    expect(details).to_contain_text(f"pipestream.{unique}.second")


def test_an_edge_shows_how_often_its_condition_was_true_and_false(page: Visit, pipeline: Pipeline) -> None:
    dead = next(edge.edge_id for edge in pipeline.graph.edges if edge.to_node_id == "fused")
    page.open("pipelines", pipeline=pipeline.graph.graph_id, edge=dead)
    expect(page.page.locator(f'[data-counts="{dead}"]')).to_have_text(re.compile("✓ 0.*✗ [1-9]"))
    expect(page.page.get_by_test_id("decided")).to_contain_text("Never true")


def test_a_run_is_started_from_the_page(page: Visit, web: WebServer, pipeline: Pipeline) -> None:
    dag = graph_dag_id(pipeline.graph.graph_id)
    page.open("pipelines", pipeline=pipeline.graph.graph_id)
    page.page.get_by_role("button", name="Run now").click()
    dialog = page.page.get_by_role("alertdialog")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(dialog.get_by_test_id("started")).to_be_visible()
    (run,) = web.call("GET", f"/api/v2/dags/{dag}/dagRuns?run_type=manual").json()["dag_runs"]
    assert run["state"] == "queued"


def test_a_backfill_is_created_from_the_page(page: Visit, web: WebServer, pipeline: Pipeline) -> None:
    dag = graph_dag_id(pipeline.graph.graph_id)
    page.open("pipelines", pipeline=pipeline.graph.graph_id)
    page.page.get_by_role("button", name="Backfill").click()
    dialog = page.page.get_by_role("alertdialog")
    dialog.get_by_label("From (UTC)").fill("2026-11-01T00:00")
    dialog.get_by_label("To (UTC)").fill("2026-11-01T02:00")
    dialog.get_by_role("button", name="How many runs").click()
    expect(dialog.get_by_test_id("backfill-runs")).to_have_text("3 runs")
    dialog.get_by_role("button", name="Create the backfill").click()
    expect(dialog.get_by_test_id("started")).to_be_visible()
    (made,) = web.call("GET", f"/api/v2/backfills?dag_id={dag}").json()["backfills"]
    assert (made["from_date"], made["to_date"]) == ("2026-11-01T00:00:00Z", "2026-11-01T02:00:00Z")


def test_a_changed_graph_is_compared_before_it_is_applied(page: Visit, pipeline: Pipeline) -> None:
    page.open("pipelines", pipeline=pipeline.graph.graph_id, tab="edit")
    editor = page.page.get_by_label("Graph, as YAML")
    editor.fill(editor.input_value().replace('startsWith("fused")', 'startsWith("bad")'))
    compare = page.page.get_by_label("Compare with what was drained")
    compare.get_by_role("button", name="Compare").click()
    found = compare.get_by_test_id("comparison")
    expect(found).to_contain_text("come out differently")
    bad = found.get_by_label("Document bad-one").first
    expect(bad).to_contain_text("dead letter: second")
    expect(bad).to_contain_text("first--fused")


def test_a_condition_is_tried_on_a_pasted_document(page: Visit, pipeline: Pipeline) -> None:
    page.open("pipelines", pipeline=pipeline.graph.graph_id, edge=pipeline.graph.edges[0].edge_id)
    details = page.page.get_by_label("Details", exact=True)
    details.get_by_label("Document, as JSON").fill('{"doc_id": "d", "search_metadata": {"title": "fused-one"}}')
    details.get_by_role("button", name="Try the condition").click()
    expect(details.get_by_test_id("verdict")).to_contain_text("False")
    details.get_by_label("Condition", exact=True).last.fill("doc.search_metadata.titel == 'x'")
    details.get_by_role("button", name="Try the condition").click()
    expect(details.get_by_test_id("verdict")).to_contain_text("titel")


def test_the_receipt_of_a_document_shows_its_way_and_what_is_stored(page: Visit, pipeline: Pipeline) -> None:
    unique = pipeline.graph.graph_id
    page.open("pipeline-documents", pipeline=unique)
    page.page.get_by_label("Document id").fill("bad-one")
    page.page.get_by_role("button", name="Show").click()
    way = page.page.get_by_test_id("way")
    expect(way).to_contain_text(f"intake.{unique} · partition 0")
    expect(way).to_contain_text("run-1")
    expect(way).to_contain_text(f"pipestream.{unique}.second")
    page.see("Stored documents, side by side")
    expect(page.page.get_by_label("Document after first")).to_contain_text('"doc_id": "bad-one"')


def test_replicas_that_are_set_are_what_leases_are_given_by(page: Visit, pipeline: Pipeline) -> None:
    unique = pipeline.graph.graph_id
    page.open("pipeline-state", pipeline=unique)
    page.page.get_by_label("Replicas").fill("2")
    page.page.get_by_role("button", name="Set").click()
    expect(page.page.locator(f'[data-replicas="intake.{unique}"]')).to_have_text("2")
    with closing(open_lease_store(pipeline.settings)) as leases:
        assert leases.desired(f"intake.{unique}").replicas == 2


def test_a_datasource_that_is_paused_says_what_was_not_done(page: Visit, own: Path) -> None:
    # The new text is first written next to the file, under a longer name, which no folder takes of this one.
    unwritable = own.rename(own.with_name(f"{'x' * 245}.yaml"))
    page.open("pipeline-state", pipeline=own.stem)
    page.page.locator('[data-scope="switch"][data-part="control"]').click()
    changed = page.page.get_by_test_id("datasource-changed")
    expect(changed).to_contain_text(f"{own.stem} is paused in version 2")
    expect(changed).to_contain_text("its file was not written: File name too long")
    assert "paused" not in unwritable.read_text()
    unwritable.unlink()


def test_a_dead_letter_is_replayed_after_its_dry_run(page: Visit, pipeline: Pipeline) -> None:
    unique = pipeline.graph.graph_id
    page.open("pipeline-dead-letters", pipeline=unique)
    page.page.get_by_role("button", name="bad-one").click()
    letter = page.page.get_by_label("Dead letter", exact=True)
    expect(letter.get_by_label("Document", exact=True)).to_contain_text('"doc_id": "bad-one"')
    letter.get_by_role("button", name="Replay").click()
    dialog = page.page.get_by_role("alertdialog")
    expect(dialog.get_by_test_id("dry-run")).to_contain_text("replayed: 1")
    before = pipeline.doc_ids(f"pipestream.{unique}.second")["bad-one"]
    dialog.get_by_role("button", name="Replay").click()
    expect(dialog.get_by_test_id("acted")).to_contain_text("replayed: 1")
    assert pipeline.doc_ids(f"pipestream.{unique}.second")["bad-one"] == before + 1


def test_a_graph_with_an_error_shows_it_at_its_line(page: Visit, pipeline: Pipeline) -> None:
    page.open("pipelines", pipeline=pipeline.graph.graph_id, tab="edit")
    editor = page.page.get_by_label("Graph, as YAML")
    text = editor.input_value()
    broken = text.replace('doc.search_metadata.title.startsWith("fused")\n', 'doc.search_metadata.titel == ""\n')
    assert broken != text
    line = 1 + broken[: broken.index("titel")].count("\n")
    editor.fill(broken)
    problems = page.page.get_by_test_id("problems")
    expect(problems).to_contain_text("titel")
    # The mark stands below the place that it points at.
    shown = problems.get_by_label("Place in the condition").inner_text().rstrip().splitlines()
    assert shown[0][len(shown[-1]) - 1 :].startswith(".titel")
    expect(page.page.locator(f'.ps-bad[data-line="{line}"]')).to_be_visible()
    expect(page.page.get_by_role("button", name="Apply")).to_be_disabled()


@pytest.fixture
def own(web: WebServer, pipeline: Pipeline, unique: str) -> Iterator[Path]:
    """The file of a graph of the test's own, which is applied."""
    text = f"graph: {unique}\ncluster: {unique}\n"
    text += f"datasources: [{{id: {unique}, account: acme, entry: only}}]\nnodes: [{{id: only, type: connector}}]\n"
    assert web.call("POST", "/pipestream/api/pipelines?write_file=true", text).status == 201
    file = pipeline.graph_file.with_name(f"{unique}.yaml")
    yield file
    file.unlink(missing_ok=True)


def test_a_text_outlives_a_look_at_another_page_and_the_version_of_somebody_else(
    page: Visit, web: WebServer, own: Path
) -> None:
    text = own.read_text()
    page.open("pipelines", pipeline=own.stem, tab="edit")
    editor = page.page.get_by_label("Graph, as YAML")
    editor.fill(f"{text}# mine\n")
    page.page.get_by_role("link", name="State", exact=True).click()
    page.see("Assignments")
    theirs = text.replace("type: connector", "type: connector, timeout_s: 7")
    web.call("PUT", f"/pipestream/api/pipelines/{own.stem}?base_version=1&write_file=true", theirs)
    page.page.locator(".pipestream nav").get_by_role("link", name="Pipelines").click()
    page.page.get_by_label(f"Pipeline {own.stem}").click()
    page.page.get_by_role("tab", name="Edit").click()
    expect(editor).to_have_value(f"{text}# mine\n")
    page.see("Version 2 is active now. Your text began with version 1.")
    expect(page.page.get_by_role("button", name="Apply")).to_be_disabled()
    page.page.get_by_role("button", name="Keep my text").click()
    page.page.get_by_role("button", name="Apply").click()
    expect(page.page.get_by_test_id("applied")).to_contain_text("Version 1 is active")
    assert own.read_text() == f"{text}# mine\n"


def test_a_rollback_also_writes_the_file_that_runs_use(page: Visit, web: WebServer, own: Path) -> None:
    changed = own.read_text().replace("type: connector", "type: connector, timeout_s: 7")
    web.call("PUT", f"/pipestream/api/pipelines/{own.stem}?base_version=1&write_file=true", changed)
    page.open("pipelines", pipeline=own.stem, tab="history")
    page.page.get_by_role("button", name="Roll back to this").click()
    page.page.get_by_role("alertdialog").get_by_role("button", name="Roll back").click()
    expect(page.page.get_by_test_id("rolled-back")).to_contain_text(f"{own.name} is written")
    assert "timeout_s" not in own.read_text()


def test_a_file_that_is_not_what_is_active_can_be_loaded(page: Visit, own: Path) -> None:
    own.write_text(own.read_text().replace("type: connector", "type: connector, timeout_s: 7"))
    page.open("pipelines", pipeline=own.stem, tab="edit")
    expect(page.page.get_by_test_id("file-differs")).to_contain_text(own.name)
    page.page.get_by_role("button", name="Edit the file's text").click()
    expect(page.page.get_by_label("Graph, as YAML")).to_have_value(re.compile("timeout_s: 7"))
    page.page.get_by_role("button", name="Apply").click()
    expect(page.page.get_by_test_id("applied")).to_contain_text("Version 2 is active")
    expect(page.page.get_by_test_id("file-differs")).to_have_count(0)


def test_times_are_in_the_zone_that_airflow_shows(page: Visit, pipeline: Pipeline) -> None:
    recorded = pipeline.entries(f"intake.{pipeline.graph.graph_id}")[0].entered_at
    page.page.add_init_script("localStorage.setItem('timezone', JSON.stringify('Asia/Kathmandu'))")
    page.open("pipeline-documents", pipeline=pipeline.graph.graph_id, doc="good")
    page.see(f"{recorded.astimezone(ZoneInfo('Asia/Kathmandu')):%Y-%m-%d %H:%M:%S}")


def test_a_pipeline_is_deleted_after_a_question(page: Visit, web: WebServer, pipeline: Pipeline, own: Path) -> None:
    unique = own.stem
    # 404: a question about the pipeline may be on its way when it goes, and its DAG is not registered here.
    page.expected_statuses = (404, 409)
    page.open("pipelines", pipeline=unique)
    page.page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.page.get_by_role("alertdialog")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog).to_contain_text("stop the pipeline first")
    web.call("PATCH", f"/pipestream/api/pipelines/{unique}/state", {"desired": "stopped"})
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.page.get_by_label(f"Pipeline {pipeline.graph.graph_id}")).to_be_visible()
    expect(page.page.get_by_label(f"Pipeline {unique}")).to_have_count(0)
    assert not own.exists()


def test_text_of_a_document_is_shown_and_never_run(page: Visit, pipeline: Pipeline) -> None:
    unique = pipeline.graph.graph_id
    pipeline.send(f"intake.{unique}", ["hostile"])
    found = pipeline.read(f"intake.{unique}")[-1].stream
    found.document.doc_id = "hostile-2"
    found.document.search_metadata.title = f"bad {HOSTILE}"
    pipeline.send_streams(f"intake.{unique}", [found])
    pipeline.drain(f"intake.{unique}", f"run-{uuid.uuid4()}")
    page.open("pipeline-documents", pipeline=unique, doc="hostile-2")
    expect(page.page.get_by_label("Document after first")).to_contain_text("<img src=x onerror=")
    assert page.page.evaluate("globalThis.hacked") is None
