"""Which dead letters failed for the same reason. Pure."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipestream.dead_letters.letter import DeadLetter

# What differs between two documents that fail in the same way: quoted values, ids, addresses, numbers.
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_ID = re.compile(r"\b(?=[\w-]*\d)[\w-]{8,}\b")
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")
_MOST_LETTERS = 300
_LEAST_ID = 3
"""A shorter id could be a part of any word."""


def general_message(message: str, doc_id: str = "") -> str:
    """Return the message of an error without what differs from document to document, such as the document's id."""
    text = " ".join(message.split())[:2_000]
    if len(doc_id) >= _LEAST_ID:
        text = text.replace(doc_id, "…")
    for pattern, stand_in in ((_QUOTED, "'…'"), (_ID, "…"), (_NUMBER, "0")):
        text = pattern.sub(stand_in, text)
    return text[:_MOST_LETTERS]


def fingerprint(letter: DeadLetter) -> str:
    """Return what letters share that failed at the same node, with the same kind of error and the same message.

    Numbers, ids and quoted values of the message do not count.
    """
    reason = "\n".join((letter.node_id, letter.error_kind, general_message(letter.message, letter.doc_id)))
    return blake2b(reason.encode(), digest_size=8).hexdigest()
