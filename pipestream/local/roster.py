"""Which servers a stack has, and the settings with which the product reaches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipestream.local.airflow import Airflow, spark_master
from pipestream.local.consul import Consul
from pipestream.local.kafka import Kafka
from pipestream.local.live import Engine, Repository, Sidecar
from pipestream.local.ports import HOST
from pipestream.local.postgres import Postgres
from pipestream.local.s3 import BUCKET, REGION, S3
from pipestream.local.spark import WORKERS, SparkMaster, SparkWorker
from pipestream.local.spark_connect import SparkConnect
from pipestream.project import graphs_folder
from pipestream.settings import CONFIG_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from pipestream.local.server import Server, Site


def list_servers(site: Site, config_file: Path) -> list[Server]:
    """Return the servers of a stack, each after those it needs."""
    servers: list[Server] = [Kafka(site), Postgres(site)]
    if site.spec.profile == "full":
        servers += [S3(site), SparkMaster(site)]
        servers += [SparkWorker(site, number) for number in range(1, WORKERS + 1)]
        # Last to be fetched: it takes longest to build.
        servers.append(Consul(site))
    servers.append(SparkConnect(site))
    aim = {CONFIG_VARIABLE: str(config_file)}
    if site.spec.live:
        servers += [Engine(site, aim), Repository(site, aim), Sidecar(site, aim)]
    if site.spec.airflow:
        servers.append(Airflow(site, aim))
    return servers


def setting_values(site: Site) -> dict[str, Any]:
    """Return the product's settings for the stack, secrets included."""
    values: dict[str, Any] = {
        "graphs_folder": str(graphs_folder(site.spec.project)),
        "sources_folder": str(site.folder / "sources"),
        "kafka_bootstrap": Kafka(site).address,
        "kafka_replication": 1,
        "store_uri": (site.folder / "objects" / "folder").as_uri(),
        "ledger_uri": (site.folder / "ledger").as_uri(),
        "live_folder": str(site.folder / "live"),
        # As many as the stack's engine has workers, so that another engine of this stack fits to its topic.
        "engine_slots": 1,
        "web_compare": True,  # whoever uses this stack can run code on this machine anyway
        "live_engine_address": Engine(site, {}).address,
        "live_repository_address": f"{HOST}:{site.ports.repository_grpc}",
        "live_engine_url": Engine(site, {}).telemetry,
        "live_repository_url": Repository(site, {}).telemetry,
        "live_sidecar_url": Sidecar(site, {}).telemetry,
        "sidecar_address": Sidecar(site, {}).address,
        "postgres_dsn": Postgres(site).dsn(),
        "leases": "sql",
        "spark_connect_url": SparkConnect(site).url,
        "spark_connect_token": site.secrets.spark_connect_token,
    }
    if site.spec.profile == "full":
        values |= {
            "store_uri": f"s3://{BUCKET}",
            "s3_endpoint": f"http://{S3(site).address}",
            "s3_region": REGION,
            "s3_access_key": site.secrets.s3_access_key,
            "s3_secret_key": site.secrets.s3_secret_key,
            "leases": "consul",
            "consul_address": Consul(site).address,
            "spark_master": spark_master(site),
        }
    return values
