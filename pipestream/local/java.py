"""Find a Java that can run Kafka and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

MINIMUM = 17
INSTALLED = Path("/usr/lib/jvm")
"""Where Linux distributions put every Java of a machine."""

_INSTALL = """Java 17 or newer is needed to run Kafka and Spark. Install it, or set JAVA_HOME:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)"""


def find_java_home() -> Path:
    """Return the home of a Java of version 17 or newer: JAVA_HOME, the PATH's, then those below /usr/lib/jvm.

    :raises StackError: there is none. A JAVA_HOME that does not fit is refused, not skipped, because Spark would
        use it anyway.
    """
    named = os.environ.get("JAVA_HOME")
    if named:
        version = java_version(Path(named))
        if version is None or version < MINIMUM:
            found = f"has Java {version}" if version else "has no bin/java that runs"
            raise StackError(f"JAVA_HOME is {named}, which {found}.\n{_INSTALL}")
        return Path(named)
    seen = []
    for home in _candidates():
        version = java_version(home)
        if version is not None and version >= MINIMUM:
            return home
        seen.append(f"{home} has Java {version}" if version else f"{home} does not run")
    raise StackError("\n".join([*(f"{line}, which is not enough." for line in seen), _INSTALL]))


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path and (home := Path(on_path).resolve().parent.parent).is_dir():
        yield home
    for java in sorted(INSTALLED.glob("*/bin/java")):
        yield java.parent.parent.resolve()


def java_version(home: Path) -> int | None:
    """Return the feature version (17 for 17.0.15) of the Java below ``home``; None where it does not run."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(done.stderr + done.stdout)


def parse_java_version(text: str) -> int | None:
    """Read the output of ``java -version``; versions before 9 called themselves 1.8 and so on."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first = int(found[1])
    return int(found[2] or 0) if first == 1 else first
