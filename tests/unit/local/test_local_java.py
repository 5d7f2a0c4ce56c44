from __future__ import annotations

import pytest

from pipestream.cli.main import main
from pipestream.errors import StackError
from pipestream.local import java
from pipestream.local.java import find_java_home, java_version, parse_java_version

WHAT_TO_INSTALL = """\
Java 17 or newer is needed to run Kafka and Spark. Install it, or set JAVA_HOME:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('java version "1.8.0_401"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.2" 2024-01-16', 21),
        ("command not found", None),
    ],
)
def test_reads_the_version_java_prints(text, version):
    assert parse_java_version(text) == version


@pytest.fixture
def make_java(make_program):
    """Makes a Java below a folder, which tells its version and does nothing else."""

    def make(home, version):
        make_program(home / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")
        return home

    return make


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """A machine without Java, whatever this one has. Returns the folder in which a distribution would put one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")
    return tmp_path / "jvm"


def test_java_home_is_used_first(monkeypatch, tmp_path, make_java):
    home = make_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java_home() == home


def test_a_java_home_that_is_too_old_is_refused_and_the_way_out_named(monkeypatch, tmp_path, make_java):
    home = make_java(tmp_path / "jdk", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(StackError) as caught:
        find_java_home()

    assert str(caught.value) == f"JAVA_HOME is {home}, which has Java 11.\n{WHAT_TO_INSTALL}"


def test_a_java_home_without_java_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(StackError, match="has no bin/java that runs"):
        find_java_home()


def test_java_on_the_path_is_used_when_java_home_is_not_set(monkeypatch, tmp_path, bare_machine, make_java):
    home = make_java(tmp_path / "jdk", "17.0.1")
    make_java(bare_machine / "java-21", "21.0.1")
    monkeypatch.setenv("PATH", str(home / "bin"))

    assert find_java_home() == home
    assert java_version(home) == 17


def test_java_that_is_installed_and_not_on_the_path_is_found(bare_machine, make_java):
    make_java(bare_machine / "java-11", "11.0.2")
    home = make_java(bare_machine / "java-17", "17.0.1")

    assert find_java_home() == home


def test_a_machine_with_old_javas_only_is_told_which_they_are(bare_machine, make_java):
    home = make_java(bare_machine / "java-8", "1.8.0_401")

    with pytest.raises(StackError) as caught:
        find_java_home()

    assert str(caught.value) == f"{home} has Java 8, which is not enough.\n{WHAT_TO_INSTALL}"


@pytest.mark.usefixtures("bare_machine")
def test_a_machine_without_java_is_told_what_to_install():
    with pytest.raises(StackError) as caught:
        find_java_home()

    assert str(caught.value) == WHAT_TO_INSTALL


@pytest.mark.usefixtures("bare_machine")
def test_up_without_java_ends_with_2_says_what_to_install_and_starts_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    code = main(["up"])

    assert code == 2
    assert capsys.readouterr().err == f"error: {WHAT_TO_INSTALL}\n"
    assert not (tmp_path / ".pipestream" / "stack.json").exists()
