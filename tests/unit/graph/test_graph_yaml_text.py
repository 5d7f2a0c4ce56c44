"""What the YAML of a graph file may look like."""

from __future__ import annotations

import pytest

from pipestream.errors import GraphInvalid
from pipestream.graph.load import check_graph_file, check_graph_text, load_graph
from pipestream.graph.yamltree import MAX_BYTES, Mapping, Scalar, Sequence, YamlInvalid, parse_yaml


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        pytest.param(b"", None, "is empty", id="empty"),
        pytest.param(b"# only a comment\n", None, "is empty", id="only a comment"),
        pytest.param(b"graph: [a\nnodes: b\n", 2, "not YAML", id="bracket left open"),
        pytest.param(b"graph: a\n  b: c\n", 2, "not YAML", id="indented wrongly"),
        pytest.param(b"graph: a\n\tb: c\n", 2, "not YAML", id="tab"),
        pytest.param(b"graph: a\nname: \xff\n", 2, "not UTF-8", id="not UTF-8"),
        pytest.param(b"graph: a\nname: \x00\n", 2, "not YAML", id="control character"),
        pytest.param("graph: a".encode("utf-16"), 1, "not UTF-8", id="UTF-16"),
        pytest.param(b"graph: a\n---\ngraph: b\n", 2, "second document", id="two documents"),
        pytest.param(b"graph: &x a\nname: *x\n", 2, "alias *x is not accepted", id="alias"),
        pytest.param(b"a: &a [x, x]\nb: [*a, *a]\n", 2, "alias *a", id="bomb"),
        pytest.param(b"graph: !!python/object:os.system x\n", 1, "tag tag:yaml.org,2002:python", id="python object"),
        pytest.param(b"graph: !!str a\n", 1, "tag", id="harmless tag"),
        pytest.param(b"? [a]\n: b\n", 1, "a key must be a single word", id="list as a key"),
        pytest.param(b"[" * 100_000, 1, "nested more than 40 deep", id="deep"),
        pytest.param(b"graph: " + b"9" * 5_000, 1, "a number of 5000 characters", id="endless number"),
        pytest.param(b"x" * (MAX_BYTES + 1), None, "a graph has at most", id="too large"),
    ],
)
def test_refuses_text_with_its_line(data, line, message):
    (problem,) = check_graph_text(data, "graph.yaml").problems

    assert (problem.field, problem.line) == ("file", line)
    assert message in problem.message


@pytest.mark.parametrize("data", [b"just text", b"- a\n- b\n", b"12", b"~", b"true"])
def test_refuses_yaml_that_is_not_a_mapping(data):
    (problem,) = check_graph_text(data, "graph.yaml").problems

    assert "expected a mapping" in problem.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("0o17", "0o17"),
        ("010", 10),
        ("1_000", "1_000"),
        ("2026-01-01", "2026-01-01"),
        ("<<", "<<"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("|\n  12\n", "12\n"),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(text, value):
    tree = parse_yaml(f"key: {text}".encode())

    assert isinstance(tree, Mapping)
    ((key, found),) = tree.entries
    assert (key.value, found) == ("key", Scalar(1, value))
    assert type(found.value) is type(value)


def test_a_tree_knows_its_lines():
    tree = parse_yaml(b"a:\n  - b\n  - c: d\n")

    assert tree == Mapping(
        1, [(Scalar(1, "a"), Sequence(2, [Scalar(2, "b"), Mapping(3, [(Scalar(3, "c"), Scalar(3, "d"))])]))]
    )


def test_a_byte_order_mark_is_not_part_of_the_text():
    assert parse_yaml(b"\xef\xbb\xbfa: 1") == Mapping(1, [(Scalar(1, "a"), Scalar(1, 1))])


def test_a_deep_tree_that_is_still_accepted_has_no_problem():
    depth = 39
    assert parse_yaml(b"[" * depth + b"]" * depth) is not None
    with pytest.raises(YamlInvalid):
        parse_yaml(b"[" * 41 + b"]" * 41)


def test_a_missing_file_is_a_graph_that_is_invalid(tmp_path):
    with pytest.raises(GraphInvalid, match="cannot be read: No such file or directory"):
        load_graph(tmp_path / "nothing.yaml")


def test_a_missing_file_names_the_graphs_that_are_there(tmp_path):
    (tmp_path / "letters.yaml").touch()

    (beside,) = check_graph_file(tmp_path / "leters.yaml").problems
    (elsewhere,) = check_graph_file(tmp_path / "nowhere" / "letters.yaml").problems

    assert beside.hint == f"the graphs in {tmp_path} are letters.yaml"
    assert elsewhere.hint == f"there is no folder {tmp_path / 'nowhere'} here; change to your project's folder"


def test_a_folder_is_not_a_graph(tmp_path):
    (problem,) = check_graph_file(tmp_path).problems

    assert "cannot be read" in problem.message
