"""Generate sample documents: the same seed gives the same files, byte for byte and with the same times."""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pipestream.samples.files import excel_file, pdf_file, word_file
from pipestream.samples.prose import GOODS, LANGUAGES, PEOPLE, PLACES, heading, paragraph, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from random import Random

SAMPLES = "samples"
"""Where the sample graph's connector looks, below the folder of sources."""

# A file's time is part of its document, so it must not be the time of the generation.
_MODIFIED_AT_S = 1_750_000_000


@dataclass(frozen=True, slots=True)
class SampleReport:
    """What was written."""

    folder: Path
    documents: int
    broken: int
    by_kind: Mapping[str, int]


def write_sample_documents(folder: Path, count: int = 240, seed: int = 7) -> SampleReport:
    """Write ``count`` small documents of nine kinds into ``folder``, the broken ones among them.

    Each file in ``broken/`` is broken in a different way, so that it becomes a dead letter in the sample graph.
    Existing files with the same names are overwritten; others stay.

    :raises ValueError: ``count`` has no room for one of each kind and the broken ones.
    """
    if count < LEAST:
        raise ValueError(f"count must be at least {LEAST}, not {count}")
    rng = random.Random(seed)  # noqa: S311 - sample text, no secret
    kinds: Counter[str] = Counter()
    for number in range(count - len(_BROKEN)):
        kind = list(_KINDS)[number % len(_KINDS)]
        _write(folder / kind / f"{kind}-{number:04}.{kind}", _KINDS[kind](rng))
        kinds[kind] += 1
    for name, data in _BROKEN.items():
        _write(folder / "broken" / name, data)
        kinds[name.rpartition(".")[2]] += 1
    return SampleReport(folder, count, len(_BROKEN), dict(kinds))


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    os.utime(file, (_MODIFIED_AT_S, _MODIFIED_AT_S))


def _html(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    title = escape(heading(rng))
    paragraphs = "\n".join(f"  <p>{escape(paragraph(rng, language))}</p>" for _ in range(rng.randint(2, 5)))
    return f"""<!DOCTYPE html>
<html lang="{language.code}">
<head><meta charset="utf-8"><title>{title}</title><style>p {{ max-width: 60ch }}</style></head>
<body>
  <h1>{title}</h1>
{paragraphs}
  <p>See <a href="https://example.org/reports/{rng.randint(100, 999)}">the full report</a>.</p>
</body>
</html>
""".encode()


def _markdown(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    parts = [f"# {heading(rng)}", paragraph(rng, language)]
    for number in range(rng.randint(1, 3)):
        items = "\n".join(f"- **{rng.choice(PLACES)}**: {sentence(rng, language)}" for _ in range(3))
        parts += [f"## Part {number + 1}", items, paragraph(rng, language)]
    return ("\n\n".join(parts) + "\n").encode()


def _text(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    paragraphs = "\n\n".join(paragraph(rng, language) for _ in range(rng.randint(1, 4)))
    return f"{heading(rng)}\n\n{paragraphs}\n".encode()


def _csv(rng: Random) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["order", "goods", "place", "pieces", "price_eur", "remark"])
    for _ in range(rng.randint(4, 20)):
        remark = sentence(rng, LANGUAGES[0]) if rng.random() < 0.3 else ""
        price = f"{rng.randint(5, 900)}.{rng.randint(0, 99):02}"
        order = f"A-{rng.randint(1_000, 9_999)}"
        writer.writerow([order, rng.choice(GOODS), rng.choice(PLACES), rng.randint(1, 500), price, remark])
    return text.getvalue().encode()


def _json(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    value = {
        "title": heading(rng),
        "author": rng.choice(PEOPLE),
        "summary": paragraph(rng, language),
        "readings": [
            {"place": rng.choice(PLACES), "celsius": round(rng.uniform(-5, 35), 1), "valid": rng.random() < 0.9}
            for _ in range(rng.randint(2, 8))
        ],
    }
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _email(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    sender, receiver = rng.sample(PEOPLE, 2)
    day, hour = rng.randint(1, 28), rng.randint(6, 20)
    names = [person.split()[0].lower().replace("ã", "a") for person in (sender, receiver)]
    lines = [
        f"From: {names[0]}@example.org",
        f"To: {names[1]}@example.org",
        f"Subject: {heading(rng)}",
        f"Date: {day:02} May 2025 {hour:02}:{rng.randint(0, 59):02}:00 +0200",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 8bit",
        "",
        paragraph(rng, language),
        "",
        sender,
        "",
    ]
    # Only ASCII may stand in a header; the places are the only words there that are not.
    head, body = "\r\n".join(lines[:7]), "\r\n".join(lines[7:])
    return head.replace("ö", "oe").encode("ascii") + b"\r\n" + body.encode()


def _pdf(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    paragraphs = [paragraph(rng, language) for _ in range(rng.randint(2, 12))]
    return pdf_file(heading(rng), rng.choice(PEOPLE), paragraphs)


def _word(rng: Random) -> bytes:
    language = rng.choice(LANGUAGES)
    rows = [["goods", "pieces"], *([rng.choice(GOODS), str(rng.randint(1, 500))] for _ in range(rng.randint(2, 5)))]
    return word_file(heading(rng), rng.choice(PEOPLE), [paragraph(rng, language) for _ in range(3)], rows)


def _excel(rng: Random) -> bytes:
    sheets: dict[str, list[list[str | float]]] = {}
    for place in rng.sample(PLACES, 2):
        sheets[place] = [["goods", "pieces", "price_eur", "remark"]]
        for _ in range(rng.randint(3, 12)):
            pieces, price = rng.randint(1, 500), rng.randint(500, 90_000) / 100
            sheets[place].append([rng.choice(GOODS), pieces, price, sentence(rng, LANGUAGES[0])])
    return excel_file(heading(rng), rng.choice(PEOPLE), sheets)


_KINDS: Mapping[str, Callable[[Random], bytes]] = {
    "html": _html,
    "csv": _csv,
    "json": _json,
    "md": _markdown,
    "txt": _text,
    "eml": _email,
    "pdf": _pdf,
    "docx": _word,
    "xlsx": _excel,
}
# The container in which Word wraps a file that has a password.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BROKEN: Mapping[str, bytes] = {
    "cut-off.json": b'{"title": "Report from Cork", "readings": [{"place": "Graz", "celsius": 2',
    "nested-too-deep.json": b"[" * 100_000 + b"]" * 100_000,
    "ragged-rows.csv": b"order,goods,pieces\r\nA-1001,valves,12\r\nA-1002,pumps\r\nA-1003,filters,7,late\r\n",
    "not-utf-8.txt": "Prüfbericht aus Malmö\n".encode("latin-1"),
    "zero-bytes.md": b"# Notice\n\nThe end of this file was lost.\n" + bytes(64),
    "no-headers.eml": b"Hello,\r\n\r\nthis message lost its headers on the way.\r\n",
    "empty.html": b"",
    "cut-off.pdf": pdf_file("Report from Graz", "Ann Lee", ["The second half of this file was lost."])[:300],
    "with-password.docx": _OLE + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(512),
    "not-a-workbook.xlsx": word_file("Letter", "Ann Lee", ["This is a letter that was saved under a wrong name."]),
}
LEAST = len(_BROKEN) + len(_KINDS)
"""One of each kind, and the broken ones."""
