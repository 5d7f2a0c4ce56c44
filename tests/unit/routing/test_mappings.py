from __future__ import annotations

import hashlib
import sys

import pytest

from pipestream.errors import MappingError
from pipestream.graph.model import FieldMapping, MappingType
from pipestream.routing.field_paths import get_field
from pipestream.routing.mappings import apply_mappings, check_mapping
from pipestream.routing.transform_rules import RULES, apply_rule
from pipestream.wire import PipeDoc, PipeStream

TITLE, AUTHOR, CATEGORY = "search_metadata.title", "search_metadata.author", "search_metadata.category"
LENGTH, SCORE, CUSTOM = (
    "search_metadata.content_length",
    "search_metadata.relevance_score",
    "search_metadata.custom_fields",
)
KEYWORDS = "search_metadata.keywords.keyword"


def sample() -> PipeDoc:
    document = PipeDoc(doc_id="d")
    document.search_metadata.title = " A Title "
    document.search_metadata.author = "Ada, Bob, Cyd"
    document.search_metadata.content_length = 7
    document.search_metadata.relevance_score = 0.5
    document.search_metadata.keywords.keyword.extend(["x", "y"])
    document.search_metadata.creation_date.FromNanoseconds(1_500_000_001)
    return document


def mapping(kind: MappingType, sources=(), targets=(), **rest) -> FieldMapping:
    return FieldMapping("m1", kind, tuple(sources), tuple(targets), **rest)


def mapped(*mappings: FieldMapping, engine: str = "cel-expr") -> PipeDoc:
    document = sample()
    made = apply_mappings(mappings, PipeStream(stream_id="s-1"), document, engine)
    assert document == sample(), "the input must stay as it was"
    for each in mappings:
        assert check_mapping(each) == []
    return made


def test_no_mappings_give_the_same_document_back():
    document = sample()

    assert apply_mappings((), PipeStream(), document, "cel-expr") is document


def test_direct_copies_each_source_to_its_target():
    made = mapped(mapping(MappingType.DIRECT, [TITLE, LENGTH, KEYWORDS], [CATEGORY, SCORE, f"{CUSTOM}.words"]))

    assert get_field(made, CATEGORY) == " A Title "
    assert get_field(made, SCORE) == 7.0
    assert get_field(made, f"{CUSTOM}.words") == ["x", "y"]
    assert get_field(made, TITLE) == " A Title "


def test_direct_leaves_the_target_of_a_missing_source_alone():
    made = mapped(mapping(MappingType.DIRECT, ["search_metadata.doi"], [TITLE]))

    assert made == sample()


def test_direct_can_swap_two_fields():
    made = mapped(mapping(MappingType.DIRECT, [TITLE, AUTHOR], [AUTHOR, TITLE]))

    assert (get_field(made, TITLE), get_field(made, AUTHOR)) == ("Ada, Bob, Cyd", " A Title ")


def test_direct_copies_messages_to_the_nanosecond():
    made = mapped(mapping(MappingType.DIRECT, ["search_metadata.creation_date"], ["search_metadata.processed_date"]))

    assert made.search_metadata.processed_date.ToNanoseconds() == 1_500_000_001


def test_mappings_run_in_order_on_what_the_one_before_made():
    made = mapped(
        mapping(MappingType.TRANSFORM, [TITLE], [TITLE], rule="trim"),
        mapping(MappingType.TRANSFORM, [TITLE], [CATEGORY], rule="lowercase"),
    )

    assert get_field(made, CATEGORY) == "a title"


@pytest.mark.parametrize(
    ("rule", "value", "params", "expected"),
    [
        ("trim", "  a b ", {}, "a b"),
        ("lowercase", "ÄB", {}, "äb"),
        ("uppercase", "äb", {}, "ÄB"),
        ("replace", "a-b-c", {"old": "-", "new": "+"}, "a+b+c"),
        ("replace", "a-b", {"old": "-"}, "ab"),
        ("truncate", "abcdef", {"length": 3}, "abc"),
        ("truncate", "abcdef", {"length": 3.0}, "abc"),
        ("prefix", "b", {"text": "a"}, "ab"),
        ("suffix", "a", {"text": "b"}, "ab"),
        ("default", None, {"value": "x"}, "x"),
        ("default", "", {"value": "x"}, "x"),
        ("default", 0, {"value": 5}, 0),
        ("default", "a", {"value": "x"}, "a"),
        ("to_int", " 42 ", {}, 42),
        ("to_int", 42.0, {}, 42),
        ("to_double", "1.5", {}, 1.5),
        ("to_bool", "Yes", {}, True),
        ("to_bool", "0", {}, False),
        ("to_string", 42, {}, "42"),
        ("to_string", 42.0, {}, "42"),
        ("to_string", 0.1, {}, "0.1"),
        ("to_string", True, {}, "true"),
        ("slugify", "Größe & Maß: 3,5 m!", {}, "groe-ma-3-5-m"),
        ("hash_sha256", "a", {}, hashlib.sha256(b"a").hexdigest()),
        ("hash_sha256", b"a", {}, hashlib.sha256(b"a").hexdigest()),
        ("iso_date", "2026-01-02 03:04", {}, "2026-01-02T03:04:00Z"),
        ("iso_date", "2026-01-02T03:04:00+02:00", {}, "2026-01-02T01:04:00Z"),
        ("iso_date", "02.01.2026", {"format": "%d.%m.%Y"}, "2026-01-02T00:00:00Z"),
        ("trim", None, {}, None),
        ("uppercase", ["a", "b"], {}, ["A", "B"]),
    ],
)
def test_a_rule_transforms_a_value(rule, value, params, expected):
    found = apply_rule(rule, value, params)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("rule", "value", "params", "message"),
    [
        ("trim", 5, {}, "rule trim: it takes text, not int"),
        ("to_int", "4.5", {}, "'4.5' is not a whole number"),
        ("to_int", 4.5, {}, "4.5 is not a whole number"),
        ("to_double", "abc", {}, "rule to_double"),
        ("to_bool", "maybe", {}, "'maybe' is neither true nor false"),
        ("iso_date", "soon", {}, "rule iso_date"),
        ("iso_date", "0001-01-01T00:00:00+14:00", {}, "rule iso_date: date value out of range"),
        ("truncate", "abc", {}, "rule truncate needs the parameter length"),
        ("shout", "abc", {}, "there is no rule 'shout'"),
    ],
)
def test_a_rule_that_cannot_take_a_value_says_why(rule, value, params, message):
    with pytest.raises(MappingError) as caught:
        apply_rule(rule, value, params)

    assert message in str(caught.value)


def test_every_rule_is_in_the_table_of_the_documentation():
    from pipestream.routing import transform_rules as rules

    assert all(f"``{name}``" in (rules.__doc__ or "") for name in RULES)


def test_transform_default_fills_a_missing_field():
    made = mapped(mapping(MappingType.TRANSFORM, [CATEGORY], [CATEGORY], rule="default", params={"value": "other"}))

    assert get_field(made, CATEGORY) == "other"


def test_aggregate_concatenates_with_its_delimiter_and_leaves_out_what_is_missing():
    made = mapped(
        mapping(
            MappingType.AGGREGATE, ["doc_id", CATEGORY, KEYWORDS, LENGTH], [CATEGORY],
            aggregation="concatenate", delimiter="/",
        )
    )  # fmt: skip

    assert get_field(made, CATEGORY) == "d/x/y/7"


def test_aggregate_sums_numbers():
    made = mapped(
        mapping(MappingType.AGGREGATE, [LENGTH, SCORE, "blob_bag.blob.size_bytes"], [SCORE], aggregation="sum")
    )

    assert get_field(made, SCORE) == 7.5


def test_aggregate_of_nothing_leaves_the_target_alone():
    made = mapped(mapping(MappingType.AGGREGATE, [CATEGORY], [TITLE], aggregation="concatenate"))

    assert made == sample()


def test_split_fills_a_list():
    made = mapped(mapping(MappingType.SPLIT, [AUTHOR], [KEYWORDS], delimiter=", "))

    assert get_field(made, KEYWORDS) == ["Ada", "Bob", "Cyd"]


def test_split_to_several_targets_gives_the_rest_to_the_last():
    made = mapped(mapping(MappingType.SPLIT, [AUTHOR], [TITLE, CATEGORY], delimiter=", "))

    assert (get_field(made, TITLE), get_field(made, CATEGORY)) == ("Ada", "Bob, Cyd")


def test_split_clears_the_targets_that_get_no_part():
    made = mapped(mapping(MappingType.SPLIT, ["doc_id"], [CATEGORY, TITLE], delimiter=","))

    assert (get_field(made, CATEGORY), get_field(made, TITLE)) == ("d", None)


@pytest.mark.parametrize("engine", ["cel-expr", "celpy"])
@pytest.mark.parametrize(
    ("expression", "target", "expected"),
    [
        ('doc.doc_id + "/" + stream.stream_id', TITLE, "d/s-1"),
        ("doc.search_metadata.content_length * 2", LENGTH, 14),
        ("doc.search_metadata.relevance_score + 1.0", SCORE, 1.5),
        ('document.search_metadata.keywords.keyword.map(k, k + "!")', KEYWORDS, ["x!", "y!"]),
        ('{"a": [1, 2], "b": {"c": true}}', CUSTOM, {"a": [1.0, 2.0], "b": {"c": True}}),
        ("null", TITLE, None),
        ("size(doc.search_metadata.keywords.keyword) > 1", f"{CUSTOM}.many", True),
        ("doc.search_metadata.keywords", "search_metadata.keywords", None),
        ('b"ab"', "blob_bag.blob.data", b"ab"),
    ],
)  # fmt: skip
def test_cel_puts_the_value_of_an_expression_in_its_target(engine, expression, target, expected):
    made = mapped(mapping(MappingType.CEL, targets=[target], expression=expression), engine=engine)

    if expression == "doc.search_metadata.keywords":
        assert made == sample()
    else:
        assert get_field(made, target) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("null", None),
        ("[null, 1]", [None, 1]),
        ("{'a': null}", {"a": None}),
        ("doc.search_metadata.custom_fields", {"none": None, "list": [None, [None]]}),
    ],
)
def test_nulls_of_an_expression_leave_the_references_to_none_alone(expression, expected):
    document = sample()
    document.search_metadata.custom_fields.update({"none": None, "list": [None, [None]]})
    put = mapping(MappingType.CEL, targets=[f"{CUSTOM}.out"], expression=expression)
    times = 300
    before = sys.getrefcount(None)

    for _ in range(times):
        made = apply_mappings([put], PipeStream(), document, "cel-expr")

    # Other code takes and drops some as well, by far fewer than one each time.
    assert sys.getrefcount(None) > before - times // 2
    assert get_field(made, f"{CUSTOM}.out") == expected


@pytest.mark.parametrize("engine", ["cel-expr", "celpy"])
def test_cel_computes_times(engine):
    made = mapped(
        mapping(
            MappingType.CEL, targets=["search_metadata.processed_date"],
            expression='timestamp("2026-01-01T00:00:00Z") + duration("1h")',
        ),
        engine=engine,
    )  # fmt: skip

    assert made.search_metadata.processed_date.ToJsonString() == "2026-01-01T01:00:00Z"


@pytest.mark.parametrize("engine", ["cel-expr", "celpy"])
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (mapping(MappingType.CEL, targets=[TITLE], expression="string(1 / 0)"), "mapping m1: .*divide by zero"),
        (
            mapping(MappingType.CEL, targets=[TITLE], expression="1"),
            "mapping m1: search_metadata.title: title holds text",
        ),
        (mapping(MappingType.DIRECT, [LENGTH], [TITLE]), "convert it with a TRANSFORM"),
        (
            mapping(MappingType.TRANSFORM, [f"{CUSTOM}.digits"], [SCORE], rule="to_int"),
            "mapping m1: search_metadata.relevance_score: int too large",
        ),
        (mapping(MappingType.SPLIT, [LENGTH], [KEYWORDS], delimiter=","), "only text can be split"),
        (mapping(MappingType.AGGREGATE, [TITLE], [SCORE], aggregation="sum"), "cannot sum a str"),
        (
            mapping(MappingType.AGGREGATE, ["search_metadata.keywords"], [TITLE], aggregation="concatenate"),
            "cannot concatenate",
        ),
    ],
)
def test_a_mapping_that_fails_on_a_document_says_which_and_why(engine, broken, message):
    document = sample()
    document.search_metadata.custom_fields["digits"] = "9" * 400
    before = document.SerializeToString(deterministic=True)
    with pytest.raises(MappingError, match=message):
        apply_mappings([broken], PipeStream(), document, engine)

    assert document.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (mapping(MappingType.DIRECT, ["nope"], [TITLE]), "PipeDoc has no field nope"),
        (mapping(MappingType.DIRECT, [TITLE, AUTHOR], [TITLE]), "as many targets as sources, not 2 to 1"),
        (mapping(MappingType.DIRECT), "as many targets as sources, not 0 to 0"),
        (
            mapping(MappingType.TRANSFORM, [TITLE], [TITLE], rule="shout"),
            "there is no rule 'shout'; the rules are default",
        ),
        (mapping(MappingType.TRANSFORM, [TITLE], [TITLE], rule="truncate"), "needs the parameter length"),
        (
            mapping(MappingType.TRANSFORM, [TITLE], [TITLE], rule="truncate", params={"length": -1}),
            "a whole number, 0 or more",
        ),
        (mapping(MappingType.TRANSFORM, [TITLE], [TITLE], rule="replace", params={"old": 1}), "must be text"),
        (mapping(MappingType.TRANSFORM, [TITLE], [TITLE], rule="trim", params={"x": 1}), "has no parameter x"),
        (mapping(MappingType.AGGREGATE, [TITLE], [TITLE], aggregation="median"), "there is no aggregation 'median'"),
        (mapping(MappingType.AGGREGATE, [TITLE], [TITLE, AUTHOR], aggregation="sum"), "to one target"),
        (mapping(MappingType.SPLIT, [TITLE], [KEYWORDS]), "needs a delimiter"),
        (mapping(MappingType.SPLIT, [TITLE, AUTHOR], [KEYWORDS], delimiter=","), "takes one source"),
        (mapping(MappingType.CEL, expression="1"), "has one target, not 0"),
        (mapping(MappingType.CEL, targets=[TITLE], expression="doc.nope"), "undefined field 'nope'"),
        (mapping(MappingType.CEL, targets=[TITLE]), "the expression is empty"),
    ],
)
def test_a_wrong_mapping_is_refused_when_it_is_saved(wrong, message):
    assert any(message in problem for problem in check_mapping(wrong))
