"""What the HTTP side refuses before anything is stored, without servers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from io import BytesIO

import httpx
import pytest
from pydantic import SecretStr

from pipestream.errors import DatabaseUnavailable, DatasourceContested, DatasourceUnknown, IdInvalid, StoreRefused
from pipestream.repository_server.answers import HttpRefusal, refused
from pipestream.repository_server.bodies import ReceivedFile, check_checksum, sign
from pipestream.repository_server.http_app import HttpDesk
from pipestream.settings import Settings
from pipestream.telemetry.health import Health


class NoServers:
    """A desk whose datasources are all known, and that can store nothing."""

    def __init__(self, settings):
        self.settings = settings

    async def run(self, work, *arguments):
        return work(*arguments)

    def require(self, datasource_id):
        return datasource_id

    def prepare(self, document, _datasource):
        return document


@pytest.fixture
def ask():
    settings = Settings(repository_token="token", webhook_secrets={"signed": SecretStr("secret")})

    def ask(method, path, **options):
        async def send():
            app = HttpDesk(NoServers(settings), lambda: Health(False)).app()
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


def test_requests_beyond_the_limit_are_refused_in_json_and_health_is_answered():
    settings = Settings(repository_token="token", grpc_max_calls=1)
    desk = NoServers(settings)
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_work, *_):
        arrived.set()
        await go_on.wait()
        raise DatasourceUnknown("files")

    async def send():
        desk.run = wait
        transport = httpx.ASGITransport(HttpDesk(desk, lambda: Health(True)).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://repository") as client:
            headers = {"Authorization": "Bearer token"}
            first = asyncio.create_task(client.post("/uploads/files", content=b"x", headers=headers))
            await arrived.wait()
            second = await client.post("/uploads/files", content=b"x", headers=headers)
            health = await client.get("/health")
            go_on.set()
            return (await first).status_code, second, health.status_code

    first, second, health = asyncio.run(asyncio.wait_for(send(), 60))

    assert (first, health) == (404, 200)
    assert (second.status_code, second.json()["error"], second.headers["retry-after"]) == (503, "unavailable", "1")
    assert "grpc_max_calls" in second.json()["reason"]


def test_a_server_that_stops_says_so_and_its_metrics_need_no_token(ask):
    health = ask("GET", "/health")

    assert (health.status_code, health.json()["status"]) == (503, "NOT_SERVING")
    assert ask("GET", "/metrics").status_code == 200


def test_a_webhook_with_a_wrong_signature_is_refused_without_its_whole_body_in_memory(ask, monkeypatch):
    def read(_file):
        raise AssertionError("the body was read as a whole")

    monkeypatch.setattr(ReceivedFile, "read", read)
    headers = {"Content-Type": "application/json", "X-Signature-256": f"sha256={'0' * 64}"}

    answer = ask("POST", "/webhooks/signed", content=b"1" * 3_000_000, headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (401, "signature_invalid")


@pytest.mark.parametrize("part", ["name=title\r\n\r\n\\ud800", "name=f; filename=\\ud800\r\n\r\nv"])
def test_a_form_whose_charset_makes_half_a_character_is_refused(ask, part):
    parts = [part, "name=f; filename=x\r\n\r\nv"]
    body = "".join(f"--b\r\nContent-Disposition: form-data; {each}\r\n" for each in parts) + "--b--\r\n"
    kind = "multipart/form-data; boundary=b; charset=unicode_escape"
    headers = {"Authorization": "Bearer token", "Content-Type": kind}

    answer = ask("POST", "/uploads/files", content=body.encode(), headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (422, "multipart_invalid")


@pytest.mark.parametrize("number", ["1e999", "1" + 400 * "0"])
def test_a_webhook_with_a_number_that_no_double_holds_is_refused(ask, number):
    headers = {"Authorization": "Bearer token", "Content-Type": "application/json"}

    answer = ask("POST", "/webhooks/unsigned", content=f'{{"price": {number}}}', headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
    assert "the JSON cannot be structured data" in answer.json()["reason"]


def test_a_signature_is_that_of_all_pieces_of_a_file():
    data = bytes(range(256)) * 10_000

    assert sign(BytesIO(data), "secret") == hmac.new(b"secret", data, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DatasourceUnknown("x"), 404),
        (IdInvalid("x"), 422),
        (DatabaseUnavailable("x"), 503),
        (StoreRefused("x"), 503),
        (DatasourceContested("x", {"one": "ours", "two": "theirs"}), 503),
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
