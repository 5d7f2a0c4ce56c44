"""Make Spark's driver start sooner: the options of its JVM, and an archive of the classes that it loads.

A drain's documents never pass through the JVM. The driver plans one small query, so compiling it well (C2) or
collecting garbage in parallel costs more than it saves. Most of the start is the loading of some twenty thousand
classes; an archive of them (class-data sharing) is made once per Java and Spark, and kept in the cache.

A missing or outdated archive is harmless: the JVM checks it, and loads the classes as ever.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.errors import ExtraMissing, StackError
from pipestream.local.cache import cache_folder, provide
from pipestream.local.jars import spark_home
from pipestream.local.tools import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.local.tools import Report

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Spark gives the options in this variable to the JVM of spark-submit. In client mode that is the driver's."""

_FILE = "driver.jsa"
_QUICK_TO_COMPILE = "-XX:TieredStopAtLevel=1"
_SMALL_HEAP = "-XX:+UseSerialGC"
# A JVM with two collectors refuses to start.
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_VARIABLES = (SUBMIT_OPTIONS, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

# What a drain does in the driver, without a drain: a session, a query over Arrow batches, and their end.
_SAMPLE = """\
from pyspark.sql import SparkSession

def same(batches):
    yield from batches

session = SparkSession.builder.appName("class archive").config("spark.scheduler.mode", "FAIR").getOrCreate()
assert len(session.range(0, 2, 1, 2).mapInArrow(same, "id long").collect()) == 2
session.stop()
"""


def spark_python() -> dict[str, str]:
    """Return the variables that name Spark's Python: this one, unless the user has chosen others.

    Without them Spark uses the first python3 on the PATH. The workers of a cluster may have theirs elsewhere than here.
    """
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    return {name: os.environ.get(name) or sys.executable for name in names}


def submit_options(environment: Mapping[str, str] = os.environ, properties: str = "") -> str:
    """Return the options of a driver's JVM, for ``SPARK_SUBMIT_OPTS``. What a user has chosen stays.

    :param properties: the text of Spark properties that the job is submitted with.
    """
    own = environment.get(SUBMIT_OPTIONS, "")
    if _COLLECTOR.search(properties):
        # Ours may be in the variable already: a local stack gives it to all its processes.
        own = " ".join(option for option in own.split(" ") if option != _SMALL_HEAP)
    chosen = " ".join([*(environment.get(name, "") for name in _VARIABLES), _defaults(environment), properties])
    options = []
    if "-XX:TieredStopAtLevel" not in chosen:
        options.append(_QUICK_TO_COMPILE)
    if not _COLLECTOR.search(chosen):
        options.append(_SMALL_HEAP)
    archive = find_archive(environment)
    if archive is not None and "-XX:SharedArchiveFile" not in chosen and " " not in str(archive):
        # Without the second option, the JVM writes to stdout that the archive is of another Java or Spark.
        options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return " ".join([*options, own]).strip()


def find_archive(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the archive for the Java and the Spark of an environment, if it was made."""
    try:
        file = cache_folder() / _name(environment) / _FILE
    except ExtraMissing:
        return None
    return file if file.is_file() else None


def make_archive(report: Report, environment: Mapping[str, str]) -> None:
    """Make the archive if it is not there. If that fails, say so: drivers start without it, only later.

    :param environment: with JAVA_HOME and the Python of Spark.
    """

    def make(folder: Path) -> None:
        report("archiving the classes of Spark's driver (first time only, about half a minute)")
        sample = folder / "sample.py"
        sample.write_text(_SAMPLE)
        options = f"{_QUICK_TO_COMPILE} {_SMALL_HEAP} -XX:ArchiveClassesAtExit={folder / _FILE} -Xlog:cds=off"
        argv: list[str | Path] = [spark_home() / "bin" / "spark-submit", "--master", "local[1]"]
        argv += ["--conf", "spark.ui.enabled=false", sample]
        run_tool(
            argv,
            "archiving the classes of Spark's driver",
            environment={**environment, SUBMIT_OPTIONS: options},
            timeout_s=600,
        )
        sample.unlink()
        if not (folder / _FILE).is_file():
            raise StackError("this Java makes no archive of classes")

    try:
        provide(_name(environment), make)
    except (StackError, ExtraMissing) as error:
        report(f"Spark starts without an archive of its classes: {error}")


def _name(environment: Mapping[str, str]) -> str:
    """Return the name of the archive's folder: another Java, or other jars of Spark, have another one."""
    home = environment.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java", path=environment.get("PATH")) or "java")
    parts = [str(java.resolve())]
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        parts.append(release.read_text())
    parts += sorted(f"{jar} {jar.stat().st_size}" for jar in (spark_home() / "jars").glob("*.jar"))
    return f"spark-classes-{hashlib.sha256(os.linesep.join(parts).encode()).hexdigest()[:16]}"


def _defaults(environment: Mapping[str, str]) -> str:
    """Return the text of the user's spark-defaults.conf, which may have options for the driver."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    file = Path(folder) / "spark-defaults.conf"
    return file.read_text(errors="replace") if folder and file.is_file() else ""
