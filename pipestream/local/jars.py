"""Jars of Kafka and Delta, fetched once by the Ivy that ships inside PySpark."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.errors import ExtraMissing, StackError
from pipestream.local.cache import provide
from pipestream.local.java import find_java_home
from pipestream.local.tools import Report, run_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

KAFKA_VERSION = "4.3.1"
DELTA_VERSION = "4.4.0"


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar by its Maven coordinates; ``alone`` leaves out what it depends on."""

    organisation: str
    name: str
    version: str
    alone: bool = False


KAFKA = (
    Jar("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka logs through SLF4J 1.7 and brings no binding: without this one it logs nothing.
    Jar("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4", alone=True),
)

# Without their dependencies: Spark already has all of them, in newer versions that must not be shadowed.
DELTA = (
    *(
        Jar("io.delta", name, DELTA_VERSION, alone=True)
        for name in (
            "delta-spark_4.2_2.13",
            "delta-storage",
            "delta-kernel-api",
            "delta-kernel-defaults",
            "delta-kernel-unitycatalog",
        )
    ),
    Jar("io.unitycatalog", "unitycatalog-client", "0.6.0", alone=True),
    Jar("io.unitycatalog", "unitycatalog-hadoop", "0.6.0", alone=True),
)


def kafka_jars(report: Report = lambda _: None) -> Path:
    """Return the folder with the jars of the Kafka broker."""
    return _fetch(f"kafka-{KAFKA_VERSION}", KAFKA, report)


def delta_jars(report: Report = lambda _: None) -> list[Path]:
    """Return the jars that Spark needs for Delta, for ``spark.jars``, so that no session uses the network."""
    return sorted(_fetch(f"delta-{DELTA_VERSION}", DELTA, report).glob("*.jar"))


def spark_home() -> Path:
    """Return the folder of the installed PySpark, without importing it.

    :raises ExtraMissing: PySpark is not installed, or only as a client of Spark Connect (pyspark-client, which
        Airflow's provider brings): that has neither programs nor jars.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ExtraMissing("spark", "pyspark")
    folder = Path(spec.origin).parent
    if not (folder / "bin" / "spark-submit").is_file():
        raise ExtraMissing("spark", "spark-submit")
    return folder


def _fetch(name: str, jars: Sequence[Jar], report: Report) -> Path:
    def make(folder: Path) -> None:
        report(f"fetching {name} (first time only, about a minute)")
        work = folder / "ivy"
        work.mkdir()
        ivy_file = work / "ivy.xml"
        ivy_file.write_text(_ivy_file(jars))
        ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
        argv: list[str | Path] = [
            find_java_home() / "bin" / "java",
            "-jar",
            ivy,
            "-warn",
            "-cache",
            work / "cache",
            "-ivy",
            ivy_file,
        ]
        argv += ["-confs", "default", "-types", "jar", "bundle"]
        argv += ["-retrieve", folder / "[artifact]-[revision].[ext]"]
        run_tool(argv, f"fetching {name} from Maven Central", timeout_s=600, tries=3)
        shutil.rmtree(work)
        missing = [jar.name for jar in jars if not (folder / f"{jar.name}-{jar.version}.jar").is_file()]
        if missing:
            raise StackError(f"fetching {name}: Ivy reported success but did not bring {', '.join(missing)}")

    return provide(name, make)


def _ivy_file(jars: Sequence[Jar]) -> str:
    lines = "".join(
        f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}" '
        f'transitive="{str(not jar.alone).lower()}" conf="default->default"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="pipestream" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{lines}</dependencies></ivy-module>"
    )
