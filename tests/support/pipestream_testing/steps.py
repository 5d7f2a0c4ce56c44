"""Modules that tests put into graphs."""

from __future__ import annotations

import time

from pipestream.errors import ModuleFailed
from pipestream.modules.declare import declare_module
from pipestream.modules.module import ModuleContext
from pipestream.wire import PipeDoc


def pass_on(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Leave a trace and pass the document on."""
    document.search_metadata.metadata[context.node_id] = "seen"
    return document


@declare_module(is_concurrent=True)
def pass_on_side_by_side(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Do the same for several documents at once."""
    return pass_on(document, context)


def fail_on_bad(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Refuse documents whose title starts with ``bad``."""
    if document.search_metadata.title.startswith("bad"):
        raise ModuleFailed(f"{document.doc_id} is bad")
    return pass_on(document, context)


def split_in_three(document: PipeDoc, _context: ModuleContext) -> list[PipeDoc]:
    """Make three documents of one."""
    parts = []
    for number in range(3):
        part = PipeDoc()
        part.CopyFrom(document)
        part.doc_id = f"{document.doc_id}.{number}"
        parts.append(part)
    return parts


def take_a_minute(document: PipeDoc, _context: ModuleContext) -> PipeDoc:
    """Take longer than anybody waits, in steps, so that a deadline can end it."""
    for _ in range(3_000):
        time.sleep(0.02)
    return document
