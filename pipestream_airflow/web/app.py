"""The app: all routes below ``/pipestream``, and the page's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

from pipestream import __version__
from pipestream_airflow.web.access import READS
from pipestream_airflow.web.errors import ERROR_ANSWERS, add_error_handlers
from pipestream_airflow.web.limits import BodyLimit
from pipestream_airflow.web.routes import (
    compare,
    dead_letters,
    documents,
    editing,
    ledger,
    metrics,
    numbers,
    pipelines,
    state,
    trials,
)
from pipestream_airflow.web.services import Services

if TYPE_CHECKING:
    from starlette.responses import Response

STATIC = Path(__file__).parent / "static"


class PageFiles(StaticFiles):
    """The page's files.

    A browser asks each time whether a file has changed. Otherwise, after an update, it could mix modules of both
    versions, which import each other.
    """

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def create_app(services: Services | None = None) -> FastAPI:
    """Return the app, which Airflow mounts at ``/pipestream``.

    :param services: what its routes work with; those of this process's settings unless given.
    """
    # Its own pages of documentation would need no session; the routes below do.
    app = FastAPI(title="Pipestream", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.services = services or Services.open()
    app.add_middleware(BodyLimit)
    add_error_handlers(app)
    api = APIRouter(prefix="/api", responses=ERROR_ANSWERS)
    for routes in (pipelines, numbers, editing, compare, state, trials, documents, ledger, dead_letters):
        api.include_router(routes.router)
    api.add_api_route("/openapi.json", app.openapi, dependencies=READS, include_in_schema=False)
    app.include_router(api)
    app.include_router(metrics.router)
    app.mount("/static", PageFiles(directory=STATIC), name="static")
    return app
