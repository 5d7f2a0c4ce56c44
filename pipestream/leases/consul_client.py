"""A Consul client that answers or gives up, and whose errors are ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import consul
import requests
from consul.exceptions import (
    ACLDisabled,
    ACLPermissionDenied,
    BadRequest,
    ClientError,
    ConsulException,
    NotFound,
)

from pipestream.errors import LeaseStoreRefused, LeaseStoreUnavailable, SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.settings import Settings

# What an agent says that has too many requests, or waited too long for one to arrive.
ASK_AGAIN = ("408 ", "429 ")

# Half of the shortest TTL: a renewal that gets no answer leaves time for another.
TIMEOUT_S = 5.0


def connect(settings: Settings) -> Any:
    """Return a client for the agent that the settings name. It connects with the first request.

    :raises SettingsInvalid: the address or the CA file cannot be used.
    """
    host, _, port = settings.consul_address.rpartition(":")
    if not host or not port.isdecimal():
        raise SettingsInvalid(f"consul_address must be HOST:PORT, not {settings.consul_address!r}")
    verify: bool | str = True
    if settings.consul_ca_file is not None:
        if not settings.consul_ca_file.is_file():
            raise SettingsInvalid(f"consul_ca_file names {settings.consul_ca_file}, which is not a file")
        verify = str(settings.consul_ca_file)
    client = consul.Consul(
        host=host,
        port=int(port),
        scheme=settings.consul_scheme,
        # What a lease rests on must not be read from a follower that lags.
        consistency="consistent",
        verify=verify,
        connections_timeout=TIMEOUT_S,
    )
    # Set afterwards: the constructor prefers CONSUL_HTTP_TOKEN to its argument, and settings have one source.
    client.token = settings.consul_token.get_secret_value() if settings.consul_token else None
    # No proxy from the environment: it would cut blocking queries short, and the agent is next door.
    client.http.session.trust_env = False
    return client


@contextmanager
def explain_errors(address: str) -> Iterator[None]:
    """Turn what the client raises into our errors; NotFound passes, for it is an answer.

    :raises LeaseStoreUnavailable: no answer, or the agent has no leader or too much to do: try again.
    :raises LeaseStoreRefused: the agent refuses us.
    """
    try:
        yield
    except NotFound:
        raise
    except (ACLDisabled, ACLPermissionDenied) as error:
        raise LeaseStoreRefused(
            f"Consul at {address} refuses the ACL token: {error}; consul_token needs "
            f"session:write and key:write on pipestream/"
        ) from None
    except (BadRequest, ClientError) as error:
        if str(error).startswith(ASK_AGAIN):  # the client tells the status in no other way
            raise _unavailable(address, error) from None
        raise LeaseStoreRefused(
            f"Consul at {address} refuses the request: {error}; check consul_address and consul_scheme"
        ) from None
    except requests.exceptions.SSLError as error:
        raise LeaseStoreRefused(f"Consul at {address}: {error}; check consul_ca_file and consul_scheme") from None
    except requests.exceptions.RequestException as error:
        raise LeaseStoreUnavailable(f"Consul at {address} does not answer: {error}") from None
    except ConsulException as error:
        raise _unavailable(address, error) from None


def _unavailable(address: str, error: ConsulException) -> LeaseStoreUnavailable:
    return LeaseStoreUnavailable(f"Consul at {address} cannot answer now: {' '.join(str(error).split())}")
