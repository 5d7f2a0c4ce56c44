"""Make documents of what arrives over HTTP: files, stored documents, and the JSON of webhooks."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError

from pipestream.connectors.media import media_type
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.repository_server.answers import HttpRefusal
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.repository_server.bodies import ReceivedFile

PROTOBUF = ("application/x-protobuf", "application/protobuf")
_UNSPECIFIC = ("", "application/octet-stream", "application/x-www-form-urlencoded")


def make_document(file: ReceivedFile, doc_id: str, title: str) -> PipeDoc:
    """Return the document that a file is: a PipeDoc itself, or one with the file as its blob.

    Without an id of the sender's, a document with a file name is named by that, and any other by its content.

    :raises HttpRefusal: it is not the PipeDoc that its type says.
    """
    data = file.read()
    document = read_pipedoc(data) if file.content_type in PROTOBUF else _wrap_file(file, data)
    if title:
        document.search_metadata.title = title
    _name(document, doc_id, file.filename, file.checksum)
    return document


def read_pipedoc(data: bytes) -> PipeDoc:
    """Return the PipeDoc that some bytes are.

    :raises HttpRefusal: they are not one.
    """
    try:
        document = PipeDoc.FromString(data)
    except DecodeError as error:
        raise _unprocessable(f"the body is not a PipeDoc: {error}") from error
    # Any bytes that happen to parse leave a message without a single known field.
    if not document.ListFields():
        raise _unprocessable("the body is not a PipeDoc: it has none of its fields")
    return document


def make_webhook_document(data: bytes, doc_id: str, checksum: str) -> PipeDoc:
    """Return the document that a webhook's JSON is: its text as body, and an object also as structured data.

    :raises HttpRefusal: it is not JSON.
    """
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _unprocessable(f"the body is not JSON: {str(error)[:200]}") from None
    document = PipeDoc()
    found = document.search_metadata
    found.mime_type = "application/json"
    found.body = text
    found.content_length = len(data)
    if isinstance(value, dict):
        title = value.get("title")
        if isinstance(title, str):
            found.title = title.encode("utf-8", "replace").decode()
        document.structured_data.Pack(_struct(value), deterministic=True)
        doc_id = doc_id or _text(value.get("doc_id")) or _text(value.get("id"))
    _name(document, doc_id, "", checksum)
    return document


def _struct(value: dict[str, Any]) -> struct_pb2.Struct:
    try:
        # 1e999 is read as infinity, and nobody could write the document as JSON again.
        json.dumps(value, allow_nan=False)
        return json_format.ParseDict(value, struct_pb2.Struct())
    except (json_format.ParseError, ValueError, OverflowError, RecursionError) as error:
        raise _unprocessable(f"the JSON cannot be structured data: {str(error)[:200]}") from None


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _wrap_file(file: ReceivedFile, data: bytes) -> PipeDoc:
    name = file.filename.rpartition("/")[2]
    kind = media_type(name, data) if file.content_type in _UNSPECIFIC else file.content_type
    document = PipeDoc()
    blob = document.blob_bag.blob
    blob.blob_id = "0"
    blob.data = data
    blob.mime_type = kind
    blob.size_bytes = file.size_bytes
    blob.checksum = file.checksum
    blob.checksum_type = wire.CHECKSUM_TYPE_SHA256
    found = document.search_metadata
    found.mime_type = kind
    found.content_length = file.size_bytes
    if name:
        blob.filename = name
        found.title = name.rpartition(".")[0] or name
        found.source_path = file.filename
    return document


def _name(document: PipeDoc, doc_id: str, filename: str, checksum: str) -> None:
    if doc_id:
        document.doc_id = doc_id
    if document.doc_id or filename or document.search_metadata.source_uri or document.search_metadata.source_path:
        return  # the Repository derives it from the source
    document.doc_id = checksum
    document.doc_id_derivation.method = wire.DOC_ID_DERIVATION_METHOD_SERVER_GENERATED
    document.doc_id_derivation.input = checksum


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unprocessable(reason: str) -> HttpRefusal:
    return HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", reason)
