"""TLS, mutual TLS and bearer tokens, for servers and for clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from pipestream.errors import SettingsInvalid

if TYPE_CHECKING:
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """How a server is reached. Without a certificate it speaks plain text."""

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    """Only clients with a certificate of this CA are let in."""
    token: str = field(default="", repr=False)
    """What a client has to send as ``authorization: Bearer TOKEN``; empty: nothing."""

    def credentials(self) -> grpc.ServerCredentials | None:
        """Return the credentials of a port, or None for plain text.

        :raises SettingsInvalid: a file cannot be read.
        """
        if self.certificate is None or self.key is None:
            return None
        pair = [(_read(self.key, "grpc_tls_key_file"), _read(self.certificate, "grpc_tls_cert_file"))]
        authority = _read(self.client_ca, "grpc_tls_client_ca_file") if self.client_ca else None
        return grpc.ssl_server_credentials(pair, authority, require_client_auth=authority is not None)


@dataclass(frozen=True, slots=True)
class ChannelSecurity:
    """How a client reaches a server."""

    ca: Path | None = None
    """The CA whose certificates a server may show; None: plain text."""
    certificate: Path | None = None
    key: Path | None = None
    """What the client itself shows, for mutual TLS."""
    token: str = field(default="", repr=False)

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return the credentials of a channel, or None for plain text.

        :raises SettingsInvalid: a file cannot be read.
        """
        if self.ca is None:
            return None
        return grpc.ssl_channel_credentials(
            _read(self.ca, "grpc_ca_file"),
            _read(self.key, "grpc_client_key_file") if self.key else None,
            _read(self.certificate, "grpc_client_cert_file") if self.certificate else None,
        )

    def https_context(self) -> ssl.SSLContext:
        """Return how the same client reaches HTTPS. Without a CA of its own it trusts those of the system.

        :raises SettingsInvalid: a file cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:  # an SSLError is one, too
            files = ", ".join(str(each) for each in (self.ca, self.certificate, self.key) if each is not None)
            names = "grpc_ca_file, grpc_client_cert_file or grpc_client_key_file"
            raise SettingsInvalid(f"{names} cannot be used ({files}): {error}") from error
        return context


def server_security(settings: Settings) -> ServerSecurity:
    """Return how the servers of this installation are reached."""
    return ServerSecurity(
        settings.grpc_tls_cert_file,
        settings.grpc_tls_key_file,
        settings.grpc_tls_client_ca_file,
        settings.grpc_token.get_secret_value() if settings.grpc_token else "",
    )


def channel_security(settings: Settings, *, with_token: bool = True) -> ChannelSecurity:
    """Return how clients of this installation reach its servers.

    :param with_token: send the token; not to a server of somebody else, which would learn it.
    """
    token = settings.grpc_token.get_secret_value() if settings.grpc_token and with_token else ""
    return ChannelSecurity(settings.grpc_ca_file, settings.grpc_client_cert_file, settings.grpc_client_key_file, token)


def _read(file: Path, setting: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsInvalid(f"{setting}: {file} cannot be read: {error.strerror}") from error
