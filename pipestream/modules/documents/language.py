"""The language of a text."""

from __future__ import annotations

import copy
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleFailed
from pipestream.extras import needs_extra
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.options import Options, read_options, schema_of

if TYPE_CHECKING:
    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc

LANGUAGE = {
    "languages": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[a-z]{2,3}$"},
        "uniqueItems": True,
        "default": [],
        "description": "The languages to choose from, as ISO 639 codes; none: all that are known (about 140).",
    },
    "min_probability": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "default": 0.5,
        "description": "Below this probability the language is und: undetermined.",
    },
    "overwrite": {
        "type": "boolean",
        "default": False,
        "description": "Whether a language that the document already has is replaced.",
    },
}
SCHEMA = schema_of(LANGUAGE)

UNDETERMINED = "und"
# More does not change the answer, and costs time.
_LOOKED_AT = 20_000
_LOADING = threading.Lock()


@declare_module(config_schema=SCHEMA, name="language", description="Finds the language of the text.")
def detect(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Set ``language`` to the ISO 639 code of the body's language."""
    set_language(document, read_options(SCHEMA, context.config))
    return document


def set_language(document: PipeDoc, options: Options) -> None:
    """Set the language of a document, unless it has one that is to be kept.

    :raises ModuleFailed: the document has no text, or the config names an unknown language.
    """
    found = document.search_metadata
    if not found.body:
        raise ModuleFailed("the document has no text; parse it first")
    if options["overwrite"] or not found.language:
        found.language = language_of(found.body, tuple(options["languages"]), options["min_probability"])


def language_of(text: str, languages: tuple[str, ...] = (), min_probability: float = 0.5) -> str:
    """Return the most probable language of a text, or ``und``.

    :raises ModuleFailed: one of ``languages`` is unknown.
    """
    looked_at = text[:_LOOKED_AT]
    if not any(letter.isalpha() for letter in looked_at):
        return UNDETERMINED
    with _LOADING:
        try:
            identifier = _identifier(languages)
        except ValueError as error:
            raise ModuleFailed(f"the node's config is not valid: {error}") from error
    language, probability = identifier.classify(looked_at)
    return str(language) if probability >= min_probability else UNDETERMINED


@lru_cache(maxsize=16)
def _identifier(languages: tuple[str, ...]) -> Any:
    if languages:
        chosen = copy.copy(_identifier(()))
        chosen.set_languages(list(languages))
        return chosen
    with needs_extra("documents"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
