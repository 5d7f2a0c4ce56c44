from __future__ import annotations

import pytest

from pipestream.errors import SettingsInvalid
from pipestream.routing.conditions import check_condition, check_expression
from pipestream.routing.engine import open_engine
from pipestream.routing.problems import with_caret

DOUBLINGS = "[[1, 1]]" + ".map(l, l + l)" * 26 + ".size() == 1"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        pytest.param("doc.search_metadata.mime == 'x'", 1, 20, "undefined field 'mime'", id="unknown field"),
        pytest.param(
            "doc.search_metadata.content_lenth > 5", 1, 20, "(did you mean content_length?)", id="misspelt field"
        ),
        pytest.param("doc.doc_id == 1", 1, 12, "no matching overload for '_==_'", id="wrong type"),
        pytest.param("doc.doc_id", 1, 1, "must be true or false, not string", id="text"),
        pytest.param("  1 + 1", 1, 3, "must be true or false, not int", id="number"),
        pytest.param("doc.search_metadata.custom_fields.x", 1, 1, "known only when it runs", id="dynamic"),
        pytest.param("true &&\n  nothing", 2, 3, "undeclared reference to 'nothing'", id="unknown name"),
        pytest.param("1 +", 1, 4, "mismatched input the end", id="ends early"),
        pytest.param("doc.doc_id == 'a", 1, 15, "Syntax error", id="open quote"),
        pytest.param("doc.doc_id.shout() == 'A'", 1, 12, "no function shout()", id="unknown function"),
        pytest.param("PipeDoc{} == doc", 1, 1, "cannot build messages", id="message literal"),
        pytest.param("doc.doc_id.matches('(')", 1, 20, "bad pattern: missing )", id="bad pattern"),
        pytest.param(
            "doc.doc_id.matches(stream.stream_id)", 1, 12, "must be written out", id="pattern from a document"
        ),
        pytest.param("has(doc)", 1, 1, "has() takes one field", id="has without a field"),
        pytest.param("[1].all(x.y, true)", 1, 9, "must be a plain name", id="bad variable"),
        pytest.param("{1: 2, 'a': 3}.size() == 2", 1, 1, "literals of one type", id="mixed keys"),
        pytest.param("", 1, 1, "empty", id="empty"),
        pytest.param("'\\q' == doc.doc_id", 1, 1, "not an escape", id="bad escape"),
        pytest.param("99999999999999999999 > 1", 1, 1, "does not fit in 64 bits", id="huge number"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place(text, line, column, message):
    problem = check_condition(text)[0]

    assert message in problem.message
    assert (problem.line, problem.column) == (line, column)
    assert problem.offset == sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


def test_all_type_errors_are_reported_at_once():
    problems = check_condition("doc.nope == 1 &&\n doc.doc_id == 2")

    assert [(problem.line, problem.column) for problem in problems] == [(1, 4), (2, 13)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(DOUBLINGS, "", id="26 list doublings"),
        pytest.param("['aa']" + ".map(l, l + l)" * 26 + ".size() == 1", "", id="26 text doublings"),
        pytest.param("[[1,1]]" + ".map(l,l+l)" * 9 + ".size()==1", "outgrow", id="nine doublings"),
        pytest.param(
            "['a'].map(a, " + "+".join(["a"] * 11) + ")" + ".map(b, b+b+b+b+b+b)" * 4 + " == []", "outgrow", id="wide"
        ),
        pytest.param(
            "[[1,2,3,4,5,6,7,8,9,0]].map(a, [a,a,a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a,a,a]) == []",
            "outgrow",
            id="nested lists",
        ),
        pytest.param("[1].all(a, [1].all(b, [1].all(c, a == b)))", "nested more than 2 deep", id="deep comprehension"),
        pytest.param("!" * 3000 + "true", "nested more than 24 deep", id="nots"),
        pytest.param("-" * 3000 + "1 == 1", "nested more than 24 deep", id="minuses"),
        pytest.param("(" * 2000 + "true" + ")" * 2000, "nested more than 24 deep", id="parentheses"),
        pytest.param("[" * 2000 + "]" * 2000 + " == []", "nested more than 24 deep", id="lists"),
        pytest.param("+".join(["1"] * 800) + " == 1", "nested more than 24 deep", id="long sum"),
        pytest.param("doc" + ".search_metadata" * 200 + " == doc", "nested more than 24 deep", id="long path"),
        pytest.param("true ? " * 300 + "true" + " : true" * 300, "", id="ternaries"),
        pytest.param("x" * 5000, "at most 4096", id="long"),
        pytest.param("doc.doc_id == '" + "a" * 10_000_000 + "'", "at most 4096", id="very long"),
        pytest.param("doc.doc_id.matches('(a{1000}){1000}')", "bad pattern", id="repetition"),
        pytest.param("doc.doc_id.matches('((((a{30}){30}){30}){30})')", "bad pattern", id="nested repetition"),
        pytest.param("doc.doc_id.matches('" + "(x+x+)+" * 200 + "')", "at most 512", id="long pattern"),
        pytest.param("doc.doc_id.matches('" + r"[\\pL\\pN]{900}" * 30 + "')", "bad pattern", id="large classes"),
    ],
)
def test_a_hostile_condition_is_refused(text, message):
    problems = check_condition(text)

    assert problems
    assert message in problems[0].message


def test_a_long_but_flat_condition_is_allowed():
    assert check_condition(" || ".join(f'doc.doc_id == "{number}"' for number in range(150))) == []


def test_the_caret_stands_under_the_place():
    text = 'doc.doc_id == "a" &&\n\tdoc.nope'
    (problem,) = check_condition(text)

    assert with_caret(text, problem).split("\n") == [
        "2:5: undefined field 'nope' not found in struct 'PipeDoc'",
        "  \tdoc.nope",
        "  \t   ^",
    ]


def test_the_caret_of_a_long_line_shows_only_what_is_around_it():
    text = "true && " * 50 + "doc.nope == 1" + " && true" * 50
    drawn = with_caret(text, check_condition(text)[0]).split("\n")

    assert drawn[1].startswith("  …")
    assert drawn[1].endswith("…")
    assert drawn[1][drawn[2].index("^") :].startswith(".nope == 1")


def test_an_expression_of_a_mapping_may_have_any_type():
    assert check_expression("doc.doc_id + '!'") == []
    assert check_expression("doc.search_metadata.custom_fields.x") == []
    assert check_expression("doc.nope") != []


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        pytest.param("doc.search_metadata.mime == 'x'", 21, "SearchMetadata has no field mime", id="unknown field"),
        pytest.param("nothing == 1", 1, "undeclared reference to 'nothing'", id="unknown name"),
        pytest.param("doc.doc_id", 1, "must be true or false", id="text"),
        pytest.param("stream.hop_count", 1, "must be true or false", id="number field"),
        pytest.param("doc.blob_bag.blobs.blob.exists(b, b.nope == 1)", 37, "Blob has no field nope", id="in a macro"),
        pytest.param("doc.blob_bag.blobs.blob.nope == 1", 25, "a list has no field nope", id="field of a list"),
        pytest.param("doc.doc_id.x == 1", 12, "doc_id is a plain value and has no field x", id="field of a text"),
        pytest.param("size(1, 2, 3) == 1", 1, "does not take 3 arguments", id="arguments"),
        pytest.param("ChecksumType.NOPE == 1", 1, "undeclared reference", id="unknown enum value"),
    ],
)
def test_celpy_alone_still_checks_names_paths_and_the_result(text, column, message):
    problem = open_engine("celpy").check(text, boolean=True)[0]

    assert message in problem.message
    assert problem.column == column


def test_celpy_alone_accepts_boolean_fields():
    assert open_engine("celpy").check("stream.metadata.is_test", boolean=True) == []


def test_an_unknown_engine_is_refused_by_name():
    with pytest.raises(SettingsInvalid, match="'jexl' is not a CEL engine"):
        open_engine("jexl")


def test_a_missing_engine_names_the_other(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cel_expr_python", None)
    monkeypatch.delitem(__import__("sys").modules, "pipestream.routing.cel_expr", raising=False)
    open_engine.cache_clear()
    try:
        with pytest.raises(SettingsInvalid, match="install cel-expr-python, or choose celpy"):
            open_engine("cel-expr")
        assert check_condition("doc.not_a_field_of_a_document == 1")[0].message == (
            "PipeDoc has no field not_a_field_of_a_document"
        )
    finally:
        open_engine.cache_clear()
