"""What the HTTP side refuses before anything is stored, without servers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import httpx
import pytest
from pydantic import SecretStr

from pipestream.errors import DatabaseUnavailable, DatasourceUnknown, IdInvalid, StoreRefused
from pipestream.repository_server.answers import HttpRefusal, refused
from pipestream.repository_server.bodies import check_checksum
from pipestream.repository_server.http_app import HttpDesk
from pipestream.settings import Settings
from pipestream.telemetry.endpoint import Health


@pytest.fixture
def ask():
    settings = Settings(repository_token="token", webhook_secrets={"signed": SecretStr("secret")})

    def ask(method, path, **options):
        async def send():
            app = HttpDesk(SimpleNamespace(settings=settings), lambda: Health(False)).app()
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://repository") as opened:
                return await opened.request(method, path, **options)

        return asyncio.run(send())

    return ask


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": "token"}])
@pytest.mark.parametrize("path", ["/uploads/files", "/webhooks/unsigned"])
def test_a_request_without_the_token_is_refused_before_its_datasource_is_looked_for(ask, path, headers):
    answer = ask("POST", path, content=b"x", headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_server_that_stops_says_so_and_its_metrics_need_no_token(ask):
    health = ask("GET", "/health")

    assert (health.status_code, health.json()["status"]) == (503, "NOT_SERVING")
    assert ask("GET", "/metrics").status_code == 200


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DatasourceUnknown("x"), 404),
        (IdInvalid("x"), 422),
        (DatabaseUnavailable("x"), 503),
        (StoreRefused("x"), 503),
    ],
)
def test_each_error_has_its_status_and_only_what_may_pass_asks_to_repeat(error, status):
    answer = refused(error)

    assert answer.status == status
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_two_checksums_that_differ_are_refused():
    digest = "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:"  # of b"test"

    check_checksum(
        {"content-digest": f"md5=:x:, {digest}"}, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    )
    with pytest.raises(HttpRefusal, match="differ"):
        check_checksum({"content-digest": digest, "x-checksum-sha256": "0" * 64}, "0" * 64)
