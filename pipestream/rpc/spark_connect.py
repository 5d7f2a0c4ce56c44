"""Where a Spark Connect server is, how a client reaches it, and whether it answers. Needs no Spark."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from pipestream.errors import SettingsInvalid, SparkUnavailable
from pipestream.rpc.channels import open_channel
from pipestream.rpc.security import ChannelSecurity
from pipestream.settings import Settings

DEFAULT_PORT = 15002
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A server that is there accepts a connection at once. One that is busy with many drains may take long to answer.
_DIAL_TIMEOUT_S = 3.0
_ANSWER_TIMEOUT_S = 60.0
# The server drops a client that asks more often than every 5 minutes whether the connection is still alive.
_KEEPALIVE_MS = 310_000
_OPTIONS: list[tuple[str, Any]] = [("grpc.keepalive_time_ms", _KEEPALIVE_MS), ("grpc.keepalive_timeout_ms", 20_000)]
# A method that no server has. It answers so at once, and logs nothing, as it would for a request without a session.
_METHOD = "/spark.connect.SparkConnectService/IsThere"
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True, slots=True)
class ConnectPlace:
    """A Spark Connect server as a client sees it."""

    host: str
    port: int
    ca: Path | None = None
    """The CA whose certificate the server shows; None: plain text."""
    token: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def channel(self) -> grpc.Channel:
        """Return a channel to the server, which sends the token with every call."""
        return open_channel(self.address, ChannelSecurity(self.ca, token=self.token), _OPTIONS)

    def check(self, timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        """Check that the server answers. Whether it accepts the token, the first call in a session finds out.

        :raises SparkUnavailable: nothing listens, or there is no answer in time.
        """
        # First, because it fails at once, while gRPC would try again until the time is over.
        try:
            socket.create_connection((self.host, self.port), timeout=min(_DIAL_TIMEOUT_S, timeout_s)).close()
        except OSError as error:
            raise SparkUnavailable(self.address, error.strerror or str(error)) from error
        with closing(self.channel()) as channel:
            try:
                channel.unary_unary(_METHOD)(b"", timeout=timeout_s, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() in _NO_ANSWER:
                    raise SparkUnavailable(self.address, error.details()) from error


def connect_place(settings: Settings) -> ConnectPlace | None:
    """Return the Spark Connect server of the settings; None if they name none.

    :raises SettingsInvalid: it has no token, or it is on another machine and there is no CA for TLS.
    """
    if not settings.spark_connect_url:
        return None
    parts = urlsplit(settings.spark_connect_url.replace("sc://", "http://", 1))
    host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    if settings.spark_connect_token is None:
        raise SettingsInvalid(
            "spark_connect_url needs spark_connect_token: whoever reaches the port of a Spark Connect server runs code"
        )
    is_tls = parts.path.endswith("use_ssl=true") or (host not in LOOPBACK and not parts.path.endswith("use_ssl=false"))
    if is_tls and settings.grpc_ca_file is None:
        raise SettingsInvalid(
            f"the Spark Connect server {host}:{port} is reached by TLS, so set grpc_ca_file to the CA of its proxy; in "
            f"a network of its own, the end ;use_ssl=false of the URL allows plain text"
        )
    ca = settings.grpc_ca_file if is_tls else None
    return ConnectPlace(host, port, ca, settings.spark_connect_token.get_secret_value())
