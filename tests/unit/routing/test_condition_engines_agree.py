"""Both engines against each other, on random expressions over random documents."""

from __future__ import annotations

import math

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pipestream.routing.conditions import check_expression
from pipestream.routing.engine import VARIABLES, EvaluationError, open_engine
from pipestream.routing.quick import quick_program
from pipestream.routing.syntax import parse
from pipestream.wire import PipeDoc, PipeStream

WORDS = st.sampled_from(
    ["", "a", "b", "pdf", "PDF", "é", "10", "-3", "1.5", "true", "x y", "2026-01-02T03:04:05Z", "90m"]
)
INTS = st.one_of(st.integers(-5, 5), st.sampled_from([2**31 - 1, -(2**31), 1000]))
LONGS = st.one_of(INTS, st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]))
DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 1e300, 2.0**53, 0.1]), st.floats(allow_nan=False, width=32)
)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def double_text(value: float) -> str:
    return repr(value) if not math.isinf(value) else "1e400" if value > 0 else "-1e400"


def fill(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda found: template.format(*found))


def expressions() -> st.SearchStrategy[str]:
    """Texts that are mostly well typed, with all the ways to fail at run time."""
    texts, ints, doubles, bools = (
        st.deferred(lambda kind=kind: grammar[kind]) for kind in ("text", "int", "double", "bool")
    )
    lists, times, spans, dyns = (
        st.deferred(lambda kind=kind: grammar[kind]) for kind in ("list", "time", "span", "dyn")
    )
    compared = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    part = st.sampled_from(
        [
            "getFullYear",
            "getMonth",
            "getDate",
            "getDayOfMonth",
            "getDayOfWeek",
            "getDayOfYear",
            "getHours",
            "getMinutes",
            "getSeconds",
            "getMilliseconds",
        ]
    )
    grammar = {
        "text": st.one_of(
            WORDS.map(quoted),
            st.sampled_from(
                [
                    "doc.doc_id",
                    "doc.search_metadata.title",
                    "document.search_metadata.document_type",
                    "stream.stream_id",
                    'doc.search_metadata.metadata["a"]',
                    "doc.search_metadata.tags.tag_data.b",
                    "doc.blob_bag.blob.mime_type",
                    "doc.search_metadata.body",
                    "doc.blob_bag.blobs.blob[1].blob_id",
                ]
            ),
            fill("({} + {})", texts, texts),
            fill("{}[{}]", lists, ints),
            fill("string({})", st.one_of(ints, bools, doubles, times, spans)),
            fill("({} ? {} : {})", bools, texts, texts),
        ),
        "int": st.one_of(
            LONGS.map(str),
            st.sampled_from(
                [
                    "doc.search_metadata.content_length",
                    "doc.blob_bag.blob.size_bytes",
                    "stream.hop_count",
                    "doc.blob_bag.blob.checksum_type",
                    "ChecksumType.CHECKSUM_TYPE_SHA1",
                    "size(doc.blob_bag.blobs.blob)",
                ]
            ),
            fill("({} {} {})", ints, st.sampled_from(["+", "-", "*", "/", "%"]), ints),
            fill("size({})", st.one_of(texts, lists)),
            fill("int({})", st.one_of(texts, doubles, times)),
            fill("{}.{}()", times, part),
            fill('{}.{}("Europe/Berlin")', times, part),
            fill("{}.{}()", spans, st.sampled_from(["getHours", "getMinutes", "getSeconds", "getMilliseconds"])),
            fill("-({})", ints),
        ),
        "double": st.one_of(
            DOUBLES.map(double_text),
            st.just("doc.search_metadata.relevance_score"),
            fill("({} {} {})", doubles, st.sampled_from(["+", "-", "*", "/"]), doubles),
            fill("double({})", st.one_of(ints, texts)),
        ),
        "list": st.one_of(
            st.sampled_from(
                [
                    "doc.search_metadata.keywords.keyword",
                    "doc.search_metadata.source_path_segments",
                    "stream.processing_path",
                    '["a", "b"]',
                ]
            ),
            fill("{}.filter(x, {} == x)", lists, texts),
            fill("{}.map(y, y + {})", lists, texts),
            fill("({} + {})", lists, lists),
            st.just("doc.blob_bag.blobs.blob.map(b, b.blob_id)"),
        ),
        "time": st.one_of(
            st.sampled_from(
                [
                    "doc.search_metadata.creation_date",
                    "stream.metadata.created_at",
                    'timestamp("2026-03-01T12:00:00.5Z")',
                    "timestamp(0)",
                ]
            ),
            fill("timestamp({})", texts),
            fill("({} + {})", times, spans),
            fill("({} - {})", times, spans),
        ),
        "span": st.one_of(
            st.sampled_from(['duration("90m")', 'duration("-1.5s")', 'duration("0")']),
            fill("duration({})", texts),
            fill("({} - {})", times, times),
            fill("({} + {})", spans, spans),
        ),
        "dyn": st.one_of(
            st.sampled_from(
                [
                    "doc.search_metadata.custom_fields.a",
                    "doc.search_metadata.custom_fields.b",
                    'doc.search_metadata.custom_fields["c"]',
                    "doc.search_metadata.custom_fields.a.b",
                    "doc.search_metadata.custom_fields.c[0]",
                    "dyn(doc.search_metadata)",
                    "doc.structured_data",
                    "doc.blob_bag.blob.metadata.a",
                ]
            ),
            fill("dyn({})", st.one_of(texts, ints, doubles, bools, lists, st.just("null"), st.just("1u"))),
        ),
        "bool": st.one_of(
            st.sampled_from(
                ["true", "false", "stream.metadata.is_test", "(doc.search_metadata == document.search_metadata)"]
            ),
            st.sampled_from(
                [
                    "doc.search_metadata",
                    "doc.search_metadata.title",
                    "doc.search_metadata.body",
                    "doc.search_metadata.content_length",
                    "doc.doc_id",
                    "doc.search_metadata.custom_fields",
                    "doc.search_metadata.custom_fields.a",
                    "doc.search_metadata.custom_fields.a.b",
                    "doc.search_metadata.metadata",
                    "doc.search_metadata.metadata.a",
                    "doc.search_metadata.keywords.keyword",
                    "doc.blob_bag.blob",
                    "doc.blob_bag.blobs",
                    "doc.blob_bag.blob.data",
                    "doc.blob_bag.blob.size_bytes",
                    "doc.blob_bag.blobs.blob",
                    "doc.search_metadata.creation_date",
                    "doc.structured_data",
                    "doc.search_metadata.tags.tag_data",
                    "stream.metadata",
                    "stream.document",
                    "doc.parsed_metadata.a.parser_name",
                ]
            ).map("has({})".format),
            fill("({} {} {})", texts, compared, texts),
            fill("({} {} {})", ints, compared, ints),
            fill("({} {} {})", doubles, compared, doubles),
            fill("({} {} {})", times, compared, times),
            fill("({} {} {})", spans, compared, spans),
            fill("({} {} {})", dyns, compared, dyns),
            fill("({} {} {})", dyns, compared, st.one_of(ints, texts, doubles, bools)),
            fill("({} == {})", lists, lists),
            fill("({} in {})", texts, lists),
            fill("({} in doc.search_metadata.metadata)", texts),
            fill("({} in {})", dyns, dyns),
            fill("{}.{}({})", texts, st.sampled_from(["contains", "startsWith", "endsWith"]), texts),
            fill('{}.matches("{}")', texts, st.sampled_from(["^a", "p.f", "[0-9]+", "(?i)PDF$", ""])),
            fill("({} && {})", bools, bools),
            fill("({} || {})", bools, bools),
            fill("({} && {} == true)", bools, dyns),
            fill("!{}", bools),
            fill("({} ? {} : {})", bools, bools, bools),
            fill("bool({})", texts),
            fill("{}.{}(x, x == {})", lists, st.sampled_from(["all", "exists", "exists_one"]), texts),
            fill("{}.{}(x, int(x) > {})", lists, st.sampled_from(["all", "exists", "exists_one"]), ints),
            fill("doc.search_metadata.metadata.{}(k, k == {})", st.sampled_from(["all", "exists"]), texts),
            fill(
                "doc.blob_bag.blobs.blob.{}(b, has(b.data) && b.size_bytes > {})",
                st.sampled_from(["all", "exists", "exists_one"]),
                ints,
            ),
            fill('doc.blob_bag.blobs.blob.{}(b, b.data == b"ab")', st.sampled_from(["all", "exists"])),
            fill("doc.blob_bag.blobs.blob.filter(b, b.size_bytes > {}).exists(b, has(b.mime_type))", ints),
        ),
    }
    return grammar["bool"]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), DOUBLES.filter(math.isfinite), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)),
    max_leaves=4,
)


@st.composite
def documents(draw: st.DrawFn) -> PipeDoc:
    document = PipeDoc(doc_id=draw(WORDS))
    maybe = st.booleans()
    if draw(maybe):
        metadata = document.search_metadata
        for name in ("title", "document_type", "body"):
            if draw(maybe):
                setattr(metadata, name, draw(WORDS))
        if draw(maybe):
            metadata.content_length = draw(INTS)
        if draw(maybe):
            metadata.relevance_score = draw(DOUBLES)
        if draw(maybe):
            metadata.creation_date.FromNanoseconds(draw(st.integers(-(2**60), 2**61)))
        metadata.metadata.update(draw(st.dictionaries(st.sampled_from("ab"), WORDS, max_size=2)))
        if draw(maybe):
            metadata.tags.tag_data.update(draw(st.dictionaries(st.sampled_from("ab"), WORDS, max_size=2)))
        if draw(maybe):
            metadata.keywords.keyword.extend(draw(st.lists(WORDS, max_size=3)))
        if draw(maybe):
            metadata.custom_fields.update(draw(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)))
            metadata.custom_fields.SetInParent()
    _add_blobs(draw, document)
    if draw(maybe):
        packed = Struct()
        packed.update(draw(st.dictionaries(st.sampled_from("abc"), JSON, max_size=2)))
        document.structured_data.Pack(packed)
    return document


def _add_blobs(draw: st.DrawFn, document: PipeDoc) -> None:
    kind = draw(st.sampled_from(["none", "one", "several"]))
    if kind == "one":
        document.blob_bag.blob.size_bytes = draw(LONGS)
        document.blob_bag.blob.checksum_type = draw(st.integers(0, 4))
        if draw(st.booleans()):
            document.blob_bag.blob.data = draw(st.binary(max_size=3))
    elif kind == "several":
        document.blob_bag.blobs.SetInParent()
        for number in range(draw(st.integers(0, 3))):
            blob = document.blob_bag.blobs.blob.add(blob_id=str(number), size_bytes=draw(INTS))
            if draw(st.booleans()):
                blob.data = draw(st.sampled_from([b"", b"ab"]))
            if draw(st.booleans()):
                blob.mime_type = draw(WORDS)


@st.composite
def streams(draw: st.DrawFn) -> PipeStream:
    stream = PipeStream(stream_id=draw(WORDS), hop_count=draw(INTS), processing_path=draw(st.lists(WORDS, max_size=2)))
    stream.metadata.is_test = draw(st.booleans())
    stream.metadata.created_at.FromSeconds(draw(st.integers(0, 2**31)))
    return stream


def outcome(engine: str, text: str, stream: PipeStream, document: PipeDoc) -> object:
    opened = open_engine(engine)
    try:
        return opened.compile(text)(opened.binder([parse(text)])(stream, document))
    except EvaluationError:
        return "error"


def engines_agree(text: str, stream: PipeStream, document: PipeDoc) -> None:
    assume(check_expression(text) == [])
    expected = outcome("cel-expr", text, stream, document)
    assert outcome("celpy", text, stream, document) == expected, text
    quick = quick_program(parse(text), VARIABLES)
    if quick is not None:
        assert quick(stream, document) is expected, text


ARGUMENTS = {"text": expressions(), "stream": streams(), "document": documents()}
CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(max_examples=300, derandomize=True, deadline=None, database=None, suppress_health_check=CHECKS)
@given(**ARGUMENTS)
def test_random_expressions_have_one_outcome_in_both_engines(text, stream, document):
    engines_agree(text, stream, document)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=10_000, deadline=None, database=None, suppress_health_check=CHECKS)
@given(**ARGUMENTS)
def test_many_more_random_expressions_have_one_outcome_in_both_engines(text, stream, document):
    engines_agree(text, stream, document)
