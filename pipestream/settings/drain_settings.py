"""How drains and streams work on their topics."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from pipestream.settings.group import SettingsGroup


class DrainSettings(SettingsGroup):
    """Drains."""

    cel_engine: Literal["cel-expr", "celpy"] = Field("cel-expr", description="Which engine evaluates conditions.")
    drain_budget: int = Field(100_000, ge=1, description="Most offsets one run drains from a slot of a topic.")
    sub_ranges: Literal["auto", "never", "always"] = Field(
        "auto",
        description="Whether several Spark tasks process one partition, each a sub-range of its offsets, while one "
        "task commits their results in order: auto (if earlier runs of the topic show that it saves time), never or "
        "always.",
    )
    sub_range_wave_s: float = Field(
        30.0,
        gt=0,
        le=1_800,  # stored and not committed yet, documents look unreferenced: see retention/expire.py
        description="About how many seconds the tasks of sub-ranges work before their results are committed and "
        "recorded. A run that dies has to process at most so much again.",
    )
    chunk_records: int = Field(
        10_000,
        ge=1,
        le=100_000,
        description="Most records of a chunk, which is one Kafka transaction. Chunks start smaller, and grow while "
        "their records are quick.",
    )
    chunk_bytes: int = Field(
        16_000_000, ge=1, description="Bytes of records and fetched documents after which a chunk is cut."
    )
    in_flight_bytes: int = Field(
        128_000_000,
        ge=1,
        description="Bytes of the chunks in progress in a task (input, outputs and objects) from which on no further "
        "chunk is begun. A drain in order of time holds back a quarter of it besides.",
    )
    max_attempts: int = Field(
        3, ge=1, le=100, description="Attempts for a document that fails transiently, or at which a process dies."
    )
    retry_initial_ms: int = Field(25, ge=0, description="First pause between tries.")
    retry_max_ms: int = Field(250, ge=0, description="Longest pause between tries.")
    failing_share: float = Field(0.5, gt=0, le=1, description="Share of failing records above which a range stops.")
    failing_minimum: int = Field(20, ge=1, description="Records a range must have seen before that share counts.")
    cycle_passes: int = Field(3, ge=1, le=50, description="How often one run drains the topics of a cycle.")

    @model_validator(mode="after")
    def _check_pauses(self) -> Self:
        if self.retry_initial_ms > self.retry_max_ms:
            raise ValueError("retry_initial_ms must not exceed retry_max_ms")
        return self


class StreamSettings(SettingsGroup):
    """Streams and sidecars."""

    reconcile_s: float = Field(
        5.0, ge=0.1, le=3600, description="How often a sidecar looks what is to be drained and who else drains."
    )
    sidecar_max_leases: int = Field(16, ge=1, description="Slots that one sidecar drains at most.")
    sidecar_address: str = Field(
        "127.0.0.1:50071", min_length=1, description="Where a sidecar is managed, host:port; port 0 takes a free one."
    )
    sidecar_telemetry_port: int = Field(
        9471, ge=0, le=65_535, description="Port of a sidecar's /metrics and /health; 0 takes a free one."
    )
    sidecar_stop_s: float = Field(
        60.0, gt=0, description="How long a sidecar that is asked to end waits for the chunks in progress."
    )
    stream_record_s: float = Field(
        5.0, gt=0, le=3600, description="How often a stream records in the ledger what it has drained."
    )
    stream_follow_s: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="How often a stream looks whether its graph, or what is wanted of its topic, changed.",
    )
    stream_window_s: float = Field(
        5.0,
        gt=0,
        le=600,
        description="How long a task of a streaming drain on Spark stays to drain what arrives. A stop waits for it.",
    )
    stream_budget: int = Field(
        10_000, ge=1, description="Most offsets a streaming drain on Spark drains from a slot at once."
    )
    stream_pause_max_s: float = Field(
        30.0, gt=0, le=3600, description="Longest pause of a stream before it tries again after a failure."
    )
