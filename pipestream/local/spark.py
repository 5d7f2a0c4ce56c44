"""Spark standalone: a master and two workers."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pipestream.local.jars import delta_jars, spark_home
from pipestream.local.java import find_java_home
from pipestream.local.ports import HOST
from pipestream.local.server import Launch, Server, Site
from pipestream.local.spark_driver import SUBMIT_OPTIONS, spark_python, submit_options
from pipestream.local.tools import get_json
from pipestream.project import python_path

if TYPE_CHECKING:
    from pipestream.local.tools import Report

WORKERS = 2
SPARK_SERVERS = ("spark-master", *(f"spark-worker-{number}" for number in range(1, WORKERS + 1)))
# Tasks that a worker runs at once, not cores of the machine: a drain waits for Kafka, for objects and for modules.
_WORKER_CORES = 4
_WORKER_MEMORY = "3g"
CONNECT_CORES = 4
"""Of the cluster's, for the Spark Connect server: a long drain of two partitions and a short one run side by side."""
_SUBMIT_CORES = (WORKERS * _WORKER_CORES - CONNECT_CORES) // 2


def spark_programs_environment() -> dict[str, str]:
    """Return the variables with which Spark's programs find Java, Spark and Python, and start drivers quickly."""
    environment = {"JAVA_HOME": str(find_java_home()), "SPARK_HOME": str(spark_home()), **spark_python()}
    return {**environment, SUBMIT_OPTIONS: submit_options({**os.environ, **environment})}


def spark_environment(site: Site) -> dict[str, str]:
    """Return what drivers, workers and executors of a local stack must have in their environment."""
    scratch = str(site.data("spark") / "scratch")
    return {
        **spark_programs_environment(),
        # All of a local stack runs on this machine, so a Python that was chosen for a cluster is of no use.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": scratch,
        "PYTHONPATH": python_path(site.spec.project),
    }


class SparkMaster(Server):
    name = "spark-master"
    port_names = ("spark", "spark_ui")

    def fetch(self, report: Report) -> None:
        delta_jars(report)

    @property
    def address(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def initialise(self) -> None:
        (self.site.data("spark") / "scratch").mkdir(parents=True, exist_ok=True)

    def launch(self) -> Launch:
        argv = [str(spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"]
        argv += ["--host", HOST, "--port", str(self.port), "--webui-port", str(self.site.ports.spark_ui)]
        # By default an application takes all cores, and the next one would wait for its end.
        options = f"-Dspark.deploy.defaultCores={_SUBMIT_CORES}"
        environment = {"SPARK_DAEMON_MEMORY": "384m", "SPARK_MASTER_OPTS": options}
        return Launch(tuple(argv), {**spark_environment(self.site), **environment})

    def check(self) -> None:
        if _ask_master(self.site)["status"] != "ALIVE":
            raise ConnectionError("the Spark master is not alive yet")


class SparkWorker(Server):
    port_names = ()
    needs = ("spark-master",)

    def __init__(self, site: Site, number: int) -> None:
        super().__init__(site)
        self.name = f"spark-worker-{number}"

    def fetch(self, report: Report) -> None:
        """Nothing to do: the master has fetched everything."""

    @property
    def address(self) -> str:
        return f"spark://{HOST}:{self.site.ports.spark}"

    def launch(self) -> Launch:
        work = self.site.data("spark") / self.name
        work.mkdir(parents=True, exist_ok=True)
        argv = [str(spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"]
        argv += ["--host", HOST, "--cores", str(_WORKER_CORES), "--memory", _WORKER_MEMORY]
        argv += ["--webui-port", "0", "--work-dir", str(work), self.address]
        # The master's list must distinguish our workers, and the pattern must accept all three values.
        options = f"-Dspark.worker.idPattern={self.name}-%s-%s-%d -Dspark.worker.cleanup.enabled=true"
        environment = {"SPARK_DAEMON_MEMORY": "384m", "SPARK_WORKER_OPTS": options}
        return Launch(tuple(argv), {**spark_environment(self.site), **environment})

    def check(self) -> None:
        workers = _ask_master(self.site)["workers"]
        if not any(worker["state"] == "ALIVE" and worker["id"].startswith(f"{self.name}-") for worker in workers):
            raise ConnectionError(f"{self.name} has not registered with the master yet")


def _ask_master(site: Site) -> Any:
    return get_json(f"http://{HOST}:{site.ports.spark_ui}/json/")
