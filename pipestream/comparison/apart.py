"""Compare graphs in a process of its own, for a server that must not run modules itself.

A module may be any Python function. In the server's process it could block all threads, use up the memory or end the
process. The child gets its task and leaves its result as files in a folder, because a module may print anything.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from pipestream.comparison.compare import CompareRequest, Comparison, compare_graphs
from pipestream.errors import GraphInvalid, PipestreamError, Problem, RequestInvalid, TransientError
from pipestream.graph.proto import built, restore
from pipestream.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.graph.model import Graph

_TASK: Final = "task.json"
_RESULT: Final = "result.json"
_LOG: Final = "log.txt"
_POLITE: Final = 10
"""How far the child steps back for the server's own work, as ``nice`` counts it."""
_MOST_LOG: Final = 500


class ComparisonFailed(TransientError):
    """The process of a comparison ended without a result, or took too long."""


@dataclass(frozen=True, slots=True)
class _Task:
    before: str
    """The graph's message, in base 64."""
    after: str
    request: CompareRequest


@dataclass(frozen=True, slots=True)
class _Result:
    comparison: Comparison | None = None
    error: str = ""
    kind: str = ""
    """The class of the error."""


def compare_apart(
    before: Graph, after: Graph, request: CompareRequest, patience_s: float, variables: Mapping[str, str] | None = None
) -> Comparison:
    """Do what ``compare_graphs`` does in a child process, which has the settings of this process's environment.

    :param patience_s: the child is killed then. The request's own timeout should be shorter.
    :param variables: settings of this process that are not in its environment.
    :raises ComparisonFailed: there is no result.
    """
    with TemporaryDirectory(prefix="pipestream-compare-") as name:
        folder = Path(name)
        task = _Task(_encode(before), _encode(after), request)
        (folder / _TASK).write_bytes(TypeAdapter(_Task).dump_json(task))
        _run_child(folder, patience_s, variables or {})
        try:
            result = TypeAdapter(_Result).validate_json((folder / _RESULT).read_bytes())
        except OSError:
            last = (folder / _LOG).read_text(errors="replace").strip()[-_MOST_LOG:]
            raise ComparisonFailed(f"the process of the comparison ended without a result: {last}") from None
    if result.comparison is None:
        raise _error(result)
    return result.comparison


def _run_child(folder: Path, patience_s: float, variables: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "pipestream.comparison.apart", str(folder)]
    environment = {**os.environ, **variables}
    with (folder / _LOG).open("wb") as log:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        # The whole group: modules may have started processes.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise ComparisonFailed(
            f"the comparison did not end within {patience_s:.0f} s; compare fewer documents, or use "
            f"`pipestream graph compare`"
        ) from None


def _error(result: _Result) -> PipestreamError:
    if result.kind == RequestInvalid.__name__:
        return RequestInvalid(result.error)
    if result.kind == GraphInvalid.__name__:
        return GraphInvalid([Problem("graph", None, "", result.error)])
    return ComparisonFailed(result.error)


def _encode(graph: Graph) -> str:
    return base64.b64encode(built(graph).content).decode()


def _main(folder: Path) -> None:
    os.nice(_POLITE)
    task = TypeAdapter(_Task).validate_json((folder / _TASK).read_bytes())
    before, after = (restore(base64.b64decode(text)).graph for text in (task.before, task.after))
    try:
        result = _Result(compare_graphs(before, after, load_settings(), task.request))
    except PipestreamError as error:
        result = _Result(error=str(error), kind=type(error).__name__)
    # Under its own name only when it is whole.
    unfinished = folder / f"{_RESULT}.part"
    unfinished.write_bytes(TypeAdapter(_Result).dump_json(result))
    unfinished.rename(folder / _RESULT)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
