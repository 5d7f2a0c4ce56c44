"""Text, headers and attachments of mail (.eml)."""

from __future__ import annotations

import email
import email.policy
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleFailed
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.extract import Attachment, Extract, beyond_limit, read_document
from pipestream.modules.documents.options import LIMITS, MAIL, read_options, schema_of

if TYPE_CHECKING:
    from datetime import datetime

    from pipestream.modules.documents.content import Content
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS, MAIL)

_ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
_HEADERS = ("From", "To", "Date", "Subject", "Message-ID")
_MAX_PARTS = 2_000
# The parser tries the boundaries of all parts around a line, so its time grows with the square of the depth.
_MAX_MULTIPARTS = 300


@declare_module(is_parser=True, config_schema=SCHEMA, name="mail", description="Text and attachments of mail.")
def extract(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read the text, subject, sender, date and attachments of a mail."""
    return read_document(document, read_mail, read_options(SCHEMA, context.config))


def read_mail(content: Content, options: Options) -> Extract:
    """Return what a mail contains: its plain text, or that of its HTML.

    :raises ModuleFailed: it has no headers of a mail, is encrypted, or cannot be taken apart.
    """
    multiparts = content.data.count(b"boundary=")
    if multiparts > _MAX_MULTIPARTS:
        raise ModuleFailed(f"the mail has {multiparts} nested parts, and only {_MAX_MULTIPARTS} are read")
    try:
        message = email.message_from_bytes(content.data, policy=email.policy.default)
        if not any(name in message for name in _HEADERS):
            raise ModuleFailed("not a mail: it has none of the headers From, To, Date, Subject and Message-ID")
        if message.get_content_type() in _ENCRYPTED:
            raise ModuleFailed("the mail is encrypted")
        problems: list[str] = []
        files = _attachments(message, options, problems)
        return Extract(
            text=_body(message, problems),
            title=str(message.get("Subject", "")),
            author=str(message.get("From", "")),
            created=_sent(message, problems),
            fields=_fields(message, files, options),
            problems=problems,
            attachments=files if options["attachments"] == "documents" else (),
        )
    except RecursionError as error:
        raise ModuleFailed("not a mail that can be read: its parts are nested too deeply") from error
    except (MessageError, ValueError, LookupError, AttributeError, TypeError, IndexError) as error:
        # The standard library's parser accepts nearly everything, and some of it only fails when it is looked at.
        raise ModuleFailed(f"not a mail that can be read: {type(error).__name__}: {error}") from error


def _body(message: EmailMessage, problems: list[str]) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if not isinstance(part, EmailMessage):
        return ""
    try:
        text = str(part.get_content())
    except (LookupError, UnicodeError) as error:
        problems.append(f"the text is not of the encoding that it declares: {error}")
        text = _bytes(part).decode("utf-8", "replace")
    if part.get_content_type() != "text/html":
        return text
    from pipestream.modules.documents.html import read_page

    return read_page(text).text


def _sent(message: EmailMessage, problems: list[str]) -> datetime | None:
    if "Date" not in message:
        return None
    try:
        return parsedate_to_datetime(str(message["Date"]))
    except ValueError:
        problems.append(f"the date {str(message['Date'])[:100]!r} is not one")
        return None


def _attachments(message: EmailMessage, options: Options, problems: list[str]) -> list[Attachment]:
    if options["attachments"] == "ignore" or not message.is_multipart():
        return []
    body = message.get_body(preferencelist=("plain", "html"))
    found: list[Attachment] = []
    for number, part in enumerate(message.walk()):
        if number >= _MAX_PARTS:
            raise ModuleFailed(f"the mail has more than {_MAX_PARTS} parts")
        is_file = part.get_content_disposition() == "attachment" or part.get_filename()
        if part is body or (part.is_multipart() and part.get_content_maintype() != "message") or not is_file:
            continue
        if len(found) == options["max_attachments"]:
            problems.append(beyond_limit(f"the mail has more than {len(found)} attachments", options))
            break
        found.append(Attachment(part.get_filename() or "", part.get_content_type(), _bytes(part)))
    return found


def _bytes(part: Any) -> bytes:
    data = part.get_payload(decode=True)
    if isinstance(data, bytes):
        return data
    inner = part.get_payload(0) if part.is_multipart() else part  # a forwarded mail
    return bytes(inner.as_bytes())


def _fields(message: EmailMessage, files: list[Attachment], options: Options) -> dict[str, Any]:
    receivers = [address for _, address in getaddresses([str(value) for value in message.get_all("To", [])]) if address]
    fields: dict[str, Any] = {"to": receivers, "message_id": str(message.get("Message-ID", "")).strip()}
    if options["attachments"] != "ignore":
        fields["attachments"] = [
            {"name": file.filename, "type": file.media_type, "bytes": len(file.data)} for file in files
        ]
    return {name: value for name, value in fields.items() if value}
