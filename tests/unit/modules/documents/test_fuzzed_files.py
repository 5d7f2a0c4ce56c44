"""Files with bytes changed, removed and repeated: each is read, or fails as ``ModuleFailed``."""

from __future__ import annotations

import io
import random
import zipfile

import pytest

from pipestream.errors import ModuleFailed
from pipestream.modules.documents.parse import parse
from pipestream.modules.module import ModuleContext
from pipestream.samples.files import excel_file, pdf_file, word_file
from pipestream_testing.files import blob_document, changed_zip, ods_cell, ods_file, ods_row

CONTEXT = ModuleContext("g", "n", "s", config={"on_empty": "pass", "attachments": "documents"})
MAIL = (
    b"From: a@b\r\nTo: c@d\r\nSubject: =?utf-8?q?h=C3=A9?=\r\nDate: Mon, 12 May 2025 08:00:00 +0200\r\n"
    b"Content-Type: multipart/mixed; boundary=xx\r\n\r\n--xx\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>Hi\r\n"
    b"--xx\r\nContent-Disposition: attachment; filename*=utf-8''a%20b.txt\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    b"aGVsbG8=\r\n--xx--\r\n"
)
SHEET = excel_file("Orders", "Ann", {"May": [["order", "pieces"], ["A-1", 12]]})
WORD = word_file("Letter", "Ann", ["Hello"], [["a", "b"]])
ODS = ods_file(ods_row(ods_cell("a"), ods_cell("b", repeats=3)), title="T")
SOURCES = {
    "pdf": (pdf_file("Report", "Ann", ["Some text. " * 40]), "application/pdf"),
    "docx": (WORD, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    "xlsx": (SHEET, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    "ods": (ODS, "application/vnd.oasis.opendocument.spreadsheet"),
    "eml": (MAIL, "message/rfc822"),
    "html": (b"<html lang=de><head><title>T</title><meta charset=utf-8></head><body><p>a<b>c</p></html>", "text/html"),
}


def mutated(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        start = rng.randrange(len(made))
        match rng.randrange(4):
            case 0:
                made[start] = rng.randrange(256)
            case 1:
                del made[start : start + rng.randint(1, 40)]
            case 2:
                made[start:start] = made[start : start + 40] * rng.randint(1, 4)
            case _:
                made[start : start + 4] = rng.randbytes(4)
        if not made:
            return b"x"
    return bytes(made)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_damaged_file_is_read_or_fails_with_a_reason(kind):
    data, mime_type = SOURCES[kind]
    rng = random.Random(11)
    outcomes = {"read": 0, "failed": 0}
    for _ in range(80):
        try:
            parse(blob_document(mutated(data, rng), mime_type), CONTEXT)
            outcomes["read"] += 1
        except ModuleFailed:
            outcomes["failed"] += 1

    assert sum(outcomes.values()) == 80
    assert min(outcomes.values()) > 0 or kind in ("eml", "html"), outcomes


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (WORD, "word/document.xml"),
        (WORD, "docProps/core.xml"),
        (SHEET, "xl/worksheets/sheet1.xml"),
        (SHEET, "xl/workbook.xml"),
    ],
)
def test_a_damaged_part_of_an_office_file_is_read_or_fails_with_a_reason(data, part):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        source = archive.read(part)
    rng = random.Random(12)
    name = part.replace("/", "__").replace(".", "_dot_")
    failed = 0
    for _ in range(30):
        try:
            parse(blob_document(changed_zip(data, **{name: mutated(source, rng)})), CONTEXT)
        except ModuleFailed:
            failed += 1

    assert failed > 0
