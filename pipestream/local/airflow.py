"""Airflow: its home, database and environment, and ``airflow standalone``, which runs its components."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path

import psycopg

from pipestream.errors import ExtraMissing
from pipestream.local.ports import HOST
from pipestream.local.postgres import USER, Postgres
from pipestream.local.server import Launch, Server, Site
from pipestream.local.spark import spark_environment, spark_programs_environment
from pipestream.local.spark_driver import make_archive
from pipestream.local.state import write_private
from pipestream.local.tools import Report, get_json, run_tool
from pipestream.project import dags_folder

ADMIN = "admin"


def prepare_airflow(site: Site) -> dict[str, str]:
    """Create Airflow's home and migrate its database; PostgreSQL must be running.

    Returns the environment for any ``airflow`` command. Nothing else needs to run.
    """
    home = site.folder / "airflow"
    home.mkdir(parents=True, exist_ok=True)
    write_private(_passwords_file(site), json.dumps({ADMIN: site.secrets.airflow_password}))
    environment = airflow_environment(site)
    # `airflow db migrate` needs ten seconds to find that there is nothing to do; this check is instant.
    stamp = home / "migrated"
    current = f"{version('apache-airflow')} {_revision(site)}"
    if not stamp.is_file() or stamp.read_text() != current:
        run_tool(
            [_airflow(), "db", "migrate"],
            "preparing Airflow's database",
            environment=environment,
            timeout_s=300,
        )
        stamp.write_text(f"{version('apache-airflow')} {_revision(site)}")
    return environment


def airflow_environment(site: Site) -> dict[str, str]:
    """Return the variables that configure Airflow and Spark for this stack, without those of this process."""
    ports, secrets = site.ports, site.secrets
    base_url = f"http://{HOST}:{ports.airflow}"
    database = f"{USER}:{secrets.postgres_password}@{HOST}:{ports.postgres}/airflow"
    return {
        **spark_environment(site),
        # spark-submit is found on the PATH, and it must be the one of this environment.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "AIRFLOW_HOME": str(site.folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder(site.spec.project)),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(site.spec.project / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "8",
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(bytes.fromhex(secrets.airflow_signing_key)).decode(),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(_passwords_file(site)),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base_url}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(ports.airflow),
        "AIRFLOW__API__BASE_URL": base_url,
        "AIRFLOW__API__SECRET_KEY": secrets.airflow_signing_key,
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.airflow_signing_key,
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports.airflow_log),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports.airflow_trigger_log),
        # A new graph appears within half a minute, not within five minutes.
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        # On a busy machine the first answer of a new web server takes long: 36 s were measured, and Airflow's default
        # timeout is 5 s. A task that gets no answer counts as failed.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SCARF_ANALYTICS": "false",
        "AIRFLOW_CONN_SPARK_DEFAULT": _spark_connection(site),
    }


def spark_master(site: Site) -> str:
    """Return the Spark master of this stack: the standalone cluster, or two threads of the driver."""
    return f"spark://{HOST}:{site.ports.spark}" if site.spec.profile == "full" else "local[2]"


def _spark_connection(site: Site) -> str:
    # The whole master as host: the hook joins host and port with a colon, and local[2] has no port.
    extra = {"deploy-mode": "client", "spark-binary": "spark-submit"}
    return json.dumps({"conn_type": "spark", "host": spark_master(site), "extra": extra})


def _passwords_file(site: Site) -> Path:
    return site.folder / "airflow" / "passwords.json"


def _airflow() -> str:
    program = Path(sys.executable).parent / "airflow"
    if not program.is_file():
        raise ExtraMissing("airflow", "airflow")
    return str(program)


def _revision(site: Site) -> str:
    """The revision of Airflow's tables; empty where there are none yet."""
    with psycopg.connect(Postgres(site).dsn("airflow"), connect_timeout=5) as connection:
        table = connection.execute("SELECT to_regclass('alembic_version')").fetchone()
        if table is None or table[0] is None:
            return ""
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else ""


class Airflow(Server):
    """Scheduler, DAG processor, triggerer and web server under one parent process."""

    name = "airflow"
    port_names = ("airflow", "airflow_log", "airflow_trigger_log")
    needs = ("postgres",)
    # `airflow standalone` stops its components cleanly on SIGINT, but exits at once on SIGTERM.
    stop_signal = signal.SIGINT
    stop_timeout_s = 30.0
    # On a machine with ten times the load that it can handle, the web server needs four minutes.
    ready_timeout_s = 600.0

    def __init__(self, site: Site, extra: dict[str, str]) -> None:
        super().__init__(site)
        self._extra = extra

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def fetch(self, report: Report) -> None:
        _airflow()
        make_archive(report, spark_programs_environment())

    def initialise(self) -> None:
        prepare_airflow(self.site)

    def launch(self) -> Launch:
        return Launch((_airflow(), "standalone"), {**airflow_environment(self.site), **self._extra})

    def check(self) -> None:
        health = get_json(f"{self.address}/api/v2/monitor/health")
        for part in ("metadatabase", "scheduler", "dag_processor", "triggerer"):
            if health[part]["status"] != "healthy":
                raise ConnectionError(f"Airflow's {part} is not healthy yet")
