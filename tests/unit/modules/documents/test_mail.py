from __future__ import annotations

import email
import email.policy
import hashlib
from email.message import EmailMessage

import pytest

from pipestream.errors import ModuleFailed
from pipestream.modules.documents.mail import extract
from pipestream.modules.documents.parse import parse
from pipestream.modules.module import HopStatus, ModuleContext
from pipestream.samples.files import pdf_file
from pipestream_testing.files import blob_document

PDF = pdf_file("Invoice", "Ann", ["total 12"])


def context(**config: object) -> ModuleContext:
    return ModuleContext("g", "n", "s", config=config)


def mail(text: str = "Hallo  Welt\n") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann <a@example.org>", "b@example.org, C <c@x.org>", "Grüße"
    message["Date"] = "Thu, 01 May 2025 10:00:00 +0200"
    message.set_content(text)
    return message


def with_files() -> EmailMessage:
    message = mail()
    message.add_alternative("<p>Hallo <b>HTML</b></p>", subtype="html")
    message.add_attachment(PDF, maintype="application", subtype="pdf", filename="Rechnung ü.pdf")
    message.add_attachment("a,b\n1,2\n", subtype="csv", filename="t.csv")
    return message


def test_a_mail_gives_subject_author_date_receivers_and_text():
    (result,) = extract(blob_document(mail().as_bytes()), context()).documents
    found = result.search_metadata

    assert (found.title, found.author, found.body) == ("Grüße", "Ann <a@example.org>", "Hallo Welt")
    assert found.creation_date.ToJsonString() == "2025-05-01T08:00:00Z"
    assert list(found.custom_fields["to"]) == ["b@example.org", "c@x.org"]


def test_a_mail_in_html_alone_gives_its_text():
    message = mail()
    message.set_content("<style>p {}</style><p>One</p><p>Two</p>", subtype="html")

    assert extract(blob_document(message.as_bytes()), context()).documents[0].search_metadata.body == "One\nTwo"


def test_attachments_are_listed_unless_the_node_says_otherwise():
    (result,) = extract(blob_document(with_files().as_bytes()), context()).documents

    assert result.search_metadata.body == "Hallo Welt"
    assert [dict(each) for each in result.search_metadata.custom_fields["attachments"]] == [
        {"name": "Rechnung ü.pdf", "type": "application/pdf", "bytes": len(PDF)},
        {"name": "t.csv", "type": "text/csv", "bytes": 8},
    ]


def test_attachments_may_become_documents_that_can_be_parsed():
    data = with_files().as_bytes()
    document = blob_document(data, "message/rfc822", doc_id="m-1")
    document.ownership.account_id = "acme"

    first, invoice, table = parse(document, context(attachments="documents")).documents

    assert first.doc_id == "m-1"
    assert [invoice.doc_id, table.doc_id] == ["m-1-attachment-1", "m-1-attachment-2"]
    assert invoice.ownership.account_id == "acme"
    assert invoice.search_metadata.metadata["parent_doc_id"] == "m-1"
    assert invoice.blob_bag.blob.checksum == hashlib.sha256(PDF).hexdigest()
    assert "total 12" in parse(invoice, context()).documents[0].search_metadata.body
    assert parse(table, context()).documents[0].search_metadata.document_type == "CSV"


def test_attachments_may_be_ignored():
    (result,) = extract(blob_document(with_files().as_bytes()), context(attachments="ignore")).documents

    assert "attachments" not in result.search_metadata.custom_fields.fields


def test_a_forwarded_mail_is_an_attachment():
    message = mail()
    message.add_attachment(mail("inner text"), filename="fwd.eml")

    _, inner = extract(blob_document(message.as_bytes()), context(attachments="documents")).documents

    assert inner.blob_bag.blob.mime_type == "message/rfc822"
    assert parse(inner, context()).documents[0].search_metadata.body == "inner text"


def test_too_many_attachments_fail_or_are_cut():
    data = with_files().as_bytes()

    with pytest.raises(ModuleFailed, match="more than 1 attachments"):
        extract(blob_document(data), context(max_attachments=1))
    answer = extract(blob_document(data), context(max_attachments=1, on_limit="truncate"))
    assert len(answer.documents[0].search_metadata.custom_fields["attachments"]) == 1
    assert answer.status is HopStatus.PARTIAL


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("Date: yesterday", "the date 'yesterday' is not one"),
        ("Content-Type: text/plain; charset=no-such", "not of the encoding that it declares"),
    ],
)
def test_a_mail_with_a_broken_header_continues_and_says_what_was_wrong(header, problem):
    answer = extract(blob_document(f"From: a@b\r\nSubject: s\r\n{header}\r\n\r\nx"), context())

    assert answer.status is HopStatus.PARTIAL
    assert problem in answer.problems[0]
    assert answer.documents[0].search_metadata.body == "x"


def test_an_encrypted_mail_says_so():
    data = b"From: a@b\r\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\r\n\r\nAAAA"

    with pytest.raises(ModuleFailed, match="the mail is encrypted"):
        extract(blob_document(data), context())


def test_what_the_standard_library_wrote_is_read_back():
    message = email.message_from_bytes(with_files().as_bytes(), policy=email.policy.SMTP)

    assert extract(blob_document(message.as_bytes()), context()).documents[0].search_metadata.title == "Grüße"
