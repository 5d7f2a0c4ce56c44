"""All settings. They are read once, when a process starts, and passed down.

From weakest to strongest: the default here, the TOML file, the environment (``PIPESTREAM_`` and the
field's name in capitals). The file is the one ``PIPESTREAM_CONFIG`` names, else ``.pipestream/stack.toml``
(written by ``pipestream up``) below the current folder, if it is there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from pipestream.errors import SettingsInvalid
from pipestream.kafka_options import flatten, refuse_unusable
from pipestream.plugins.registry import PluginGroup, find_plugin, plugin_names

ENV_PREFIX = "PIPESTREAM_"
STACK_PREFIX = "PIPESTREAM_STACK_"
"""Of the local stack's own variables (ports, profile), which are not settings of the product: see ``local/spec.py``."""
CONFIG_VARIABLE = "PIPESTREAM_CONFIG"
STACK_FOLDER = Path(".pipestream")

# Read by pipestream.faults, not by the product.
_TEST_VARIABLES = ("PIPESTREAM_FAULT", "PIPESTREAM_FAULT_ONCE")


class Settings(BaseSettings):
    """Every setting of the product. Frozen: pass it down, never look it up again."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    graphs_folder: Path = Field(
        Path("dags/graphs"),
        description="Folder of graph files (*.yaml) for the command line. Airflow ignores it and reads the graphs/ "
        "next to its DAG files.",
    )
    sources_folder: Path = Field(
        Path(".pipestream/sources"), description="Folder that relative paths of connectors start from."
    )

    kafka_bootstrap: str = Field(
        "127.0.0.1:9092", min_length=1, description="Kafka brokers, host:port, comma-separated."
    )
    kafka_replication: int = Field(1, ge=1, le=9, description="Replication factor of the topics that are created.")
    kafka_partitions: int = Field(
        2, ge=1, le=10_000, description="Partitions of a topic whose graph does not set them."
    )
    auto_create: bool = Field(
        False,
        description="Whether a drain whose topic does not exist creates the missing topics of its graph, as "
        "applying the graph would.",
    )
    topic_attempts: int = Field(
        10, ge=1, le=100, description="How often a drain looks for a topic that does not exist before it fails."
    )
    topic_backoff_s: float = Field(
        1.0, ge=0, le=3600, description="First pause between these looks; each is twice the one before."
    )
    topic_backoff_max_s: float = Field(30.0, ge=0, le=3600, description="Longest pause between these looks.")
    kafka_timeout_s: float = Field(30.0, gt=0, description="How long to wait for an answer of a broker.")
    # Decoded below, so that an error in the JSON names the variable.
    kafka_options: Annotated[Mapping[str, SecretStr], NoDecode] = Field(
        {},
        description="How to connect to Kafka with encryption and a login: options of librdkafka such as "
        "security.protocol and sasl.password. A table in TOML, a JSON object in the environment; all of it is secret.",
    )

    store_uri: str = Field(
        "file://.pipestream/objects",
        description="Object store of documents: file://FOLDER or s3://BUCKET[/PREFIX].",
    )
    s3_endpoint: str | None = Field(None, description="S3 endpoint other than AWS, e.g. http://127.0.0.1:7070.")
    s3_region: str = Field("us-east-1", description="S3 region.")
    # Carries 64 MB, the largest file a connector takes, at 26 Mbit/s.
    s3_timeout_s: float = Field(
        20.0, gt=0, description="How long one S3 request may take. A call with its retries may take twice as long."
    )
    s3_access_key: SecretStr | None = Field(None, description="S3 access key; else AWS's own lookup applies.")
    s3_secret_key: SecretStr | None = Field(None, description="S3 secret key.")

    ledger_uri: str = Field(
        "file://.pipestream/ledger", description="Delta ledger: file://FOLDER or s3://BUCKET/PREFIX."
    )

    postgres_dsn: SecretStr = Field(
        SecretStr("postgresql://pipestream@127.0.0.1:5432/pipestream"),
        description="PostgreSQL of the catalogue, graph versions and sql leases.",
    )

    leases: str = Field(
        "sql",
        description="Where leases are kept: consul, sql, file (one machine), none, or a lease store of an installed "
        "package.",
    )
    lease_ttl_s: float = Field(20.0, ge=3, le=86_400, description="How long a lease is valid after its last renewal.")
    max_leases: int = Field(4, ge=1, description="Drains that may run at once (the size of the Airflow pool).")
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
    lease_folder: Path = Field(
        Path(".pipestream/leases"), description="Folder of the file leases; on a local disk of one machine."
    )
    max_slots: int = Field(16, ge=1, description="Most slots of one topic that one run drains.")
    consul_address: str = Field("127.0.0.1:8500", description="Consul agent, host:port.")
    consul_scheme: Literal["http", "https"] = Field("http", description="How to reach Consul.")
    consul_token: SecretStr | None = Field(None, description="Consul ACL token.")
    consul_ca_file: Path | None = Field(None, description="CA certificate for Consul over TLS.")
    consul_conn_id: str | None = Field(
        None,
        description="Connection of Airflow (type consul) that DAGs take Consul's address, scheme, token and CA from, "
        "instead of the settings above.",
    )

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
    max_attempts: int = Field(
        3, ge=1, le=100, description="Attempts for a document that fails transiently, or at which a process dies."
    )
    retry_initial_ms: int = Field(25, ge=0, description="First pause between tries.")
    retry_max_ms: int = Field(250, ge=0, description="Longest pause between tries.")
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
        description="Most processes of one runtime: module in one process of ours; each takes a document.",
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
    failing_share: float = Field(0.5, gt=0, le=1, description="Share of failing records above which a range stops.")
    failing_minimum: int = Field(20, ge=1, description="Records a range must have seen before that share counts.")

    grpc_max_calls: int = Field(
        1_000, ge=1, description="Calls that one server process takes at once; more get RESOURCE_EXHAUSTED."
    )
    grpc_max_message_bytes: int = Field(
        64 * 1024 * 1024, ge=1024, lt=2**31, description="Largest message that a gRPC server takes or sends."
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
    cycle_passes: int = Field(3, ge=1, le=50, description="How often one run drains the topics of a cycle.")

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

    plugin_secrets: Annotated[Mapping[str, SecretStr], NoDecode] = Field(
        {},
        description="Secrets of plugins, by the names that they ask for. A table in TOML, a JSON object in the "
        "environment.",
    )

    @field_validator("leases")
    @classmethod
    def _find_lease_store(cls, name: str) -> str:
        if find_plugin(PluginGroup.LEASE_STORE, name) is None:
            raise ValueError(f"must be one of {', '.join(plugin_names(PluginGroup.LEASE_STORE))}")
        return name

    @field_validator("plugin_secrets", mode="before")
    @classmethod
    def _read_plugin_secrets(cls, given: Any) -> Any:
        return flatten(_read_table(given, '{"acme.token": "…"}'))

    @field_validator("webhook_secrets", mode="before")
    @classmethod
    def _read_webhook_secrets(cls, given: Any) -> Any:
        return _read_table(given, '{"my-datasource": "…"}')

    @field_validator("kafka_options", mode="before")
    @classmethod
    def _read_kafka_options(cls, given: Any) -> Any:
        options = flatten(_read_table(given, '{"security.protocol": "SASL_SSL"}'))
        refuse_unusable(options)
        return options

    @model_validator(mode="after")
    def _check_together(self) -> Settings:
        if (self.s3_access_key is None) != (self.s3_secret_key is None):
            raise ValueError("s3_access_key and s3_secret_key go together; set both or neither")
        for first, second in (
            ("grpc_tls_cert_file", "grpc_tls_key_file"),
            ("grpc_client_cert_file", "grpc_client_key_file"),
            ("module_client_cert_file", "module_client_key_file"),
        ):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise ValueError(f"{first} and {second} go together; set both or neither")
        if self.grpc_tls_client_ca_file is not None and self.grpc_tls_cert_file is None:
            raise ValueError("grpc_tls_client_ca_file needs grpc_tls_cert_file: mutual TLS is TLS on both sides")
        if self.retry_initial_ms > self.retry_max_ms:
            raise ValueError("retry_initial_ms must not exceed retry_max_ms")
        for name in ("store_uri", "ledger_uri"):
            if not str(getattr(self, name)).startswith(("file://", "s3://")):
                raise ValueError(f"{name} must start with file:// or s3://")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = config_file()
        if file is None:
            return init_settings, env_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)


def _read_table(given: Any, example: str) -> Mapping[str, Any]:
    if isinstance(given, str):
        try:
            # An empty variable counts as not set, because Docker Compose passes unset ones as empty.
            given = json.loads(given or "{}")
        except ValueError:
            given = None
    if not isinstance(given, Mapping):
        # Not TypeError: pydantic does not catch it.
        raise ValueError(f"must be a JSON object such as {example}")  # noqa: TRY004
    return given


def secret_settings() -> set[str]:
    """Return the names of the settings that hold secrets."""
    return {name for name, each in Settings.model_fields.items() if "SecretStr" in repr(each.annotation)}


def config_file() -> Path | None:
    """Return the TOML file the settings are read from, if there is one.

    :raises SettingsInvalid: PIPESTREAM_CONFIG names a file that is not there.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        file = Path(named)
        if not file.is_file():
            raise SettingsInvalid(f"{CONFIG_VARIABLE} names {named}, which is not a file")
        return file
    written_by_up = STACK_FOLDER / "stack.toml"
    return written_by_up if written_by_up.is_file() else None


def load_settings(**overrides: Any) -> Settings:
    """Read and check all settings; ``overrides`` beat the environment and the file.

    :raises SettingsInvalid: a value cannot be used; the message names each setting and what was expected.
    """
    _refuse_unknown_variables()
    try:
        return Settings(**overrides)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            where = f"{ENV_PREFIX}{name.upper()}" if name else "settings"
            lines.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
        raise SettingsInvalid("\n".join(lines)) from None
    except ValueError as error:  # a TOML file that does not parse
        raise SettingsInvalid(f"{config_file()}: {error}") from None


def _refuse_unknown_variables() -> None:
    """A misspelt variable must not be ignored: the user believes that it is set."""
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | {
        CONFIG_VARIABLE,
        *_TEST_VARIABLES,
    }
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(ENV_PREFIX) and name not in known and not name.startswith(STACK_PREFIX)
    )
    if unknown:
        raise SettingsInvalid(f"unknown setting {', '.join(unknown)}; `pipestream settings` lists all of them")
