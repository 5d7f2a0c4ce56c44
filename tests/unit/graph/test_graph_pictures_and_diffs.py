from __future__ import annotations

import io
from xml.etree import ElementTree

from rich.console import Console

from pipestream.graph.diff import diff_graphs
from pipestream.graph.layout import arrange, boxes_of, links_of
from pipestream.graph.load import check_graph_text
from pipestream.graph.show import show_edges, show_graph, to_mermaid, to_svg

TEXT = """\
graph: sample
cluster: main
name: <b>"bold" & [red]brash[/red]
datasources: [{id: files, account: demo, entry: triage}]
nodes:
  - {id: triage, type: connector}
  - {id: parse, module: "python:json:loads"}
edges:
  - {from: triage, to: parse, when: 'doc.search_metadata.title < "a" && true', priority: 10}
  - {from: parse, to: triage, max_hops: 3, transport: grpc}
  - {from: parse, to: happy-end}
  - {from: parse, to: far, cluster: other}
"""


def graph_of(text=TEXT):
    return check_graph_text(text.encode(), "graph.yaml").require()


def printed(renderable):
    out = io.StringIO()
    Console(file=out, width=160).print(renderable)
    return out.getvalue()


def test_the_terminal_shows_nodes_and_edges_with_all_that_matters():
    lines = printed(show_graph(graph_of())).splitlines()

    assert lines[0].startswith('sample  cluster main  <b>"bold" & [red]brash[/red]')
    assert lines[1] == "└── intake.files"
    assert '─kafka→  parse  python:json:loads  when doc.search_metadata.title < "a" && true  priority 10' in lines[3]
    assert any("─grpc→  triage  (above)  at most 3 times" in line for line in lines)
    assert any("─kafka→  other:far" in line for line in lines)
    assert any("─kafka→  happy-end  end" in line for line in lines)


def test_the_table_of_edges_names_their_topics():
    table = printed(show_edges(graph_of()))

    assert "pipestream.main.parse" in table
    assert "bridge.other.far" in table
    assert "always" in table


def test_mermaid_draws_fused_edges_dashed_and_quotes_conditions():
    text = to_mermaid(graph_of())

    assert 'b0[("files")]' in text
    assert 'b1 -->|"doc.search_metadata.title #60; #34;a#34; #38;#38; true · priority 10"| b2' in text
    assert 'b2 -.->|"at most 3 times · gRPC"| b1' in text


def test_svg_is_xml_with_every_box_and_line():
    root = ElementTree.fromstring(to_svg(graph_of()))
    svg = "{http://www.w3.org/2000/svg}"
    titles = [element.text for element in root.iter(f"{svg}title")]

    assert titles[0] == 'sample: <b>"bold" & [red]brash[/red]'
    assert 'doc.search_metadata.title < "a" && true · priority 10' in titles
    assert len(root.findall(f".//{svg}rect")) == 1 + 5
    assert len(root.findall(f".//{svg}path[@marker-end]")) == 5


def test_boxes_stand_after_those_that_lead_to_them():
    graph = graph_of()
    layers = [[box.key for box in layer] for layer in arrange(boxes_of(graph), links_of(graph))]

    assert layers[:3] == [["datasource:files"], ["triage"], ["parse"]]
    assert sorted(layers[3]) == ["happy-end", "other:far"]


def test_a_node_without_edges_is_drawn_to_the_happy_end():
    graph = graph_of("graph: g\ncluster: main\nnodes: [{id: a, type: connector}]\n")

    assert [(link.start, link.end) for link in links_of(graph)] == [("a", "happy-end")]


def test_a_difference_reads_like_a_list_of_changes():
    new = TEXT.replace("priority: 10", "priority: 20").replace("  - {from: parse, to: far, cluster: other}\n", "")
    new = new.replace("  - {id: parse,", "  - {id: new, type: connector}\n  - {id: parse, timeout_s: 5,")

    assert [str(change) for change in diff_graphs(graph_of(), graph_of(new))] == [
        "+ node new",
        "+ node parse: timeout_s = 5.0",
        "- edge parse--far",
        "~ edge triage--parse: priority 10 → 20",
    ]
