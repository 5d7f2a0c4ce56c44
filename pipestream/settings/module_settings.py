"""How modules are called."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from pipestream.settings.group import SettingsGroup, check_pair


class ModuleSettings(SettingsGroup):
    """Modules."""

    module_timeout_s: float = Field(300.0, gt=0, description="How long a module may take for one document.")
    gateway_url: str = Field(
        "",
        pattern=r"^(https?://[^\s]+)?$",
        description="Gateway that is told how far each document is, by POST to /envelopes/ID/progress and /final. "
        "Empty: none.",
    )
    runtime_processes: int = Field(
        2,
        ge=1,
        le=256,
        description="Most processes of one runtime: module that a task, a slot of a stream or an engine starts; each "
        "takes a document.",
    )
    runtime_memory_mb: int = Field(
        0, ge=0, description="Address space of a process of a runtime: module, in MB; 0: no limit."
    )
    runtime_start_timeout_s: float = Field(
        60.0, gt=0, description="How long a process of a runtime: module may take until it is ready."
    )
    module_concurrency: int = Field(
        16,
        ge=1,
        le=10_000,
        description="Calls of one gRPC module that a process makes at once; others wait. A node with a higher "
        "concurrency raises it for its module.",
    )
    module_breaker_failures: int = Field(
        2,
        ge=1,
        description="Calls of a gRPC module in a row that cannot reach it or time out, after which further calls are "
        "held back until it answers again. Fewer than max_attempts, or the first documents fail before that.",
    )
    module_breaker_pause_s: float = Field(
        0.5,
        gt=0,
        le=3600,
        description="First pause before a gRPC module that is down is asked whether it is back; each is twice the one "
        "before, up to 10 s.",
    )
    module_wait_s: float = Field(
        60.0,
        ge=0,
        description="How long the calls of a gRPC module that is down are held back. After that a range stops, and no "
        "document becomes a dead letter.",
    )
    module_answer_s: float = Field(
        5.0, gt=0, description="How long a gRPC module may take to say what it is, and whether it is healthy."
    )
    module_check: Literal["warn", "require", "off"] = Field(
        "warn",
        description="Applying a graph asks its gRPC modules which config they take. If one does not answer: warn and "
        "apply, or require it and refuse the graph; off: none is asked.",
    )
    module_ca_file: Path | None = Field(
        None, description="CA of gRPC modules, in PEM; without one they are called in plain text."
    )
    module_client_cert_file: Path | None = Field(
        None, description="Mutual TLS: the certificate that is shown to gRPC modules."
    )
    module_client_key_file: Path | None = Field(None, description="Private key of that certificate.")
    module_token: SecretStr | None = Field(None, min_length=1, description="Bearer token that is sent to gRPC modules.")

    @model_validator(mode="after")
    def _check_certificates_of_modules(self) -> Self:
        check_pair("module_client_cert_file", self.module_client_cert_file, self.module_client_key_file)
        return self
