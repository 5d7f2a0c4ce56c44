"""The options of the built-in connectors as JSON Schema, for the schema of a graph."""

from __future__ import annotations

from typing import Any

from pipestream.connectors.folder import FolderOptions
from pipestream.connectors.options import Options, options_schema
from pipestream.connectors.row_files import CsvOptions, JsonLinesOptions
from pipestream.connectors.s3_prefix import S3Options
from pipestream.connectors.sql_query import SqlOptions
from pipestream.connectors.web_options import FeedOptions, SitemapOptions

OPTIONS: tuple[type[Options], ...] = (
    CsvOptions,
    FeedOptions,
    FolderOptions,
    JsonLinesOptions,
    S3Options,
    SitemapOptions,
    SqlOptions,
)


def connector_rules() -> list[dict[str, Any]]:
    """Return a rule for each built-in kind: which options it takes. Kinds of other packages may have any."""
    return [
        {
            "if": {"properties": {"kind": {"const": model.kind}}, "required": ["kind"]},
            "then": options_schema(model),
        }
        for model in OPTIONS
    ]
