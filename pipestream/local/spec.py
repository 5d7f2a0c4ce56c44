"""What a local stack consists of: its profile, folder and ports, from arguments and the environment.

Every variable of the stack starts with ``PIPESTREAM_STACK_``; ``VARIABLES`` lists them all. Default ports are each
server's usual port plus 10000, so that they do not collide with a server installed on the machine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from pipestream.errors import StackError
from pipestream.settings import STACK_FOLDER, STACK_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.local.state import StackState

Profile = Literal["embedded", "full"]
PostgresSource = Literal["auto", "packaged"]


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on 127.0.0.1; 0 means: pick a free one when the stack starts."""

    kafka: int = 19092
    kafka_controller: int = 19093
    postgres: int = 15432
    consul: int = 18500
    consul_rpc: int = 18300
    consul_serf: int = 18301
    s3: int = 17070
    spark: int = 17077
    spark_ui: int = 18081
    spark_connect: int = 25002
    airflow: int = 18080
    airflow_log: int = 18793
    airflow_trigger_log: int = 18794
    engine: int = 15051
    engine_metrics: int = 19465
    repository: int = 18090
    repository_grpc: int = 15061
    sidecar: int = 15071
    sidecar_metrics: int = 19471


PORT_NAMES = tuple(field.name for field in fields(Ports))
FREE_PORTS = Ports(**dict.fromkeys(PORT_NAMES, 0))


def port_variable(name: str) -> str:
    """Return the environment variable that sets the port called ``name``."""
    return f"{STACK_PREFIX}{name.upper()}_PORT"


_PORT_HELP = {
    "kafka": "Kafka broker",
    "kafka_controller": "Kafka's controller (internal)",
    "postgres": "PostgreSQL",
    "consul": "Consul's HTTP API",
    "consul_rpc": "Consul's server port (internal)",
    "consul_serf": "Consul's gossip port (internal)",
    "s3": "S3 server",
    "spark": "Spark master",
    "spark_ui": "Spark master's web page",
    "spark_connect": "Spark Connect server",
    "airflow": "Airflow's web server",
    "airflow_log": "Airflow's task log server (internal)",
    "airflow_trigger_log": "Airflow's trigger log server (internal)",
    "engine": "the Engine's gRPC service",
    "engine_metrics": "the Engine's /metrics and /health",
    "repository": "the Repository's HTTP: uploads, webhooks, /metrics and /health",
    "repository_grpc": "the Repository's gRPC service",
    "sidecar": "the sidecar's management service",
    "sidecar_metrics": "the sidecar's /metrics and /health",
}

VARIABLES: Mapping[str, str] = {
    f"{STACK_PREFIX}FOLDER": "Folder with all state of the stack; .pipestream unless set.",
    f"{STACK_PREFIX}PROJECT": "Folder with the dags/ and modules/ that the stack runs; the one it was first started "
    "in unless set.",
    f"{STACK_PREFIX}PROFILE": "embedded (Kafka, PostgreSQL, folders) or full (also Consul, S3 and Spark); a "
    "folder keeps the profile it was created with.",
    f"{STACK_PREFIX}POSTGRES": "auto (the system's PostgreSQL if it fits) or packaged (the Python package's).",
} | {port_variable(name): f"Port of {text}; 0 picks a free one." for name, text in _PORT_HELP.items()}
"""Every environment variable of the stack, with its meaning."""


@dataclass(frozen=True, slots=True)
class StackSpec:
    """Which servers a stack has, where it keeps its state, whose DAGs it runs, and on which ports it listens.

    ``durable=False`` lets PostgreSQL skip fsync: for tests, whose data nobody needs after a power cut.
    """

    profile: Profile
    folder: Path
    project: Path
    airflow: bool = False
    live: bool = False
    """Whether it has the servers of the product that are always on."""
    ports: Ports = Ports()
    durable: bool = True
    postgres: PostgresSource = "auto"


def load_spec(
    profile: str | None = None,
    folder: Path | None = None,
    airflow: bool = False,
    *,
    live: bool = False,
    project: Path | str | None = None,
    durable: bool = True,
    postgres: str | None = None,
    free_ports: bool = False,
    environment: Mapping[str, str] | None = None,
    **ports: int,
) -> StackSpec:
    """Return the spec. Precedence: argument, environment, the folder's existing stack, default.

    :param free_ports: every port not given as an argument is a free one, whatever the environment says.
    :param ports: ``kafka_port=…``, ``postgres_port=…`` and so on.
    :raises StackError: a value cannot be used, or a PIPESTREAM_STACK_ variable is unknown.
    """
    values = os.environ if environment is None else environment
    unknown = sorted(name for name in values if name.startswith(STACK_PREFIX) and name not in VARIABLES)
    if unknown:
        raise StackError(f"unknown variable {', '.join(unknown)}; known are {', '.join(sorted(VARIABLES))}")
    # Absolute: servers and DAG processes have other working directories.
    folder = Path(folder or values.get(f"{STACK_PREFIX}FOLDER") or STACK_FOLDER).absolute()
    state = _state_of(folder)
    profile = profile or values.get(f"{STACK_PREFIX}PROFILE") or (state.profile if state else None)
    project = project or values.get(f"{STACK_PREFIX}PROJECT") or _project_of(state)
    postgres = postgres or values.get(f"{STACK_PREFIX}POSTGRES")
    return StackSpec(
        profile=cast("Profile", _choose("PROFILE", profile, get_args(Profile))),
        folder=folder,
        project=Path(project).absolute(),
        airflow=airflow,
        live=live,
        ports=_read_ports(ports, {} if free_ports else values, FREE_PORTS if free_ports else Ports()),
        durable=durable,
        postgres=cast("PostgresSource", _choose("POSTGRES", postgres, get_args(PostgresSource))),
    )


def _state_of(folder: Path) -> StackState | None:
    """Return the state of the stack that a folder holds, or None where it holds none."""
    from pipestream.local.state import read_state, state_file  # which stand on this module

    return read_state(state_file(folder))


def _project_of(state: StackState | None) -> Path:
    """Return the project that a stack was started for, if it is still there, else the current folder."""
    known = Path(state.project) if state and state.project else None
    return known if known and known.is_dir() else Path()


def _choose(name: str, given: str | None, allowed: tuple[str, ...]) -> str:
    """The first allowed value is the default."""
    value = given or allowed[0]
    if value not in allowed:
        raise StackError(f"{STACK_PREFIX}{name} must be {' or '.join(allowed)}, not {value!r}")
    return value


def _read_ports(given: Mapping[str, int], values: Mapping[str, str], defaults: Ports) -> Ports:
    unknown = sorted(set(given) - {f"{name}_port" for name in PORT_NAMES})
    if unknown:
        raise StackError(f"unknown port {', '.join(unknown)}; known are {', '.join(n + '_port' for n in PORT_NAMES)}")
    ports = {}
    for name in PORT_NAMES:
        variable = port_variable(name)
        raw = given.get(f"{name}_port", values.get(variable) or getattr(defaults, name))
        try:
            port = int(raw)
        except ValueError:
            port = -1
        if not 0 <= port <= 65_535:
            raise StackError(f"{variable} must be a port from 0 to 65535, not {raw!r}")
        ports[name] = port
    return Ports(**ports)
