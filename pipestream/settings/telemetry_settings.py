"""What servers and runs tell about themselves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipestream.settings.group import SettingsGroup


class TelemetrySettings(SettingsGroup):
    """Logs, metrics and traces."""

    log_format: Literal["text", "json"] = Field(
        "text", description="How servers and Spark jobs log: lines for people, or a JSON object per line."
    )
    otlp_endpoint: str = Field(
        "",
        description="Where spans are sent to: the address of an OpenTelemetry collector (OTLP over HTTP), e.g. "
        "http://127.0.0.1:4318. Empty: none are made, and traces that others began are passed on.",
    )
    metrics_push_url: str = Field(
        "",
        description="Address of a Prometheus Pushgateway, to which batch runs send what they did, such as "
        "http://USER:PASSWORD@HOST:9091. Empty: none.",
    )
    telemetry_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address on which servers answer /metrics and /health. Neither asks for a login.",
    )
    health_stall_s: float = Field(
        300.0,
        gt=0,
        description="A server whose loop has not come around for so long says that it is not alive. A sidecar "
        "that has processed records for so long without a commit says that it is not ready.",
    )
