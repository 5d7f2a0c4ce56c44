"""Pausing a datasource changes one word or one line of a graph's file."""

from __future__ import annotations

import pytest

from pipestream.graph.load import check_graph_text
from pipestream.graph.pause_text import pause_in_text

REST = "nodes: [{id: n, type: connector}] # the only node\n"


def written(datasources: str) -> str:
    return f"# ours\ngraph: g\ncluster: main\ndatasources:\n{datasources}\n{REST}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  - {id: d, account: a, entry: n}", "  - {id: d, paused: true, account: a, entry: n}"),
        ("  - {entry: n, account: a, id: d,}", "  - {entry: n, account: a, id: d, paused: true,}"),
        ("  - {id: d, paused: false, account: a, entry: n}", "  - {id: d, paused: true, account: a, entry: n}"),
        (
            "- id: d   # ours\n  account: a\n  entry: n",
            "- id: d   # ours\n  paused: true\n  account: a\n  entry: n",
        ),
        (
            "  - account: a\r\n    id: d\r\n    entry: n\r",
            "  - account: a\r\n    id: d\r\n    paused: true\r\n    entry: n\r",
        ),
        (
            "  - {id: e, account: a, entry: n}\n  - account: a\n    entry: n\n    id: 'd'",
            "  - {id: e, account: a, entry: n}\n  - account: a\n    entry: n\n    id: 'd'\n    paused: true",
        ),
    ],
)
def test_pausing_keeps_everything_else_of_the_text(before, after):
    assert pause_in_text(written(before), "d", paused=True) == written(after)


def test_resuming_undoes_pausing():
    text = written("  - {id: d, paused: true, account: a, entry: n}")

    resumed = pause_in_text(text, "d", paused=False)

    assert resumed == text.replace("paused: true", "paused: false")
    graph = check_graph_text(resumed.encode(), "graph").graph
    assert graph is not None
    assert not graph.datasource_by_id["d"].paused


def test_a_last_line_without_an_end_gets_one():
    text = f"graph: g\ncluster: main\n{REST}datasources:\n- account: a\n  entry: n\n  id: d"

    assert pause_in_text(text, "d", paused=True) == f"{text}\n  paused: true\n"


@pytest.mark.parametrize("text", ["", "graph: [", "graph: g\ncluster: main\n" + REST, "- 1\n", "datasources: [7]\n"])
def test_a_text_without_the_datasource_is_refused(text):
    with pytest.raises(ValueError, match="d cannot be edited"):
        pause_in_text(text, "d", paused=True)
