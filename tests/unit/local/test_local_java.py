from __future__ import annotations

import pytest

from pipestream.errors import StackError
from pipestream.local.java import find_java_home, java_version, parse_java_version


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


def _make_java(home, version):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_is_used_first(monkeypatch, tmp_path):
    home = _make_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java_home() == home


def test_a_java_home_that_is_too_old_is_refused_and_the_way_out_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(_make_java(tmp_path / "jdk", "11.0.2")))

    with pytest.raises(StackError, match=r"has Java 11") as caught:
        find_java_home()

    assert "apt-get install openjdk-17" in str(caught.value)
    assert "brew install openjdk@17" in str(caught.value)


def test_a_java_home_without_java_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(StackError, match="has no bin/java that runs"):
        find_java_home()


def test_java_on_the_path_is_used_when_java_home_is_not_set(monkeypatch, tmp_path):
    home = _make_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")

    assert find_java_home() == home
    assert java_version(home) == 17
