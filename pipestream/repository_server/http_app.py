"""Uploads and webhooks over HTTP, and the pages of health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipestream.errors import PipestreamError
from pipestream.repository_server.answers import Answer, HttpRefusal, refused, taken_in
from pipestream.repository_server.bodies import (
    ReceivedFile,
    check_checksum,
    check_length,
    limited,
    measure,
    media_kind,
    sign,
    spool,
)
from pipestream.repository_server.bounded_requests import BoundedRequests
from pipestream.repository_server.documents import make_document, make_webhook_document
from pipestream.telemetry.endpoint import metrics_page
from pipestream.telemetry.health import LIVE_PATH, Health
from pipestream.telemetry.metrics import HTTP_REQUESTS
from pipestream.telemetry.tracing import TRACEPARENT

if TYPE_CHECKING:
    from starlette.datastructures import FormData, UploadFile

    from pipestream.graph.model import Datasource
    from pipestream.repository_server.desk import Desk

log = logging.getLogger(__name__)

_MULTIPART = "multipart/form-data"
_REFUSED_TYPES = ("application/x-www-form-urlencoded",)
_MOST_FILES = 1_000
_FIELD_BYTES = 64 * 1024
# Files above the inline limit are in memory while they are stored: so many at a time.
_LARGE_AT_ONCE = 4

Handler = Callable[[Request], Awaitable[Answer]]


class HttpDesk:
    """Answers the requests."""

    def __init__(self, desk: Desk, find_health: Callable[[], Health]) -> None:
        self._desk = desk
        self._settings = desk.settings
        self._find_health = find_health
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/uploads/{datasource}", self._answering("uploads", self._upload), methods=["POST"]),
                Route("/webhooks/{datasource}", self._answering("webhooks", self._webhook), methods=["POST"]),
                Route("/health", self._health),
                Route(LIVE_PATH, self._health),
                Route("/metrics", self._metrics),
            ],
            exception_handlers={HTTPException: _explain_http},
            middleware=[Middleware(BoundedRequests, most=self._settings.grpc_max_calls)],
        )

    async def _upload(self, request: Request) -> Answer:
        self._check_token(request)
        datasource = await self._desk.run(self._desk.require, request.path_params["datasource"])
        _check_encoding(request)
        kind = media_kind(request.headers.get("content-type", ""))
        if kind == _MULTIPART:
            return await self._upload_form(request, datasource)
        if kind.startswith("multipart/") or kind in _REFUSED_TYPES:
            raise _unsupported(f"content type {kind}: send multipart/form-data, or the file itself with its own type")
        file = await spool(request, self._settings.repository_max_upload_bytes)
        try:
            doc_id = request.headers.get("x-document-id", "") or request.query_params.get("doc_id", "")
            title = request.headers.get("x-title", "") or request.query_params.get("title", "")
            check_checksum(request.headers, file.checksum)
            return await self._take_in(file, datasource, doc_id, title, _trace(request))
        finally:
            file.content.close()

    async def _upload_form(self, request: Request, datasource: Datasource) -> Answer:
        limit = self._settings.repository_max_upload_bytes
        check_length(request.headers, limit)
        parser = MultiPartParser(
            request.headers, limited(request, limit), max_files=_MOST_FILES, max_part_size=_FIELD_BYTES
        )
        try:
            form = await parser.parse()
        except (MultiPartException, KeyError, UnicodeError, AssertionError) as error:
            reason = str(getattr(error, "message", error))
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "multipart_invalid", reason[:300]) from None
        try:
            return await self._take_in_form(form, datasource, _trace(request))
        finally:
            await form.close()

    async def _take_in_form(self, form: FormData, datasource: Datasource, trace: str) -> Answer:
        files: list[UploadFile] = [value for _, value in form.multi_items() if not isinstance(value, str)]
        fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        _check_texts([*fields.values(), *(part.filename or "" for part in files)])
        if not files:
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "no_file", "the form has no file")
        if len(files) > 1 and fields.get("doc_id"):
            raise HttpRefusal(
                HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"doc_id names one document, and the form has {len(files)}"
            )
        answers = [await self._take_in_part(part, datasource, fields, trace) for part in files]
        if len(answers) == 1:
            return answers[0]
        statuses = {answer.status for answer in answers}
        return Answer(
            statuses.pop() if len(statuses) == 1 else HTTPStatus.MULTI_STATUS,
            {
                "results": [
                    {"filename": part.filename, "status": int(answer.status), **answer.values}
                    for part, answer in zip(files, answers, strict=True)
                ]
            },
        )

    async def _take_in_part(
        self, part: UploadFile, datasource: Datasource, fields: Mapping[str, str], trace: str
    ) -> Answer:
        try:
            size_bytes, checksum = await self._desk.run(measure, part.file)
            check_checksum(part.headers, checksum)
            kind = media_kind(part.content_type or "")
            file = ReceivedFile(part.file, size_bytes, checksum, part.filename or "", kind)
            return await self._take_in(file, datasource, fields.get("doc_id", ""), fields.get("title", ""), trace)
        except PipestreamError as error:
            return refused(error)

    async def _take_in(self, file: ReceivedFile, datasource: Datasource, doc_id: str, title: str, trace: str) -> Answer:
        def work() -> Answer:
            prepared = self._desk.prepare(make_document(file, doc_id, title), datasource)
            return taken_in(self._desk.take_in(prepared, datasource, trace))

        if file.size_bytes == 0:
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "empty", "the body is empty")
        return await self._run(work, file)

    async def _run(self, work: Callable[[], Answer], file: ReceivedFile) -> Answer:
        """Do work that reads a whole file into memory."""
        if file.size_bytes <= self._settings.repository_max_inline_bytes:
            return await self._desk.run(work)
        async with self._large:
            return await self._desk.run(work)

    async def _webhook(self, request: Request) -> Answer:
        datasource_id = request.path_params["datasource"]
        secret = self._settings.webhook_secrets.get(datasource_id)
        if secret is None:
            self._check_token(request)
        datasource = await self._desk.run(self._desk.require, datasource_id)
        _check_encoding(request)
        kind = media_kind(request.headers.get("content-type", ""))
        if kind != "application/json" and not kind.endswith("+json"):
            raise _unsupported(f"content type {kind or 'missing'}: a webhook sends application/json")
        file = await spool(request, self._settings.repository_max_upload_bytes)
        doc_id = request.headers.get("x-document-id", "") or request.query_params.get("doc_id", "")

        def work() -> Answer:
            prepared = self._desk.prepare(make_webhook_document(file.read(), doc_id, file.checksum), datasource)
            return taken_in(self._desk.take_in(prepared, datasource, _trace(request)))

        with file.content:
            if secret is not None:
                # Not in memory as a whole: anybody can send a body with a wrong signature.
                signature = await self._desk.run(sign, file.content, secret.get_secret_value())
                _check_signature(request, signature)
            check_checksum(request.headers, file.checksum)
            return await self._run(work, file)

    async def _health(self, request: Request) -> Response:
        status, values = self._find_health().answer(request.url.path)
        return JSONResponse(values, status)

    async def _metrics(self, request: Request) -> Response:
        body, content_type = metrics_page(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    def _check_token(self, request: Request) -> None:
        token = self._settings.repository_token
        if token is None:
            return
        expected = f"Bearer {token.get_secret_value()}".encode()
        if not hmac.compare_digest(request.headers.get("authorization", "").encode("latin-1"), expected):
            raise HttpRefusal(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "send Authorization: Bearer TOKEN, with the token of this server",
                {"WWW-Authenticate": "Bearer", "Connection": "close"},
            )

    def _answering(self, route: str, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that answers whatever its handler raises."""

        async def endpoint(request: Request) -> Response:
            try:
                answer = await handle(request)
            except ClientDisconnect:
                answer = Answer(HTTPStatus.BAD_REQUEST, {"error": "disconnected", "reason": "the sender went away"})
            except PipestreamError as error:
                answer = refused(error)
            except Exception:
                log.exception("unexpected error in %s", route)
                values = {"error": "internal", "reason": "unexpected error; the server's log has it"}
                answer = Answer(HTTPStatus.INTERNAL_SERVER_ERROR, values)
            HTTP_REQUESTS.labels(route, str(int(answer.status))).inc()
            return JSONResponse(dict(answer.values), int(answer.status), headers=dict(answer.headers))

        return endpoint


async def _explain_http(_request: Request, error: Any) -> Response:
    """Answer what no route takes: an unknown path, another method."""
    status = HTTPStatus(error.status_code)
    values = {"error": status.phrase.lower().replace(" ", "_"), "reason": f"{status.phrase}: see docs/repository.md"}
    return JSONResponse(values, status, headers=error.headers)


def _trace(request: Request) -> str:
    return request.headers.get(TRACEPARENT, "")


def _check_texts(texts: Iterable[str]) -> None:
    """Refuse what a charset such as utf-7 can make of a form's bytes, and no document can hold: half a character."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        reason = "a field or file name is not Unicode text; send the form as UTF-8"
        raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "multipart_invalid", reason) from None


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise _unsupported(f"content encoding {encoding}: send the body as it is")


def _check_signature(request: Request, signature: str) -> None:
    given = request.headers.get("x-signature-256", "") or request.headers.get("x-hub-signature-256", "")
    if not hmac.compare_digest(given.strip().lower().encode("latin-1"), f"sha256={signature}".encode()):
        raise HttpRefusal(
            HTTPStatus.UNAUTHORIZED,
            "signature_invalid",
            "send X-Signature-256: sha256=HEX, the HMAC-SHA256 of the body with the datasource's secret",
        )


def _unsupported(reason: str) -> HttpRefusal:
    return HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported", reason, {"Connection": "close"})
