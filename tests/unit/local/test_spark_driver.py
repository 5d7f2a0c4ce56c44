"""The options of a Spark driver: quick to start, and never against what the user has chosen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipestream.local import spark_driver
from pipestream.local.spark import spark_programs_environment
from pipestream.local.spark_driver import find_archive, make_archive, submit_options


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pipestream"


@pytest.fixture
def java(tmp_path):
    """A Java whose version a test can change."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    return home


@pytest.fixture
def archived(java, monkeypatch):
    """An environment whose archive was made, by a stand-in for Spark."""

    def run_tool(argv, what, *, environment, timeout_s):
        archive = environment["SPARK_SUBMIT_OPTS"].partition("-XX:ArchiveClassesAtExit=")[2].split()[0]
        Path(archive).write_text("classes")

    monkeypatch.setattr(spark_driver, "run_tool", run_tool)
    environment = {"JAVA_HOME": str(java)}
    make_archive(lambda _: None, environment)
    return environment


def test_a_driver_compiles_quickly_and_has_a_small_collector():
    assert submit_options({}) == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def test_the_options_are_not_added_twice(archived):
    once = submit_options(archived)

    assert submit_options({**archived, "SPARK_SUBMIT_OPTS": once}) == once


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_a_collector_that_the_user_chose_stays_the_only_one(variable):
    assert "UseSerialGC" not in submit_options({variable: "-XX:+UseG1GC"})


def test_a_collector_in_the_defaults_of_spark_stays_the_only_one(tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:+UseZGC\n")

    assert "UseSerialGC" not in submit_options({"SPARK_CONF_DIR": str(tmp_path)})


def test_a_collector_in_the_properties_of_a_job_replaces_the_one_that_a_stack_has_set():
    ours = submit_options({})

    options = submit_options({"SPARK_SUBMIT_OPTS": f"{ours} -Dkey=value"}, "spark.driver.extraJavaOptions -XX:+UseZGC")

    assert "UseSerialGC" not in options
    assert options.endswith(" -Dkey=value")


def test_options_of_the_user_are_kept():
    assert submit_options({"SPARK_SUBMIT_OPTS": "-Dkey=value"}).endswith(" -Dkey=value")


def test_an_archive_is_used_once_it_is_made(archived):
    archive = find_archive(archived)

    assert archive is not None
    assert f"-XX:SharedArchiveFile={archive}" in submit_options(archived)


def test_the_archive_of_another_java_is_not_used(archived, java):
    (java / "release").write_text('JAVA_VERSION="17.0.2"')

    assert find_archive(archived) is None


def test_a_java_that_makes_no_archive_is_reported_and_nothing_is_kept(java, monkeypatch, cache):
    monkeypatch.setattr(spark_driver, "run_tool", lambda *_, **__: "")
    said = []

    make_archive(said.append, {"JAVA_HOME": str(java)})

    assert "this Java makes no archive of classes" in said[-1]
    assert not [each for each in cache.iterdir() if each.is_dir()]


def test_the_python_that_the_user_has_chosen_for_spark_stays(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)

    environment = spark_programs_environment()

    assert environment["PYSPARK_PYTHON"] == "./environment/bin/python"
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
