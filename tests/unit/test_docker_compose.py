"""Checks docker-compose.yaml without Docker: its structure, and that it fits the settings."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer
import yaml
from typer.core import TyperGroup

from pipestream.cli.main import app
from pipestream.local import spec as local_spec
from pipestream.local.airflow import airflow_environment
from pipestream.local.gotools import CONSUL, VERSITYGW
from pipestream.local.jars import KAFKA_VERSION
from pipestream.local.kafka import Kafka
from pipestream.local.server import Site
from pipestream.local.state import NO_SECRETS
from pipestream.settings import ENV_PREFIX, STACK_PREFIX, Settings
from pipestream.stop_times import server_stop_s

REPOSITORY = Path(__file__).resolve().parents[2]
TEXT = (REPOSITORY / "docker-compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
ONE_SHOT = {"init"}
LIVE = ("engine", "repository", "sidecar")
"""The product's own servers that are always on."""
EXPORTER = "metrics"
DOCKERFILE = (REPOSITORY / "docker" / "Dockerfile").read_text()
EXAMPLE_SECRET = "a1b2c3d4"

VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<operator>[-?])(?P<rest>[^}]*))?\}")

each_service = pytest.mark.parametrize("name", sorted(SERVICES))


def resolve(text: object, environment: dict[str, str] | None = None) -> str:
    """Put in what Compose would: the variable, else its default, else an example secret."""

    def replace(match: re.Match[str]) -> str:
        given = (environment or {}).get(match["name"])
        return given or (match["rest"] if match["operator"] == "-" else EXAMPLE_SECRET)

    return VARIABLE.sub(replace, str(text))


def environment_of(name: str) -> dict[str, str]:
    return {key: resolve(value) for key, value in SERVICES[name].get("environment", {}).items()}


def published_ports(name: str) -> dict[int, int]:
    """The ports a service opens on this machine: inner port to outer port."""
    pairs = [resolve(text).split(":")[1:] for text in SERVICES[name].get("ports", [])]
    return {int(inner): int(outer) for outer, inner in pairs}


def test_it_is_the_same_stack_as_the_native_one():
    assert set(SERVICES) == {
        *("postgres", "kafka", "consul", "s3", "spark-master", "spark-worker-1", "spark-worker-2"),
        *("spark-connect", "init"),
        *("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"),
        *LIVE,
        EXPORTER,
    }


@each_service
def test_every_image_is_pinned_to_a_full_version(name):
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*", SERVICES[name]["image"])


def test_the_servers_have_the_versions_of_the_native_stack():
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert SERVICES["consul"]["image"] == f"hashicorp/consul:{CONSUL.version}"
    assert SERVICES["s3"]["image"] == f"versity/versitygw:v{VERSITYGW.version}"


def test_our_own_image_has_the_version_of_the_package():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    ours = {service["image"] for service in SERVICES.values() if "build" in service}

    assert ours == {f"{project['name']}:{project['version']}"}


@each_service
def test_every_service_has_a_health_check_or_runs_once(name):
    if name in ONE_SHOT:
        assert SERVICES[name]["restart"] == "no"
        assert "healthcheck" not in SERVICES[name]
    else:
        assert SERVICES[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


@each_service
def test_every_service_has_limits(name):
    limits = SERVICES[name]["deploy"]["resources"]["limits"]

    assert 0 < float(limits["cpus"]) <= 2
    assert re.fullmatch(r"\d+[mg]", limits["memory"])


def test_limits_are_those_of_the_sizing_table():
    def limits(name: str) -> tuple[str, str]:
        found = SERVICES[name]["deploy"]["resources"]["limits"]
        return found["cpus"], found["memory"]

    assert limits("consul") == ("0.1", "128m")
    assert limits("spark-worker-1") == limits("spark-worker-2") == ("0.5", "3g")
    assert limits("airflow-scheduler") == ("2", "4g")
    assert limits("engine") == ("2", "2g")


@each_service
def test_a_dependency_is_waited_for_until_it_is_ready(name):
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        ready = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
        assert wait == {"condition": ready}


@each_service
def test_ports_are_open_to_this_machine_only_and_configurable(name):
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{PIPESTREAM_STACK_\w+_PORT:-\d+\}:\d+", port)


def test_ports_have_the_variables_and_defaults_of_the_native_stack():
    found = {
        match["name"]: int(match["rest"]) for match in VARIABLE.finditer(TEXT) if match["name"].startswith(STACK_PREFIX)
    }

    defaults = {local_spec.port_variable(name): getattr(local_spec.Ports(), name) for name in local_spec.PORT_NAMES}
    assert found
    assert found.items() <= defaults.items()


@each_service
def test_every_pipestream_variable_is_a_setting(name):
    known = {ENV_PREFIX + field.upper() for field in Settings.model_fields}

    assert {key for key in environment_of(name) if key.startswith(ENV_PREFIX)} <= known


def test_the_settings_of_the_containers_are_valid(monkeypatch):
    for key, value in environment_of("airflow-scheduler").items():
        if key.startswith(ENV_PREFIX):
            monkeypatch.setenv(key, value)

    settings = Settings()

    assert settings.leases == "consul"
    assert settings.store_uri.startswith("s3://")


def test_spark_and_airflow_have_the_same_settings():
    def settings(name: str) -> dict[str, str]:
        return {key: value for key, value in environment_of(name).items() if key.startswith(ENV_PREFIX)}

    assert settings("spark-worker-1") == settings("spark-worker-2") == settings("airflow-scheduler") != {}


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_kafka_and_the_drivers_of_drains_have_time_to_stop():
    assert seconds(SERVICES["kafka"]["stop_grace_period"]) > Kafka.stop_timeout_s
    # A drain gives back its lease within half a minute, or is killed.
    assert seconds(SERVICES["airflow-scheduler"]["stop_grace_period"]) > 30


def test_prometheus_scrapes_every_server_where_it_answers():
    prometheus = yaml.safe_load((REPOSITORY / "docker" / "prometheus" / "prometheus.yaml").read_text())
    (job,) = prometheus["scrape_configs"]
    targets = dict(address(target) for static in job["static_configs"] for target in static["targets"])

    assert set(targets) == {*LIVE, EXPORTER}
    assert {name: port for name, port in targets.items() if port not in listening_ports(name)} == {}
    checks = {name: " ".join(SERVICES[name]["healthcheck"]["test"]) for name in targets}
    assert [name for name, port in targets.items() if f":{port}/health" not in checks[name]] == []


@pytest.mark.parametrize("name", LIVE)
def test_servers_that_are_always_on_are_of_our_image_and_have_time_to_finish_what_they_accepted(name):
    service = SERVICES[name]

    assert service["image"] == SERVICES["airflow-scheduler"]["image"]
    assert seconds(service["stop_grace_period"]) > server_stop_s(name, Settings())
    assert environment_of(name)["PIPESTREAM_TELEMETRY_HOST"] == "0.0.0.0"


@pytest.mark.parametrize("name", [*LIVE, EXPORTER])
def test_servers_that_are_always_on_are_started_with_options_that_exist(name):
    program, *arguments = SERVICES[name]["command"]

    assert program == "pipestream"
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        command = command.commands[arguments.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in arguments} <= known


@pytest.mark.parametrize("name", ["airflow-scheduler", "airflow-dag-processor", "init", "spark-worker-1", *LIVE])
def test_another_kafka_and_the_login_to_it_are_passed_on(name, monkeypatch):
    given = {"KAFKA_BOOTSTRAP": "broker:9094", "KAFKA_OPTIONS": '{"sasl.username": "me", "sasl.password": "}s3cr3t"}'}
    for key in ("PIPESTREAM_KAFKA_BOOTSTRAP", "PIPESTREAM_KAFKA_OPTIONS"):
        monkeypatch.setenv(key, resolve(SERVICES[name]["environment"][key], given))

    settings = Settings()

    assert settings.kafka_bootstrap == "broker:9094"
    assert settings.kafka_options["sasl.password"].get_secret_value() == "}s3cr3t"


def address(text: str) -> tuple[str | None, int | None]:
    parts = urlsplit(text if "://" in text else f"//{text}")
    return parts.hostname, parts.port


@pytest.mark.parametrize(
    ("setting", "service", "port"),
    [
        ("PIPESTREAM_KAFKA_BOOTSTRAP", "kafka", 9092),
        ("PIPESTREAM_S3_ENDPOINT", "s3", 7070),
        ("PIPESTREAM_POSTGRES_DSN", "postgres", 5432),
        ("PIPESTREAM_CONSUL_ADDRESS", "consul", 8500),
        ("PIPESTREAM_SPARK_MASTER", "spark-master", 7077),
        ("PIPESTREAM_LIVE_ENGINE_URL", "engine", 9465),
        ("PIPESTREAM_LIVE_REPOSITORY_URL", "repository", 8090),
        ("PIPESTREAM_LIVE_SIDECAR_URL", "sidecar", 9471),
        ("PIPESTREAM_SIDECAR_ADDRESS", "sidecar", 50071),
        ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgres", 5432),
        ("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "airflow-api-server", 8080),
    ],
)
def test_addresses_name_a_service_and_the_port_it_listens_on(setting, service, port):
    assert address(environment_of("airflow-scheduler")[setting]) == (service, port)
    assert port in listening_ports(service)


def listening_ports(service: str) -> set[int]:
    """The ports a service is told to listen on; Consul and PostgreSQL listen on their usual ones."""
    command = " ".join(SERVICES[service].get("command", []))
    told = {int(port) for port in re.findall(r"--(?:webui-|metrics-|telemetry-)?port[ =]:?(\d+)", command)}
    told |= {int(port) for port in re.findall(r"--(?:address|grpc|http)=[\w.]+:(\d+)", command)}
    listeners = environment_of(service).get("KAFKA_LISTENERS", "")
    told |= {int(port) for port in re.findall(r":(\d+)", listeners)}
    return told or {"consul": {8500}, "postgres": {5432}}[service]


@each_service
def test_an_open_port_leads_to_one_that_is_listened_on(name):
    assert published_ports(name).keys() <= (listening_ports(name) if published_ports(name) else set())


def test_kafka_tells_programs_on_this_machine_the_port_that_is_open():
    advertised = dict(entry.split("://") for entry in environment_of("kafka")["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listeners = dict(entry.split("://:") for entry in environment_of("kafka")["KAFKA_LISTENERS"].split(","))

    assert advertised["INTERNAL"] == "kafka:9092"
    assert address(advertised["HOST"]) == ("127.0.0.1", published_ports("kafka")[int(listeners["HOST"])])


def test_airflow_and_the_settings_name_the_same_spark_master():
    environment = environment_of("airflow-scheduler")
    connection = yaml.safe_load(environment["AIRFLOW_CONN_SPARK_DEFAULT"])

    assert connection == {"conn_type": "spark", "host": environment["PIPESTREAM_SPARK_MASTER"]}


def test_the_s3_server_and_the_settings_share_their_keys():
    server, client = SERVICES["s3"]["environment"], SERVICES["airflow-scheduler"]["environment"]

    assert server["ROOT_ACCESS_KEY"] == client["PIPESTREAM_S3_ACCESS_KEY"]
    assert server["ROOT_SECRET_KEY"] == client["PIPESTREAM_S3_SECRET_KEY"]
    assert server["VGW_REGION"] == client["PIPESTREAM_S3_REGION"]


SECRET = re.compile(r"PASSWORD$|SECRET|_KEY$|DSN$|SQL_ALCHEMY_CONN$")


@each_service
def test_secrets_come_from_outside_and_are_asked_for(name):
    secrets = {k: str(v) for k, v in SERVICES[name].get("environment", {}).items() if SECRET.search(k)}

    assert [key for key, value in secrets.items() if not re.search(r"\$\{\w+:\?[^}]+\}", value)] == []


def test_the_example_names_every_secret_and_gives_none():
    asked_for = {match["name"] for match in VARIABLE.finditer(TEXT) if match["operator"] == "?"}
    lines = (REPOSITORY / "docker" / "env.example").read_text().splitlines()

    assert {line for line in lines if line and not line.startswith("#")} == {f"{name}=" for name in asked_for}


def test_the_example_names_every_port_with_its_default():
    ports = {match["name"]: match["rest"] for match in VARIABLE.finditer(TEXT) if match["name"].endswith("_PORT")}
    lines = (REPOSITORY / "docker" / "env.example").read_text().splitlines()

    assert {line for line in lines if line.startswith(f"#{STACK_PREFIX}")} == {
        f"#{name}={port}" for name, port in ports.items()
    }


def test_every_volume_is_used_and_every_used_one_declared():
    mounts = [text.split(":")[0] for service in SERVICES.values() for text in service.get("volumes", [])]

    assert {mount for mount in mounts if not mount.startswith("./")} == set(COMPOSE["volumes"])
    assert all((REPOSITORY / mount).is_dir() for mount in mounts if mount.startswith("./"))


def test_the_image_has_the_python_of_the_project():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    (version,) = set(re.findall(r"^FROM python:(\d+\.\d+)\.\d+-", DOCKERFILE, flags=re.MULTILINE))

    assert project["requires-python"].startswith(f">={version},")
    assert f"PYSPARK_PYTHON=/usr/local/bin/python{version}" in DOCKERFILE


def test_what_the_image_copies_is_there_and_not_ignored():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    sources = [word for line in copied for word in line.split()]
    allowed = (REPOSITORY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()

    assert sources
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    assert {f"!{source}" for source in sources} <= set(allowed)


def test_the_image_is_built_from_the_wheel_with_every_version_and_hash_fixed():
    installs = re.findall(r"^RUN pip install (.+)$", DOCKERFILE, flags=re.MULTILINE)
    packages = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    builder, _, image = DOCKERFILE.rpartition("\nFROM ")

    assert all("--require-hashes" in line or "--no-deps --no-index" in line for line in installs)
    assert "hatchling build --target wheel --directory /wheel" in builder
    assert "COPY --from=wheel /wheel /wheel" in image
    assert [name for name in packages["packages"] if f"COPY {name} ./{name}" not in builder] == []
    assert [name for name in packages["packages"] if f"COPY {name} " in image] == []


IMAGE_ENVIRONMENT = dict(re.findall(r"(\w+)=(\S+)", DOCKERFILE.partition("\nENV ")[2]))
OWNED = re.findall(r"/opt/\S+", DOCKERFILE.partition("install --directory --owner=pipestream")[2].partition("\n\n")[0])


def mounts_of(name: str) -> dict[str, str]:
    return {text.split(":")[1]: text for text in SERVICES[name].get("volumes", [])}


def test_spark_workers_write_where_the_user_of_the_image_may():
    assert IMAGE_ENVIRONMENT["SPARK_WORKER_DIR"] in OWNED


@pytest.mark.parametrize("name", ["spark-worker-1", "spark-worker-2"])
def test_spark_workers_clear_away_what_drains_leave(name):
    assert "-Dspark.worker.cleanup.enabled=true" in environment_of(name)["SPARK_WORKER_OPTS"]


@pytest.mark.parametrize(
    "name", ["airflow-scheduler", "airflow-dag-processor", "init", "spark-worker-1", "spark-worker-2", *LIVE]
)
def test_every_service_that_runs_modules_has_their_folder_on_the_path(name):
    folder = IMAGE_ENVIRONMENT["PYTHONPATH"]

    assert mounts_of(name)[folder] == f"./modules:{folder}:ro"


def test_the_folder_of_modules_is_on_the_path_natively_too():
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]

    assert "modules" in build["dev-mode-dirs"]
    assert str(REPOSITORY / "modules") in sys.path, "the install is older than that; run make setup"


def test_the_samples_are_written_where_the_scheduler_looks_for_them():
    folder = environment_of("airflow-scheduler")["PIPESTREAM_SOURCES_FOLDER"]

    assert folder in OWNED, "a new volume belongs to whom the folder of the image belongs to"
    assert mounts_of("init")[folder] == mounts_of("airflow-scheduler")[folder] == f"sources:{folder}"
    assert "\npipestream samples\n" in (REPOSITORY / "docker" / "init.sh").read_text()


@pytest.mark.parametrize(("answer", "code", "applied"), [(2, 0, "broken design good"), (1, 1, "broken")])
def test_a_graph_that_cannot_be_applied_keeps_nothing_else_from_starting(tmp_path, answer, code, applied):
    """Unlike a server that does not answer."""
    graphs, said = tmp_path / "graphs", tmp_path / "applied"
    graphs.mkdir()
    for name in ("broken.yaml", "design.yml", "good.yaml"):
        (graphs / name).touch()
    graph_apply = f"""
        [ $1 = graph ] || exit 0
        basename "$3" | cut -d. -f1 >> {said}
        case $3 in *good*) ;; *) exit {answer} ;; esac
    """
    for name, script in {"airflow": "", "python": "", "pipestream": graph_apply}.items():
        stub = tmp_path / name
        stub.write_text(f"#!/bin/sh\n{script}\n")
        stub.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PIPESTREAM_GRAPHS_FOLDER": str(graphs)}

    done = subprocess.run(["bash", str(REPOSITORY / "docker" / "init.sh")], env=environment, check=False)

    assert done.returncode == code
    assert sorted(said.read_text().split()) == applied.split()


def test_as_many_tasks_run_at_once_as_natively(tmp_path):
    site = Site(local_spec.load_spec(folder=tmp_path, environment={}), local_spec.Ports(), NO_SECRETS)

    assert (
        environment_of("airflow-scheduler")["AIRFLOW__CORE__PARALLELISM"]
        == airflow_environment(site)["AIRFLOW__CORE__PARALLELISM"]
    )


@pytest.mark.parametrize("name", ["airflow-dag-processor", "airflow-triggerer"])
def test_checks_that_start_airflows_command_line_have_time_and_are_rare(name):
    check = SERVICES[name]["healthcheck"]

    assert check["test"][:2] == ["CMD", "airflow"]
    assert (check["interval"], check["timeout"]) == ("120s", "60s")
    # During a start period checks come every five seconds.
    assert "start_period" not in check
