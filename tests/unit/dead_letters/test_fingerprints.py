from __future__ import annotations

import pytest

from pipestream.dead_letters.fingerprint import general_message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("document d-17 of 3 pages", "document d-99 of 12 pages"),
        ("cannot parse 'a.pdf'", "cannot parse 'another file.pdf'"),
        ("no object streams/acme/0f3c9a7e-11/x.pb", "no object streams/acme/99aa0b1c-22/x.pb"),
        ("timeout after 1.5 s at 10.0.0.1:80", "timeout after 30 s at 10.0.0.2:8080"),
    ],
)
def test_what_differs_between_documents_does_not_count(one, other):
    assert general_message(one) == general_message(other)


def test_different_reasons_stay_apart():
    assert general_message("cannot parse 'x'") != general_message("cannot open 'x'")


def test_the_id_of_the_document_does_not_count():
    assert general_message("bad-one is bad", "bad-one") == general_message("awful is bad", "awful")
