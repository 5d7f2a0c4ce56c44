from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest

from pipestream.errors import ModuleFailed
from pipestream.modules.declare import declared_profile
from pipestream.modules.documents import chunks, enrich, html, kinds, language, mail, parse, pdf, sheets, text, word
from pipestream.modules.documents.language import language_of
from pipestream.modules.module import ModuleContext
from pipestream.wire import PipeDoc

SENTENCES = " ".join(f"The pump number {number} stands in the hall." for number in range(200))


def context(**config: object) -> ModuleContext:
    return ModuleContext("g", "n", "s", config=config)


def document(body: str) -> PipeDoc:
    made = PipeDoc(doc_id="d")
    made.search_metadata.body = body
    made.search_metadata.title = "Pumps"
    made.blob_bag.blob.data = b"original"
    return made


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("The pump is not what it was", "en"),
        ("Die Pumpe ist nicht mehr, was sie war", "de"),
        ("La pompe n'est pas dans la halle", "fr"),
        ("La bomba no es la que era", "es"),
        ("12 34", "und"),
    ],
)
def test_the_language_is_found(body, expected):
    assert language.detect(document(body), context()).search_metadata.language == expected


def test_only_the_languages_of_the_node_are_chosen_from():
    assert language_of("Die Pumpe ist nicht mehr, was sie war", ("en", "fr"), 0) in {"en", "fr"}
    assert language_of("Die Pumpe ist nicht mehr, was sie war") == "de"


def test_a_language_of_the_file_is_kept_unless_the_node_says_otherwise():
    made = document("The pump is not what it was")
    made.search_metadata.language = "de"

    assert language.detect(made, context()).search_metadata.language == "de"
    assert language.detect(made, context(overwrite=True)).search_metadata.language == "en"


def test_an_unknown_language_in_the_config_is_refused():
    with pytest.raises(ModuleFailed, match="xx"):
        language.detect(document("text"), context(languages=["xx"]))


def test_enrich_counts_words_and_picks_frequent_ones():
    found = enrich.enrich(document("The valve and the valve and the pump with gasket"), context()).search_metadata

    assert list(found.keywords.keyword) == ["valve", "gasket", "pump"]
    assert (found.language, found.metadata["word_count"], found.content_length) == ("en", "10", 48)


def test_enrich_keeps_the_keywords_of_the_file():
    made = document("The valve and the valve")
    made.search_metadata.keywords.keyword.append("given")

    assert list(enrich.enrich(made, context()).search_metadata.keywords.keyword) == ["given"]


@pytest.mark.parametrize("module", [language.detect, enrich.enrich, chunks.split])
def test_a_document_that_was_not_parsed_fails(module):
    with pytest.raises(ModuleFailed, match="parse it first"):
        module(PipeDoc(doc_id="d"), context())


def test_each_chunk_becomes_a_document_that_knows_its_place():
    whole = document(SENTENCES)

    parts = chunks.split(whole, context(size=50, overlap=10))

    assert len(parts) > 10
    for number, part in enumerate(parts):
        found = part.search_metadata
        start, end = int(found.metadata["chunk_start"]), int(found.metadata["chunk_end"])
        assert SENTENCES[start:end] == found.body
        assert len(found.body.split()) <= 50
        assert (part.doc_id, found.title) == (f"d-chunk-{number}", "Pumps")
        assert found.metadata["parent_doc_id"] == "d"
        assert found.metadata["chunk_count"] == str(len(parts))
        assert not part.HasField("blob_bag")


@pytest.mark.parametrize(("overlap", "shares"), [(10, True), (0, False)])
def test_chunks_cover_the_text_and_overlap_as_the_node_says(overlap, shares):
    made = chunks.split(document(SENTENCES), context(size=50, overlap=overlap, output="field"))[0]
    places = [(int(each["start"]), int(each["end"])) for each in made.search_metadata.custom_fields["chunks"]]

    assert (places[0][0], places[-1][1]) == (0, len(SENTENCES))
    for (_, end), (start, _) in pairwise(places):
        assert SENTENCES[end:start].strip() == ""
        assert (start < end) is shares


def test_the_chunks_may_stay_in_the_document():
    (made,) = chunks.split(document(SENTENCES), context(output="field", size=100))

    assert made.search_metadata.body == SENTENCES
    assert made.HasField("blob_bag")
    assert SENTENCES.startswith(made.search_metadata.custom_fields["chunks"][0]["text"])


def test_the_whole_document_may_come_along_as_the_first():
    whole, *parts = chunks.split(document("One. Two."), context(keep_document=True))

    assert (whole.doc_id, [part.doc_id for part in parts]) == ("d", ["d-chunk-0"])


def test_scripts_without_spaces_are_cut_too():
    parts = chunks.split(document("文書を処理します。" * 200), context(size=100, overlap=10))

    assert all(len(part.search_metadata.body) <= 100 for part in parts)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"size": 10, "overlap": 6}, "overlap is more than half of size"),
        ({"size": 5, "overlap": 0, "max_chunks": 3}, "and max_chunks is 3"),
        ({"unit": "pages"}, "is not one of"),
    ],
)
def test_chunks_that_cannot_be_are_refused(config, message):
    with pytest.raises(ModuleFailed, match=message):
        chunks.split(document(SENTENCES), context(**config))


@pytest.mark.parametrize(
    ("function", "is_parser"),
    [
        (chunks.split, False),
        (enrich.enrich, False),
        (language.detect, False),
        *((function, True) for function in (html.extract, kinds.identify, mail.extract, parse.parse, pdf.extract)),
        *((function, True) for function in (sheets.extract, text.extract, word.extract)),
    ],
)
def test_every_built_in_module_declares_its_config_and_whether_it_reads_blobs(function, is_parser):
    profile = declared_profile(function)

    assert profile.is_parser is is_parser
    assert profile.config_schema is not None
    assert profile.description
    assert all({"default", "description"} <= key.keys() for key in profile.config_schema["properties"].values())


@pytest.mark.parametrize(
    ("library", "module"),
    [("pypdfium2", "pdf"), ("selectolax", "html"), ("docx", "word")],
)
def test_a_missing_library_names_the_extra(library, module):
    script = f"import sys; sys.modules[{library!r}] = None; import pipestream.modules.documents.{module}"

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert 'pip install "pipestream-airflow[documents]"' in ran.stderr.splitlines()[-1]
