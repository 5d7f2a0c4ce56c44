"""The servers that Airflow can keep up: how each is started, and where it answers ``/health`` and ``/metrics``."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pipestream.errors import ExtraMissing, SettingsInvalid
from pipestream.local.spark_driver import spark_python
from pipestream.settings import Settings

# By name, not imported: the product itself stays free of Spark.
_STREAM_JOB = "pipestream_spark.stream"

_COMMANDS: dict[str, tuple[str, ...]] = {
    "engine": ("engine", "serve", "--host", "{rpc_host}", "--port", "{rpc_port}", "--metrics-port", "{port}"),
    "repository": ("repository", "serve", "--grpc", "{rpc_host}:{rpc_port}", "--http", "{host}:{port}"),
    "sidecar": ("sidecar", "run", "--telemetry-port", "{port}"),
}
"""The arguments of ``pipestream`` that start each server, with where it takes calls, and the place of its telemetry."""


def server_url(server: str, settings: Settings) -> str:
    """Return where a server answers ``/health`` and ``/metrics``.

    :raises SettingsInvalid: the setting is not an address.
    """
    urls = {
        "engine": settings.live_engine_url,
        "repository": settings.live_repository_url,
        "sidecar": settings.live_sidecar_url,
        "stream": settings.live_stream_url,
    }
    url = urls[server].rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
        raise SettingsInvalid(f"live_{server}_url must be http://HOST:PORT, not {url!r}")
    return url


def server_command(server: str, settings: Settings) -> list[str]:
    """Return the command that starts a server, with the telemetry at the port that ``server_url`` names.

    :raises SettingsInvalid: as for ``server_url``; or the address says HTTP where the server answers by HTTPS, or the
        other way round.
    :raises ExtraMissing: Spark is not installed, and the server needs it.
    """
    parts = urlsplit(server_url(server, settings))
    # The telemetry of all others has a port of its own, without TLS.
    scheme = "https" if server == "repository" and settings.grpc_tls_cert_file is not None else "http"
    if parts.scheme != scheme:
        raise SettingsInvalid(
            f"live_{server}_url must begin with {scheme}://, because {server} answers so with these settings"
        )
    if server == "stream":
        return [*_submit(settings), "--telemetry-port", str(parts.port)]
    rpc = {"engine": settings.live_engine_address, "repository": settings.live_repository_address}.get(server, "")
    rpc_host, _, rpc_port = rpc.rpartition(":")
    places = {"host": parts.hostname, "port": parts.port, "rpc_host": rpc_host, "rpc_port": rpc_port}
    arguments = [each.format(**places) for each in _COMMANDS[server]]
    return [sys.executable, "-m", "pipestream.cli.main", *arguments]


def server_environment(server: str) -> dict[str, str]:
    """Return the variables that a server needs in addition to those of this process."""
    return spark_python() if server == "stream" else {}


def _submit(settings: Settings) -> list[str]:
    """Return the command that submits the streaming drain to Spark, whose driver runs in the server's own process."""
    job = importlib.util.find_spec(_STREAM_JOB) if importlib.util.find_spec("pyspark") else None
    beside = Path(sys.executable).parent / "spark-submit"
    program = shutil.which("spark-submit") or (str(beside) if beside.is_file() else None)
    if job is None or job.origin is None or program is None:
        raise ExtraMissing("spark", "pyspark")
    return [program, "--master", settings.spark_master, "--deploy-mode", "client", job.origin]
