"""How many modules the walk of one document takes, counted while it walks; its page in docs says the number."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack

PAGE = Path(__file__).resolve().parents[2] / "docs" / "walk-of-a-document.md"
GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources: [{id: UNIQUE, account: acme, entry: first}]
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: second, module: "python:pipestream_testing.steps:pass_on"}
  - {id: third, module: "python:pipestream_testing.steps:pass_on"}
edges:
  - {from: first, to: second, transport: grpc, when: doc.doc_id != ""}
  - {from: second, to: third, when: doc.doc_id != ""}
"""


def _is_generated(code):
    return code.co_name == "<module>" or code.co_qualname.startswith("__create_fn__")


@contextmanager
def calls_noted(modules):
    """Note the product's modules in which a function is called meanwhile; generated code does not count."""

    def note(frame, event, _argument):
        name = frame.f_globals.get("__name__", "")
        # What runs while a module is imported is not a step of the walk, and neither is what a dataclass generates.
        if event == "call" and name.startswith("pipestream.") and not _is_generated(frame.f_code):
            modules.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_the_walk_takes_no_more_modules_than_its_page_says(settings, tmp_path, unique):
    file = tmp_path / "graph.yaml"
    file.write_text(GRAPH.replace("UNIQUE", unique))
    pipeline = Pipeline(settings, file)
    pipeline.create_topics()
    pipeline.send(f"intake.{unique}", ["d1"])
    modules: set[str] = set()

    with calls_noted(modules):
        report = pipeline.drain(f"intake.{unique}", "run-1")

    assert report.documents_out == {"second--third": 1}
    walked = sorted(name for name in modules if ".gen." not in name)
    stated = re.search(r"functions of (\d+) modules", PAGE.read_text())
    assert stated is not None
    assert len(walked) <= int(stated[1]), f"{len(walked)} modules: {', '.join(walked)}"
