"""Where documents, the ledger and the catalogue are kept."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from pipestream.settings.group import SettingsGroup, none_if_empty


class StorageSettings(SettingsGroup):
    """Object store, ledger and PostgreSQL."""

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

    aws_conn_id: str | None = Field(
        None,
        description="Connection of Airflow (type aws) that DAGs and pages take keys, region and endpoint of S3 from, "
        "instead of the settings above.",
    )
    postgres_conn_id: str | None = Field(
        None,
        description="Connection of Airflow (type postgres) that DAGs and pages use instead of postgres_dsn.",
    )

    @field_validator("s3_endpoint", "s3_access_key", "s3_secret_key", mode="before")
    @classmethod
    def _read_empty_s3(cls, given: Any) -> Any:
        return none_if_empty(given)

    @model_validator(mode="after")
    def _check_storage(self) -> Self:
        if (self.s3_access_key is None) != (self.s3_secret_key is None):
            raise ValueError("s3_access_key and s3_secret_key go together; set both or neither")
        for name in ("store_uri", "ledger_uri"):
            if not str(getattr(self, name)).startswith(("file://", "s3://")):
                raise ValueError(f"{name} must start with file:// or s3://")
        return self
