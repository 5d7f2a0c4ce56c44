"""Conditions so plain that celpy's parser is not needed to check them get the same answer as with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipestream.routing.conditions import is_plain, problems_of
from pipestream.routing.engine import open_engine
from pipestream.routing.limits import check_limits
from pipestream.routing.problems import ExpressionRefused, SyntaxRefused
from pipestream.routing.syntax import parse

SAMPLE = Path(__file__).resolve().parents[3] / "dags" / "graphs" / "sample.yaml"

PLAIN = [
    'doc.doc_id != ""',
    'doc.search_metadata.document_type in ["HTML", "MARKDOWN"]',
    'doc.search_metadata.document_type in ["A","B", "C"] && doc.search_metadata.title == "x"',
    '!doc.search_metadata.title.startsWith("fused")',
    'doc.search_metadata.title.contains("&& size(")',
    'doc.search_metadata.title == "a" || doc.search_metadata.title == "b" || doc.doc_id.endsWith("c")',
    'doc.search_metadata.titel == "no such field"',
    'doc.search_metadata == "a message, no text"',
    'doc.search_metadata.creation_date == "a time, no text"',
    '!doc.doc_id == "not of a text"',
    'doc.doc_id.startsWith.x == ""',
]
NOT_PLAIN = [
    "true",
    "doc.doc_id",
    'doc.doc_id.matches("(a+)+$")',
    'doc.search_metadata.tags.exists(t, t == "x")',
    'doc.package == "a reserved word"',
    'doc.doc_id == "a" && (doc.doc_id == "b")',
    'doc.doc_id == "a\\n"',
    "doc.doc_id == 'a'",
    'doc.doc_id == "a" + "b"',
    "doc" + ".a" * 9 + ' == ""',
    " && ".join(['doc.doc_id != ""'] * 9),
    'doc.doc_id == "' + "x" * 500 + '"',
    'document.doc_id == "a"',
]


def with_the_parser(text: str):
    checker = open_engine("cel-expr")
    try:
        check_limits(text, parse(text))
    except SyntaxRefused as refused:
        return tuple(checker.check(text, boolean=True) or refused.problems)
    except ExpressionRefused as refused:
        return tuple(refused.problems)
    return tuple(checker.check(text, boolean=True))


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_condition_has_the_same_problems_with_and_without_the_parser(text):
    assert is_plain(text)
    assert problems_of(text, "cel-expr", boolean=True) == with_the_parser(text)


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_whatever_could_break_a_limit_goes_through_the_parser(text):
    assert not is_plain(text)


def test_checking_the_sample_graph_makes_no_parser():
    script = (
        "import sys; from pathlib import Path; from celpy import celparser\n"
        "from pipestream.graph.load import load_graph\n"
        f"load_graph(Path({str(SAMPLE)!r}))\n"
        "print(celparser.CELParser.CEL_PARSER)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["None"]
