"""A real Prometheus for tests: the one on the PATH, else the one of Debian's package, unpacked into the cache."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipestream.local.cache import provide
from pipestream.local.ports import HOST
from pipestream.local.tools import get_json, run_tool
from pipestream_testing.waiting import wait_until

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: pipestream
    static_configs: [{{targets: [{targets}]}}]
"""


def find_program(name: str) -> Path:
    """Return ``prometheus`` or ``promtool``.

    :raises StackError: it is neither installed nor to be had as a Debian package; install Prometheus.
    """
    on_path = shutil.which(name)
    return Path(on_path) if on_path else provide("prometheus-debian", _unpack) / "usr" / "bin" / name


def _unpack(folder: Path) -> None:
    what = "fetching Debian's package of Prometheus (elsewhere, install Prometheus so that it is on the PATH)"
    try:
        run_tool(["apt-get", "download", "--quiet", "prometheus"], what, cwd=folder, tries=1)
    except Exception:
        # A new machine has no lists of packages yet.
        run_tool(["apt-get", "update", "--quiet"], what, tries=3, timeout_s=300)
        run_tool(["apt-get", "download", "--quiet", "prometheus"], what, cwd=folder, tries=3)
    (package,) = folder.glob("*.deb")
    run_tool(["dpkg", "--extract", package, folder], what)
    package.unlink()


class Prometheus:
    """A running Prometheus, and what it knows."""

    def __init__(self, port: int) -> None:
        self._port = port

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the vector that an expression has now."""
        found = self._get(f"query?{urllib.parse.urlencode({'query': expression})}")
        return found["data"]["result"]

    def firing(self, **labels: str) -> bool:
        """Tell whether an alert with these labels fires."""
        alerts = self._get("alerts")["data"]["alerts"]
        return any(labels.items() <= each["labels"].items() for each in alerts if each["state"] == "firing")

    def _get(self, path: str) -> Any:
        return get_json(f"http://{HOST}:{self._port}/api/v1/{path}")


@contextmanager
def run_prometheus(folder: Path, port: int, rules: Path, targets: list[str]) -> Iterator[Prometheus]:
    """Run Prometheus on our rules, scraping every second."""
    config = folder / "prometheus.yaml"
    config.write_text(CONFIG.format(rules=json.dumps(str(rules)), targets=", ".join(map(json.dumps, targets))))
    command = [find_program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={HOST}:{port}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            running = Prometheus(port)

            def is_up() -> bool:
                assert process.poll() is None, (folder / "prometheus.log").read_text()
                try:
                    return bool(running.query("up"))
                except OSError:
                    return False

            wait_until(is_up, timeout_s=120)
            yield running
        finally:
            process.terminate()
            process.wait(30)
