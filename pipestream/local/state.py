"""What a stack's folder remembers: the state file, the secrets, and the settings it offers the product."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipestream.errors import StackError
from pipestream.local.process import ProcessRecord
from pipestream.local.spec import Ports, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class StackState:
    """The stack as it was last started. Ports stay known after ``down``: the next start takes them again."""

    profile: Profile
    airflow: bool
    ports: Ports
    processes: Mapping[str, ProcessRecord] = field(default_factory=dict)
    project: str | None = None
    """The folder whose DAGs it runs, for commands that are called elsewhere."""
    live: bool = False

    def with_process(self, name: str, record: ProcessRecord) -> StackState:
        return replace(self, processes={**self.processes, name: record})

    def without_process(self, name: str) -> StackState:
        return replace(self, processes={key: value for key, value in self.processes.items() if key != name})


@dataclass(frozen=True, slots=True)
class Secrets:
    """Generated once per stack folder, never printed by default and never in the repository."""

    postgres_password: str
    s3_access_key: str
    s3_secret_key: str
    airflow_password: str
    airflow_signing_key: str
    spark_connect_token: str

    def __repr__(self) -> str:
        return "Secrets(…)"


NO_SECRETS = Secrets("", "", "", "", "", "")


def state_file(folder: Path) -> Path:
    """Return where a stack's folder keeps its state."""
    return folder / "stack.json"


def read_state(file: Path) -> StackState | None:
    """Return the state kept in ``file``, or None where there is none.

    :raises StackError: the file cannot be understood.
    """
    try:
        raw = json.loads(file.read_text())
        if raw["format"] != _FORMAT:
            raise ValueError(f"format {raw['format']}")
        return StackState(
            profile=raw["profile"],
            airflow=raw["airflow"],
            ports=Ports(**raw["ports"]),
            processes={name: ProcessRecord(**record) for name, record in raw["processes"].items()},
            project=raw.get("project"),
            live=raw.get("live", False),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(f"{file} is not a stack's state file ({error}); stop its servers and remove it") from None


def write_state(file: Path, state: StackState) -> None:
    """Replace the state file in one step."""
    write_private(file, json.dumps({"format": _FORMAT, **asdict(state)}, indent=2) + "\n")


def load_secrets(file: Path) -> Secrets:
    """Return the stack's secrets. Those that the file does not have yet are generated."""
    made = {
        "postgres_password": secrets.token_hex(16),
        "s3_access_key": f"local{secrets.token_hex(8)}",
        "s3_secret_key": secrets.token_hex(20),
        "airflow_password": secrets.token_urlsafe(12),
        "airflow_signing_key": secrets.token_hex(32),
        "spark_connect_token": secrets.token_hex(32),
    }
    try:
        kept = json.loads(file.read_text()) if file.exists() else {}
        found = Secrets(**{**made, **kept})
    except (ValueError, TypeError) as error:
        raise StackError(f"{file} is damaged ({error}); remove the stack's folder and start again") from None
    if kept.keys() != made.keys():
        write_private(file, json.dumps(asdict(found), indent=2) + "\n")
    return found


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may read, in one step."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(text)
    part.replace(file)


def toml_text(values: Mapping[str, Any]) -> str:
    """Return ``values`` as TOML."""
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in values.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml_value(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)  # JSON's strings, numbers and booleans are TOML's too
