"""Consul: one server that keeps its data across restarts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipestream.local.gotools import CONSUL, find_tool
from pipestream.local.ports import HOST
from pipestream.local.server import Launch, Server
from pipestream.local.tools import get_json

if TYPE_CHECKING:
    from pathlib import Path

    from pipestream.local.tools import Report


class Consul(Server):
    name = "consul"
    port_names = ("consul", "consul_rpc", "consul_serf")

    def fetch(self, report: Report) -> None:
        find_tool(CONSUL, report)

    @property
    def _folder(self) -> Path:
        return self.site.data("consul")

    def initialise(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        ports = self.site.ports
        config = {
            "server": True,
            # Not bootstrap_expect: a single server that bootstraps elects itself again after every restart.
            "bootstrap": True,
            "node_name": "local",
            "datacenter": "local",
            "data_dir": str(self._folder / "data"),
            "bind_addr": HOST,
            "client_addr": HOST,
            "ports": {
                "http": ports.consul,
                "server": ports.consul_rpc,
                "serf_lan": ports.consul_serf,
                "serf_wan": -1,
                "dns": -1,
                "grpc": -1,
                "grpc_tls": -1,
            },
            "disable_update_check": True,
            # A lone server can elect itself at once; the defaults wait for peers in far data centres.
            "performance": {"raft_multiplier": 1},
            "leave_on_terminate": False,
            "telemetry": {"disable_hostname": True},
            "connect": {"enabled": False},
        }
        (self._folder / "consul.json").write_text(json.dumps(config, indent=2))

    def launch(self) -> Launch:
        program = find_tool(CONSUL, lambda _: None)
        argv = (str(program), "agent", f"-config-file={self._folder / 'consul.json'}", "-log-level=info")
        # Options in the caller's environment are meant for a client of some other Consul.
        return Launch(argv, {"CONSUL_HTTP_ADDR": "", "CONSUL_HTTP_TOKEN": ""})

    def check(self) -> None:
        if not get_json(f"http://{self.address}/v1/status/leader"):
            raise ConnectionError("Consul has no leader yet")
        # A new leader may still be replaying its log; a consistent read fails until it has everything.
        if not get_json(f"http://{self.address}/v1/catalog/nodes?consistent"):
            raise ConnectionError("Consul has not registered itself yet")
