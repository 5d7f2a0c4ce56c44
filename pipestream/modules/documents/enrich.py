"""Language, keywords and counts of a document that has been parsed."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from pipestream.modules.declare import declare_module
from pipestream.modules.documents.language import LANGUAGE, set_language
from pipestream.modules.documents.options import read_options, schema_of

if TYPE_CHECKING:
    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(
    LANGUAGE,
    {
        "keywords": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100,
            "default": 8,
            "description": "How many of the most frequent words become keywords, unless the file has keywords.",
        },
    },
)

_STOP_WORDS = {
    "en": "a an and are as at be but by for from had has have he her his in is it its not of on or she that the "
    "their they this to was we were which who will with you",
    "de": "aber als am an auf aus bei das dass dem den der des die durch ein eine einen einer er es für hat ihr im "
    "in ist ich mit nach nicht noch sich sie sind so über und von war was wie wir wird zu zum zur",
    "fr": "au aux avec ce cette ces dans de des du elle en est et eux il ils je la le les leur lui mais ne nous "
    "on ou par pas pour que qui sa se ses son sur un une vous",
    "es": "al como con de del desde el ella en entre era es esta este fue ha hay la las lo los más no o para pero "
    "por que se ser sin sobre su sus también un una y ya",
}
_STOP_SETS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


@declare_module(config_schema=SCHEMA, name="enrich", description="Adds language, keywords and counts.")
def enrich(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Add language, keywords, ``content_length`` and ``metadata.word_count`` to a document with a body."""
    options = read_options(SCHEMA, context.config)
    set_language(document, options)
    found = document.search_metadata
    words = [word.lower() for word in _WORD.findall(found.body)]
    if not found.keywords.keyword:
        found.keywords.keyword[:] = frequent_words(words, found.language, options["keywords"])
    found.content_length = len(found.body)
    found.metadata["word_count"] = str(len(words))
    return document


def frequent_words(words: list[str], language: str, limit: int) -> list[str]:
    """Return the most frequent words that are longer than three letters and not among the common ones."""
    common = _STOP_SETS.get(language, frozenset())
    counts = Counter(word for word in words if len(word) > 3 and word not in common)
    # By name where the count is the same: a repeat must give the same list.
    return [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]]
