"""The pages in the sizes and themes that people have, and with parts that do not answer. Slow: many page loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from pipestream.ids import graph_dag_id
from pipestream_testing.pages import Visit, visit
from pipestream_testing.web_server import WebServer, web_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

    from pipestream.local import Stack
    from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.stack, pytest.mark.airflow, pytest.mark.slow]

ROUTES = ("pipelines", "pipeline-documents", "pipeline-state", "pipeline-ledger", "pipeline-dead-letters")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_no_page_is_wider_than_the_window(
    browser: Browser, web: WebServer, pipeline: Pipeline, width: int, theme: Literal["light", "dark"]
) -> None:
    with visit(browser, web, width=width, theme=theme) as page:
        for route in ROUTES:
            page.open(route, pipeline=pipeline.graph.graph_id, doc="good")
            expect(page.page.locator(".pipestream [role=status]")).to_have_count(0)
            box = page.page.locator(".pipestream")
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), route
            assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), route
            expect(page.page.locator(".pipestream nav [aria-current=page]")).to_be_in_viewport(ratio=0.99)
        assert page.complaints == []


@pytest.fixture(scope="module")
def long_name(pipeline: Pipeline) -> str:
    """The long id of a document that fails at its second node, drained by runs with the long names of Airflow's."""
    unique = pipeline.graph.graph_id
    doc_id = "bad-report-of-the-third-quarter.pdf-1b507fa1d62a2fb0"
    pipeline.send(f"intake.{unique}", [doc_id])
    run = f"{graph_dag_id(unique)}/manual__2026-11-01T00:00:00+00:00"
    pipeline.drain(f"intake.{unique}", f"{run}/drain_intake_{unique}")
    pipeline.drain(f"pipestream.{unique}.second", f"{run}/drain_second")
    return doc_id


@pytest.mark.parametrize(
    ("route", "table", "role", "name"),
    [
        ("pipeline-documents", "Processing", "columnheader", "Module"),
        ("pipeline-ledger", "Runs", "columnheader", "Took"),
        ("pipeline-dead-letters", "Dead letters by reason", "button", "Quarantine"),
        ("pipeline-dead-letters", "Dead letters", "columnheader", "State"),
    ],
)
def test_on_a_tablet_the_columns_that_matter_are_seen_without_scrolling_sideways(
    browser: Browser,
    web: WebServer,
    pipeline: Pipeline,
    long_name: str,
    route: str,
    table: str,
    role: Literal["columnheader", "button"],
    name: str,
) -> None:
    with visit(browser, web, width=768) as page:
        page.open(route, pipeline=pipeline.graph.graph_id, doc=long_name)
        shown = page.page.get_by_role("table", name=table, exact=True)
        part = shown.get_by_role(role, name=name, exact=True).first
        expect(part).to_be_visible()
        assert right_edge(part) <= right_edge(shown.locator("xpath=.."))
        assert page.complaints == []


def right_edge(part: Locator) -> float:
    return part.evaluate("part => part.getBoundingClientRect().right")


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_the_buttons_of_the_picture_cover_no_part_of_it(
    browser: Browser, web: WebServer, pipeline: Pipeline, width: int
) -> None:
    with visit(browser, web, width=width) as page:
        page.open("pipelines", pipeline=pipeline.graph.graph_id)
        expect(page.node("second")).to_be_attached()
        graph = page.page.locator(".pipestream svg:has([data-node])").bounding_box()
        button = page.page.get_by_role("button", name="Show all").bounding_box()
        assert graph
        assert button
        assert button["y"] + button["height"] <= graph["y"]


def test_the_picture_is_used_with_the_keyboard_alone(page: Visit, pipeline: Pipeline) -> None:
    page.open("pipelines", pipeline=pipeline.graph.graph_id)
    page.node("second").focus()
    page.page.keyboard.press("Enter")
    details = page.page.get_by_label("Details", exact=True)
    expect(details).to_contain_text("fail_on_bad")
    details.get_by_role("button", name="Close details").press("Enter")
    expect(details).to_have_count(0)


def test_on_a_phone_a_focused_node_and_its_details_come_into_view(
    browser: Browser, web: WebServer, pipeline: Pipeline
) -> None:
    with visit(browser, web, width=390) as page:
        page.open("pipelines", pipeline=pipeline.graph.graph_id)
        expect(page.node("second")).not_to_be_in_viewport()
        page.page.get_by_role("button", name="Zoom in").focus()
        while page.page.evaluate("document.activeElement.dataset.node") != "second":
            page.page.keyboard.press("Tab")
        expect(page.node("second")).to_be_in_viewport(ratio=1)
        page.page.keyboard.press("Enter")
        expect(page.page.get_by_label("Details", exact=True).get_by_role("heading").first).to_be_in_viewport()
        assert page.complaints == []


def test_a_viewer_sees_why_a_change_was_refused(browser: Browser, web: WebServer, pipeline: Pipeline) -> None:
    with visit(browser, web, user="viewer") as page:
        page.expected_statuses = (403,)
        page.open("pipeline-state", pipeline=pipeline.graph.graph_id)
        page.page.get_by_role("button", name="Stop all topics").click()
        page.see("Nothing was changed")
        page.see("you may not edit")
        assert page.complaints == []


def test_without_leases_a_banner_says_so_and_the_replicas_cannot_be_set(
    browser: Browser, stack: Stack, pipeline: Pipeline, tmp_path: Path
) -> None:
    changes = {"graphs_folder": pipeline.graph_file.parent, "leases": "none", "web_timeout_s": 60.0}
    with (
        web_server(stack, pipeline.settings.model_copy(update=changes), tmp_path) as web,
        visit(browser, web) as page,
    ):
        page.open("pipeline-state", pipeline=pipeline.graph.graph_id)
        expect(page.page.get_by_test_id("no-leases")).to_be_visible()
        expect(page.page.get_by_label("Replicas")).to_be_disabled()
        assert page.complaints == []


def test_an_unreachable_kafka_takes_only_its_numbers_from_the_page(
    browser: Browser, stack: Stack, pipeline: Pipeline, tmp_path: Path
) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "broken.yaml").write_text("graph: broken\nnodes: 7\n")
    changes = {"graphs_folder": folder, "kafka_bootstrap": "127.0.0.1:1", "web_timeout_s": 5.0}
    with (
        web_server(stack, pipeline.settings.model_copy(update=changes), tmp_path) as web,
        visit(browser, web) as page,
    ):
        page.open("pipelines")
        expect(page.page.get_by_label("Pipeline broken")).to_contain_text("problems")
        page.see("Kafka does not answer")
        page.page.get_by_label(f"Pipeline {pipeline.graph.graph_id}").click()
        expect(page.node("second")).to_be_visible()
        page.see("Kafka does not answer")
        page.page.get_by_role("tab", name="Edit").click()
        expect(page.page.get_by_label("Graph, as YAML")).to_have_value(re.compile("^graph: "))
