"""Errors as HTTP answers: a status, and a reason that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from pipestream.dead_letters import ActionConflict, LetterMissing
from pipestream.dead_letters.approval import ApprovalNeeded
from pipestream.deployment.versions import VersionConflict, VersionMissing
from pipestream.errors import (
    ConditionError,
    DatasourceUnknown,
    DocumentMissing,
    GraphInUse,
    GraphInvalid,
    IdInvalid,
    MappingError,
    PipestreamError,
    RecordInvalid,
    RequestInvalid,
    SegmentDamaged,
    SettingsInvalid,
    TopicMissing,
)
from pipestream.views.pipelines import PipelineMissing
from pipestream.views.problems import PlacedProblem, place_problems

_STATUSES: dict[type[PipestreamError], int] = {
    RequestInvalid: 400,
    IdInvalid: 400,
    ConditionError: 400,
    MappingError: 400,
    RecordInvalid: 400,
    GraphInvalid: 422,
    PipelineMissing: 404,
    VersionMissing: 404,
    LetterMissing: 404,
    DocumentMissing: 404,
    SegmentDamaged: 404,
    DatasourceUnknown: 404,
    TopicMissing: 409,
    VersionConflict: 409,
    GraphInUse: 409,
    ActionConflict: 409,
    ApprovalNeeded: 409,
    SettingsInvalid: 409,
}


class TextInvalid(Exception):
    """A graph's text breaks rules."""

    def __init__(self, problems: Sequence[PlacedProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"the graph has {len(self.problems)} problems")


class ErrorAnswer(BaseModel):
    """Why a request was refused or could not be answered."""

    detail: str
    problems: list[PlacedProblem] = []


ERROR_ANSWERS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorAnswer, "description": "no session"},
    403: {"model": ErrorAnswer, "description": "the user has no right to it"},
    422: {"model": ErrorAnswer, "description": "the request cannot be used; the reason says why"},
    503: {"model": ErrorAnswer, "description": "a server did not answer in time; the reason names it"},
}
"""What every route may answer instead."""


def status_of(error: PipestreamError) -> int:
    """Return the HTTP status of an error. What the caller cannot help is 503: a server is down, or refuses us."""
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 503)


def add_error_handlers(app: FastAPI) -> None:
    """Turn our errors, and requests that cannot be read, into answers with a reason."""

    @app.exception_handler(PipestreamError)
    async def _ours(_: Request, error: PipestreamError) -> JSONResponse:
        problems = place_problems(error.problems, ()) if isinstance(error, GraphInvalid) else ()
        return _answer(status_of(error), str(error), problems)

    @app.exception_handler(TextInvalid)
    async def _broken_text(_: Request, error: TextInvalid) -> JSONResponse:
        return _answer(422, str(error), error.problems)

    @app.exception_handler(RequestValidationError)
    async def _unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
        reasons = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
        return _answer(422, "; ".join(reasons)[:2_000], ())


def _answer(status: int, detail: str, problems: Sequence[PlacedProblem]) -> JSONResponse:
    headers = {"Retry-After": "5"} if status == 503 else None
    content = ErrorAnswer(detail=detail, problems=list(problems)).model_dump()
    return JSONResponse(content, status, headers)
