"""Which answers of S3 are worth another try, and that nobody waits longer for one than the settings say."""

from __future__ import annotations

import socket

import pytest

from pipestream.errors import StoreUnavailable
from pipestream.ledger import Ledger
from pipestream.objects.buckets import ensure_buckets
from pipestream.objects.s3 import Answer, read_answer
from pipestream.settings import Settings

OBSTORE = (
    "Generic S3 error: Error performing GET http://h/b?list-type=2 in 1ms - Server returned non-2xx status code: "
    "{status} Word: <?xml version='1.0'?>\n<Error><Code>{code}</Code></Error>\n\nDebug source: status: {status}"
)
DELTA = (
    "Kernel error -> Generic S3 error\n   \x1b[31m↳\x1b[0m Error performing GET http://h/b in 5.217332ms - Server "
    "returned non-2xx status code\n   \x1b[31m↳\x1b[0m {status} Word\n   \x1b[31m↳\x1b[0m <?xml?>\n<Error><Code>{code}"
    "</Code></Error>"
)


@pytest.fixture
def silent():
    """Settings for a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Settings(
            store_uri="s3://bucket",
            ledger_uri="s3://bucket/ledger",
            s3_endpoint=f"http://127.0.0.1:{server.getsockname()[1]}",
            s3_access_key="k",
            s3_secret_key="s3cret",
            s3_timeout_s=0.3,
        )


@pytest.mark.parametrize("text", [OBSTORE, DELTA])
@pytest.mark.parametrize(
    ("status", "code", "is_refusal"),
    [
        (403, "AccessDenied", True),
        (403, "SignatureDoesNotMatch", True),
        (403, "InvalidAccessKeyId", True),
        (404, "NoSuchBucket", True),
        (404, "XAdminUserNotFound", True),
        (400, "AuthorizationHeaderMalformed", True),
        (404, "NoSuchKey", False),
        (408, "RequestTimeout", False),
        (400, "RequestTimeout", False),
        (400, "ExpiredToken", False),
        (409, "OperationAborted", False),
        (412, "PreconditionFailed", False),
        (429, "TooManyRequests", False),
        (500, "InternalError", False),
        (503, "SlowDown", False),
    ],
)
def test_an_answer_that_no_retry_changes_is_a_refusal(text, status, code, is_refusal):
    answer = read_answer(text.format(status=status, code=code))

    assert answer == Answer(status, code)
    assert answer.is_refusal is is_refusal


def test_a_server_that_did_not_answer_refused_nothing():
    assert read_answer("Generic S3 error: Error performing GET http://h:403/b in 20s - HTTP error: timeout") is None


# Well above twice the timeout of the settings, and far below the clients' own defaults of 30 and 60 seconds.
@pytest.mark.timeout(25)
@pytest.mark.parametrize(
    "call",
    [
        lambda settings: Ledger(settings).heads("g", "t", [0]),
        lambda settings: Ledger(settings).table_uris(),
        lambda settings: Ledger(settings).find_plan("plan", "g"),
        ensure_buckets,
    ],
    ids=["heads", "tables", "plan", "buckets"],
)
def test_a_server_that_never_answers_is_given_up_after_the_time_of_the_settings(silent, call):
    with pytest.raises(StoreUnavailable) as caught:
        call(silent)

    assert "s3cret" not in str(caught.value)
