"""How Kafka is reached, and how topics are created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from pipestream.kafka_options import flatten, refuse_unusable
from pipestream.settings.group import SettingsGroup, read_table


class KafkaSettings(SettingsGroup):
    """Kafka."""

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

    kafka_conn_id: str | None = Field(
        None,
        description="Connection of Airflow (type kafka) that DAGs and pages take brokers and options from, instead of "
        "the settings above.",
    )

    @field_validator("kafka_options", mode="before")
    @classmethod
    def _read_kafka_options(cls, given: Any) -> Any:
        options = flatten(read_table(given, '{"security.protocol": "SASL_SSL"}'))
        refuse_unusable(options)
        return options
