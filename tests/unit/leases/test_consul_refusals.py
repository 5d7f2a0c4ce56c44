"""Which of Consul's refusals another try may mend. The client's own code turns each answer into its error."""

from __future__ import annotations

import pytest
from consul.base import Response
from consul.callback import CB
from consul.exceptions import NotFound

from pipestream.errors import LeaseStoreRefused, LeaseStoreUnavailable
from pipestream.leases.consul_client import explain_errors

ADDRESS = "127.0.0.1:8500"


def answer(code, body, **options):
    with explain_errors(ADDRESS):
        CB._status(Response(code, {}, body), **options)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (408, ""),
        (429, "Your IP is issuing too many concurrent connections, please rate limit your calls\n"),
        (429, ""),
        (500, "No cluster leader"),
        (500, "rpc error making call: leadership lost while committing log"),
        (502, "<html>Bad Gateway</html>"),
        (503, "rate limit exceeded for operation that can only be performed by the leader"),
    ],
)
def test_an_agent_that_has_no_leader_or_too_much_to_do_is_asked_again(code, body):
    with pytest.raises(LeaseStoreUnavailable) as caught:
        answer(code, body)

    assert str(caught.value) == f"Consul at {ADDRESS} cannot answer now: {code} {body}".strip()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (400, "check consul_address and consul_scheme"),
        (401, "consul_token needs session:write and key:write on pipestream/"),
        (403, "consul_token needs session:write and key:write on pipestream/"),
        (405, "check consul_address and consul_scheme"),
        (413, "check consul_address and consul_scheme"),
    ],
)
def test_an_agent_that_refuses_us_for_good_is_not_asked_again(code, advice):
    with pytest.raises(LeaseStoreRefused, match=advice):
        answer(code, "no")


def test_what_is_not_there_is_an_answer_and_not_an_error_of_ours():
    with pytest.raises(NotFound):
        answer(404, "session id not found", allow_404=False)
