"""How DAGs run, when they start, and what their pages may do."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from pipestream.settings.group import SettingsGroup


class SparkSettings(SettingsGroup):
    """Spark."""

    spark_master: str = Field(
        "local[2]",
        description="Spark master of `pipestream drain --spark`; drains in Airflow use its connection spark_default.",
    )
    spark_mode: Literal["auto", "connect", "submit"] = Field(
        "auto",
        description="How a drain on Spark runs: connect (on a Spark Connect server that is kept up), submit (a "
        "spark-submit of its own), or auto (connect if the server answers, otherwise submit).",
    )
    spark_connect_url: str = Field(
        "",
        pattern=r"^(sc://[^\s/;@]+(/;use_ssl=(true|false))?)?$",
        description="Spark Connect server, sc://HOST:PORT. On another machine it is reached by TLS, unless the URL "
        "ends with /;use_ssl=false. Empty: none.",
    )
    spark_connect_token: SecretStr | None = Field(
        None, min_length=1, description="Token that the Spark Connect server asks for, and that drains send."
    )


class ArrivalSettings(SettingsGroup):
    """When runs start."""

    arrival_records: int = Field(
        1_000,
        ge=1,
        description="Schedule on_arrival: records that start a run when they wait. A graph may say otherwise.",
    )
    arrival_oldest_s: int = Field(
        60,
        ge=1,
        description="Schedule on_arrival: how long the oldest record may wait before a run starts. A graph may say "
        "otherwise.",
    )
    arrival_poll_s: float = Field(
        10, gt=0, description="Schedule on_arrival: how often Airflow's triggerer asks Kafka what waits."
    )
    arrival_repeat_s: float = Field(
        300,
        gt=0,
        description="Schedule on_arrival: how long enough must still wait until another run is started without any "
        "progress since the last. After progress, a tenth of it.",
    )
    hour_grace_s: float = Field(
        60,
        ge=0,
        description="Complete hours: how late the records of an hour may be written, and how far clocks may be apart.",
    )


class LiveSettings(SettingsGroup):
    """Servers that Airflow keeps up."""

    live_folder: Path = Field(
        Path(".pipestream/live"),
        description="Folder of the servers that Airflow keeps up: their sockets and their output. On a local disk.",
    )
    live_engine_address: str = Field(
        "127.0.0.1:50051",
        pattern=r"^[^\s:]+:\d{1,5}$",
        description="Where the engine that Airflow starts takes calls, HOST:PORT.",
    )
    live_repository_address: str = Field(
        "127.0.0.1:50061",
        pattern=r"^[^\s:]+:\d{1,5}$",
        description="Where the repository that Airflow starts takes gRPC calls, HOST:PORT.",
    )
    live_engine_url: str = Field(
        "http://127.0.0.1:9465",
        description="Where live DAGs find the engine's /health and /metrics. Airflow starts it with this port.",
    )
    live_repository_url: str = Field(
        "http://127.0.0.1:8090",
        description="Where live DAGs find the repository's /health and /metrics. Airflow starts it with this port.",
    )
    live_sidecar_url: str = Field(
        "http://127.0.0.1:9471",
        description="Where live DAGs find the sidecar's /health and /metrics. Airflow starts it with this port.",
    )
    live_stream_url: str = Field(
        "http://127.0.0.1:9472",
        description="Where live DAGs find the Spark stream's /health and /metrics. Airflow starts it with this port.",
    )
    live_hours: float = Field(
        6.0, gt=0, le=8760, description="How old a run of a live DAG gets before the next one takes its servers over."
    )


class WebSettings(SettingsGroup):
    """Pages in Airflow."""

    web_timeout_s: float = Field(
        5.0,
        gt=0,
        le=600,
        description="How long the pages in Airflow wait for Kafka, PostgreSQL, the ledger and the leases. What does "
        "not answer in time is left out, or answered with 503.",
    )
    web_action_s: float = Field(
        60.0,
        gt=0,
        le=3600,
        description="How long the pages in Airflow wait for an action: applying a graph, replaying dead letters. An "
        "action that takes longer goes on.",
    )
    web_compare: bool = Field(
        False,
        description="Whether the pages in Airflow may compare a changed graph with the one in use. That runs its "
        "modules in a process on the API server's machine; switch it on where those who edit graphs may run code "
        "there. The local stack has it on. `pipestream graph compare` works either way.",
    )
    web_threads: int = Field(
        8, ge=1, le=256, description="Questions that the pages in Airflow ask each kind of server at once."
    )


class ApprovalSettings(SettingsGroup):
    """Approvals and notices."""

    approval_letters: int = Field(
        500,
        ge=0,
        description="Most dead letters that the page, or a run of a graph's DAG, replays at once. More need an "
        "approval, in the DAG pipestream_GRAPH.approve.",
    )
    approval_wait_hours: float = Field(
        72.0, gt=0, le=8_760, description="How long an approval waits for an answer before it counts as rejected."
    )
    notify_share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of dead letters among the records of a topic above which a run of a graph's DAG calls the "
        "notifier. A run with an error that is new calls it in any case.",
    )
    dead_letter_notifier: str = Field(
        "",
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$",
        description="Notifier of Airflow that is told of dead letters, MODULE:NAME: a notifier, a list of them, or a "
        "class of one. Empty: none, unless the DAG file names one.",
    )
