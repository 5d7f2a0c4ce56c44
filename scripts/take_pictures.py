"""Take the pictures of docs/ui.md: documents through the sample graph on real servers, the pages in a real browser.

Takes about five minutes. ``--width`` and ``--folder`` show the pages as they are in another window.
"""

from __future__ import annotations

import argparse
import re
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import expect

from pipestream import apply_graph
from pipestream.connectors.ingest import ingest
from pipestream.graph.flow import DrainedTopic, drained_topics
from pipestream.ids import graph_dag_id
from pipestream.local import Stack, load_spec
from pipestream.samples.generate import SAMPLES, write_sample_documents
from pipestream_testing.chromium import run_browser
from pipestream_testing.pages import Visit, visit
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.registered_dags import register_dags
from pipestream_testing.web_server import web_server

REPOSITORY = Path(__file__).resolve().parent.parent
# A stack of its own, so that the pictures show the names of the sample graph and nothing else.
FOLDER = REPOSITORY / ".pipestream" / "pictures"
DOCUMENTS = 240
WAVES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "docs" / "images")
    parser.add_argument("--width", type=int, default=1280, help="of the window, in pixels")
    given = parser.parse_args()
    work = FOLDER / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "graphs").mkdir(parents=True)
    spec = load_spec(profile="embedded", folder=FOLDER, free_ports=True, durable=False)
    with Stack(spec).shared(print, names=("kafka", "postgres")) as stack:
        settings = stack.settings(
            graphs_folder=work / "graphs",
            sources_folder=work / "sources",
            ledger_uri=(work / "ledger").as_uri(),
            store_uri=(work / "store").as_uri(),
            web_timeout_s=60,
        )
        graph_file = shutil.copy(REPOSITORY / "dags" / "graphs" / "sample.yaml", settings.graphs_folder)
        pipeline = Pipeline(settings, Path(graph_file))
        fill(pipeline)
        register_dags(stack, settings, work)
        with (
            web_server(stack, settings, work) as web,
            run_browser() as browser,
            visit(browser, web, width=given.width) as page,
        ):
            given.folder.mkdir(parents=True, exist_ok=True)
            take_all(page, pipeline, given.folder)
            assert page.complaints == [], page.complaints


def fill(pipeline: Pipeline) -> None:
    """Bring the sample documents in and drain them, a part of them each minute. The last part waits after triage."""
    settings, graph = pipeline.settings, pipeline.graph
    apply_graph(pipeline.graph_file, applied_by="ada", settings=settings)
    for wave in range(1, WAVES + 1):
        if wave > 1:
            # The plots of the ledger show minutes.
            time.sleep(60 - time.time() % 60)
        write_sample_documents(settings.sources_folder / SAMPLES, DOCUMENTS * wave // WAVES)
        ingest(settings, graph.datasources[0])
        run_id = f"{graph_dag_id(graph.graph_id)}/manual__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
        topics = drained_topics(graph)
        for each in topics if wave < WAVES else topics[:1]:
            pipeline.drain(each.topic, f"{run_id}/{task_id(each)}")
        print(f"drained wave {wave} of {WAVES}")


def task_id(drained: DrainedTopic) -> str:
    """Return the name that the graph's DAG gives to the task."""
    return f"drain_intake_{drained.datasource_id}" if drained.datasource_id else f"drain_{drained.node_id}"


def take_all(page: Visit, pipeline: Pipeline, folder: Path) -> None:
    graph = pipeline.graph.graph_id
    page.open("pipelines", pipeline=graph)
    expect(page.node("parse-data").locator("[data-number=lag]")).to_have_text(re.compile("[1-9]"))
    take(page, folder / "ui-picture.png", height=745)

    page.open("pipelines", pipeline=graph, tab="edit")
    edit(page)
    take(page, folder / "ui-edit.png", height=1140)

    broken = next(each for each in pipeline.doc_ids("intake.sample-files") if each.startswith("broken-cut-off.json"))
    page.open("pipeline-documents", pipeline=graph, doc=broken)
    expect(page.page.get_by_label("Document after triage")).to_contain_text(broken)
    take(page, folder / "ui-document.png", height=900)

    page.open("pipeline-ledger", pipeline=graph, window="1 hour")
    expect(page.page.get_by_test_id("complete")).to_be_visible()
    expect(page.page.locator(".ps-plot canvas")).to_have_count(2)
    take(page, folder / "ui-ledger.png", height=1180)

    page.open("pipeline-dead-letters", pipeline=graph)
    expect(page.page.get_by_label("Dead letters", exact=True).get_by_text("broken-").first).to_be_visible()
    take(page, folder / "ui-dead-letters.png", height=1120)


def edit(page: Visit) -> None:
    """Let another node parse workbooks, and see what would change; nothing is applied."""
    editor = page.page.get_by_label("Graph, as YAML")
    text = editor.input_value()
    changed = text.replace('["CSV", "JSON"]', '["CSV", "JSON", "TABLE"]').replace('"WORD", "TABLE"]', '"WORD"]')
    editor.fill(changed)
    line = changed[: changed.index('"JSON", "TABLE"')].count("\n")
    editor.evaluate("(area, line) => { area.scrollTop = (line - 12) * 18; }", line)
    page.page.get_by_role("button", name="What would change").click()
    expect(page.page.get_by_test_id("preview")).to_be_visible()
    compare = page.page.get_by_label("Compare with what was drained")
    compare.get_by_role("button", name="Compare").click()
    expect(compare.get_by_test_id("comparison")).to_be_visible()


def take(page: Visit, file: Path, height: int) -> None:
    """Take a picture of the window when everything that the page asked for is there."""
    expect(page.page.locator(".pipestream [role=status]")).to_have_count(0)
    page.page.set_viewport_size({**page.page.viewport_size, "height": height})
    page.page.locator(".pipestream").evaluate("box => box.scrollTo(0, 0)")
    page.page.screenshot(path=file, animations="disabled")
    print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
