"""The servers that Airflow can keep up: how each is started, and where it answers ``/health`` and ``/metrics``."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pipestream.errors import ExtraMissing, SettingsInvalid
from pipestream.settings import Settings

# By name, not imported: the product itself stays free of Spark.
_STREAM_JOB = "pipestream_spark.stream"
# For what has no limit of its own: leases, the outbox, Spark's own end.
_SPARE_S = 15.0

_COMMANDS: dict[str, tuple[str, ...]] = {
    "engine": ("engine", "serve", "--metrics-port", "{port}"),
    "repository": ("repository", "serve", "--http", "{host}:{port}"),
    "sidecar": ("sidecar", "run", "--telemetry-port", "{port}"),
}
"""The arguments of ``pipestream`` that start each server, with the place of its telemetry."""


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

    :raises SettingsInvalid: as for ``server_url``.
    :raises ExtraMissing: Spark is not installed, and the server needs it.
    """
    parts = urlsplit(server_url(server, settings))
    if server == "stream":
        return [*_submit(settings), "--telemetry-port", str(parts.port)]
    arguments = [each.format(host=parts.hostname, port=parts.port) for each in _COMMANDS[server]]
    return [sys.executable, "-m", "pipestream.cli.main", *arguments]


def server_stop_s(server: str, settings: Settings) -> float:
    """Return how long a server may take to finish what it has accepted. Killed earlier, it would leave work behind.

    A server of another name, which has a command of its own, may take as long as the slowest of ours.
    """
    calls_s = settings.grpc_stop_s
    slots_s = settings.sidecar_stop_s
    needed = {
        # Calls first, then the slots that they use.
        "engine": calls_s + calls_s,
        # gRPC first, then HTTP.
        "repository": calls_s + calls_s,
        "sidecar": slots_s + calls_s,
        "stream": slots_s,
    }
    return needed.get(server, max(needed.values())) + _SPARE_S


def server_environment(server: str) -> dict[str, str]:
    """Return the variables that a server needs in addition to those of this process."""
    if server != "stream":
        return {}
    # Without them Spark uses the first python3 on the PATH.
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    return {name: os.environ.get(name, sys.executable) for name in names}


def _submit(settings: Settings) -> list[str]:
    """Return the command that submits the streaming drain to Spark, whose driver runs in the server's own process."""
    job = importlib.util.find_spec(_STREAM_JOB) if importlib.util.find_spec("pyspark") else None
    beside = Path(sys.executable).parent / "spark-submit"
    program = shutil.which("spark-submit") or (str(beside) if beside.is_file() else None)
    if job is None or job.origin is None or program is None:
        raise ExtraMissing("spark", "pyspark")
    return [program, "--master", settings.spark_master, "--deploy-mode", "client", job.origin]
