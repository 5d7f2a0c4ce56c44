"""Run the short-lived tools that fetch, build and prepare servers."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipestream.errors import StackError

log = logging.getLogger(__name__)

Report = Callable[[str], None]

TAIL_LINES = 25


def run_tool(
    argv: Sequence[str | Path],
    what: str,
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 120.0,
    tries: int = 1,
) -> str:
    """Run a tool to its end and return what it printed.

    :param tries: more than one for tools that use the network, where the second try often succeeds.
    :raises StackError: it failed in every try; the message has its last lines.
    """
    words = [str(word) for word in argv]
    for attempt in range(1, tries + 1):
        try:
            done = subprocess.run(
                words,
                env=dict(os.environ) | dict(environment or {}),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except OSError as error:
            raise StackError(f"{what}: {words[0]} could not be started: {error}") from None
        except subprocess.TimeoutExpired:
            problem = f"gave up after {timeout_s:.0f} s"
        else:
            if done.returncode == 0:
                return done.stdout
            tail = "\n".join(f"  | {line}" for line in done.stdout.splitlines()[-TAIL_LINES:])
            problem = f"{Path(words[0]).name} ended with status {done.returncode}\n{tail}"
        if attempt < tries:
            log.warning("%s: try %d of %d failed: %s", what, attempt, tries, problem)
            time.sleep(2.0 * attempt)
    raise StackError(f"{what} failed: {problem}")


def get_json(url: str, timeout_s: float = 3.0) -> Any:
    """Return the JSON that a local server answers. Proxies are not used, because it is this machine."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=timeout_s) as answer:
        return json.load(answer)


def read_version(text: str) -> tuple[int, ...]:
    """Return the first dotted version in ``text``, or an empty tuple."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def tool_version(program: str | Path, *arguments: str) -> tuple[int, ...]:
    """Return the version a program prints, or an empty tuple where it is missing or does not run."""
    found = shutil.which(str(program))
    if found is None:
        return ()
    try:
        done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return read_version(done.stdout + done.stderr)
