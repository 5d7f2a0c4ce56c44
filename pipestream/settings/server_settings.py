"""The servers that are always on: engine and repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from pipestream.settings.group import SettingsGroup, check_pair, read_table


class GrpcSettings(SettingsGroup):
    """gRPC servers and their clients."""

    grpc_max_calls: int = Field(
        1_000, ge=1, description="Calls that one server process takes at once; more get RESOURCE_EXHAUSTED."
    )
    grpc_max_message_bytes: int = Field(
        64 * 1024 * 1024, ge=1024, lt=2**31, description="Largest message that a gRPC server takes or sends."
    )
    # Decoded, processed and written, a request takes about six times its bytes: a batch of 54 MB took 318 MB.
    grpc_in_flight_bytes: int = Field(
        512 * 1024 * 1024,
        ge=1024,
        description="Bytes of the requests that one server process has in work at once; a call beyond gets "
        "RESOURCE_EXHAUSTED, and a stream is not read further until there is room. A request alone is always taken.",
    )
    grpc_stop_s: float = Field(
        30.0, ge=0, description="How long a server that stops waits for the calls that it has accepted."
    )
    grpc_tls_cert_file: Path | None = Field(
        None, description="Certificate of the gRPC servers, in PEM; without one they speak plain text."
    )
    grpc_tls_key_file: Path | None = Field(None, description="Private key of that certificate, in PEM.")
    grpc_tls_client_ca_file: Path | None = Field(
        None, description="Mutual TLS: the servers let in only clients with a certificate of this CA."
    )
    grpc_ca_file: Path | None = Field(
        None, description="CA of the servers that gRPC clients call, in PEM; without one they speak plain text."
    )
    grpc_client_cert_file: Path | None = Field(None, description="Mutual TLS: the certificate that gRPC clients show.")
    grpc_client_key_file: Path | None = Field(None, description="Private key of the clients' certificate.")
    grpc_token: SecretStr | None = Field(
        None, min_length=1, description="Bearer token that the gRPC servers ask for, and that their clients send."
    )

    @model_validator(mode="after")
    def _check_certificates(self) -> Self:
        check_pair("grpc_tls_cert_file", self.grpc_tls_cert_file, self.grpc_tls_key_file)
        check_pair("grpc_client_cert_file", self.grpc_client_cert_file, self.grpc_client_key_file)
        if self.grpc_tls_client_ca_file is not None and self.grpc_tls_cert_file is None:
            raise ValueError("grpc_tls_client_ca_file needs grpc_tls_cert_file: mutual TLS is TLS on both sides")
        return self


class EngineSettings(SettingsGroup):
    """Engine."""

    engine_name: str = Field(
        "engine",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,79}$",
        description="Name of a group of engines. They share idempotency keys, in the topic NAME.accepted.",
    )
    engine_slots: int = Field(
        0,
        ge=0,
        le=1_000,
        description="Slots that idempotency keys are spread over; 0 means one per worker process. It must be the same "
        "for all engines of a name, and cannot be changed while the topic NAME.accepted exists.",
    )
    engine_window_s: float = Field(
        900.0,
        ge=60,
        le=86_400,
        description="How long an engine recognises a repeated idempotency key.",
    )
    # About 300 bytes each, so at most 300 MB a slot.
    engine_window_keys: int = Field(
        1_000_000,
        ge=1_000,
        description="Most idempotency keys that a slot of an engine remembers; the oldest are forgotten first.",
    )
    engine_waiting: int = Field(
        10_000, ge=1, description="Most calls of a slot of an engine that wait for a transaction."
    )
    engine_waiting_bytes: int = Field(
        64_000_000, ge=1_000, description="Most bytes of outputs of a slot of an engine that wait for a transaction."
    )
    engine_graph_poll_s: float = Field(
        1.0, gt=0, le=3600, description="How often an engine looks for graphs that were applied or rolled back."
    )
    engine_threads: int = Field(
        16, ge=1, le=1_000, description="Calls of modules and of other engines that one engine process makes at once."
    )
    engine_threads_waiting: int = Field(
        256, ge=0, description="Calls that wait for one of these threads; more get RESOURCE_EXHAUSTED."
    )
    engine_stream_window: int = Field(
        256, ge=1, le=10_000, description="Documents of one IntakeHandoffStream or ProcessStream in work at once."
    )
    engine_direct_bytes: int = Field(
        1024 * 1024,
        ge=0,
        description="A larger document that is handed to an engine goes through the object store and the intake topic, "
        "unless the caller or the datasource asks for the direct path.",
    )


class RepositorySettings(SettingsGroup):
    """Repository."""

    repository_max_upload_bytes: int = Field(
        64 * 1024 * 1024, ge=1, lt=2**31, description="Largest body of a request that the Repository takes over HTTP."
    )
    repository_max_inline_bytes: int = Field(
        1024 * 1024,
        ge=0,
        description="Largest blob that the Repository keeps inside its document; larger ones become objects of their "
        "own. A datasource's hydration decides before it.",
    )
    repository_token: SecretStr | None = Field(
        None, min_length=1, description="Bearer token that the Repository asks for over HTTP."
    )
    webhook_secrets: Annotated[Mapping[str, SecretStr], NoDecode] = Field(
        {},
        description="Secrets with which the senders of webhooks sign, by datasource. A table in TOML, a JSON object in "
        "the environment.",
    )

    @field_validator("webhook_secrets", mode="before")
    @classmethod
    def _read_webhook_secrets(cls, given: Any) -> Any:
        return read_table(given, '{"my-datasource": "…"}')
