"""Write a graph's file, from which Airflow makes the DAG."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from pipestream.ids import check_graph_id


def write_graph_file(folder: Path, known: Path | None, graph_id: str, text: bytes) -> str:
    """Write the file of a graph as a whole or not at all, and return its name.

    :param known: the file that the graph has; without it, one of its id is written to ``folder``.
    :raises OSError: it cannot be written; the file is as it was.
    """
    file = known or folder / f"{check_graph_id(graph_id, 'graph id')}.yaml"
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as target:
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        # As others could read the old one, or any new file: mkstemp makes files for the owner alone.
        Path(name).chmod(file.stat().st_mode & 0o777 if file.exists() else 0o644)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return file.name
