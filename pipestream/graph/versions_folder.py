"""Graph versions in a folder, for an installation without PostgreSQL.

``FOLDER/GRAPH/000001.pb`` is a version's content, ``000001.json`` who applied it and when, ``active.json``
which version is active. Writers take turns by a lock file that the system frees when they die.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipestream.graph.hashing import graph_hash
from pipestream.graph.proto import from_kept, to_binary
from pipestream.graph.versions_model import GraphVersion, VersionMissing
from pipestream.ids import check_graph_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from pipestream.graph.model import Graph

_ACTIVE = "active.json"
_LEFTOVERS = "leftovers.json"


class FolderGraphVersions:
    """Keeps graph versions in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, graph: Graph, *, applied_by: str) -> GraphVersion:
        content, digest = to_binary(graph), graph_hash(graph)
        with self._locked(graph.graph_id) as folder:
            records = _read_records(folder)
            version = next((number for number, record in records.items() if record["hash"] == digest), None)
            if version is None:
                version = max(records, default=0) + 1
                record = {"hash": digest, "applied_by": applied_by, "applied_at": _now()}
                # The content first: a record is what makes a version exist.
                _write(folder / f"{version:06d}.pb", content)
                _write(folder / f"{version:06d}.json", json.dumps(record).encode())
            self._activate(folder, version, applied_by)
        return self._version(graph.graph_id, version)

    def graph_ids(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if (path / _ACTIVE).is_file())

    def history(self, graph_id: str) -> list[GraphVersion]:
        folder = self._folder_of(graph_id)
        active = _read_active(folder)
        return [
            GraphVersion(
                graph_id=graph_id,
                version=version,
                hash=record["hash"],
                applied_by=record["applied_by"],
                applied_at=datetime.fromisoformat(record["applied_at"]),
                active=version == active.get("version"),
                active_since=datetime.fromisoformat(active["at"]) if version == active.get("version") else None,
                activated_by=active["by"] if version == active.get("version") else "",
            )
            for version, record in sorted(_read_records(folder).items(), reverse=True)
        ]

    def active(self, graph_id: str) -> Graph | None:
        version = _read_active(self._folder_of(graph_id)).get("version")
        return None if version is None else self._read(graph_id, version)

    def get(self, graph_id: str, version: int | str) -> Graph:
        records = _read_records(self._folder_of(graph_id))
        fitting = [
            number
            for number, record in records.items()
            if number == version or (isinstance(version, str) and version and record["hash"].startswith(version))
        ]
        if len(fitting) != 1:
            raise VersionMissing(graph_id, version)
        return self._read(graph_id, fitting[0])

    def rollback(self, graph_id: str, version: int, *, applied_by: str) -> GraphVersion:
        if version not in _read_records(self._folder_of(graph_id)):
            raise VersionMissing(graph_id, version)
        with self._locked(graph_id) as folder:
            self._activate(folder, version, applied_by)
        return self._version(graph_id, version)

    def leftovers(self, graph_id: str) -> list[str]:
        path = self._folder_of(graph_id) / _LEFTOVERS
        return sorted(json.loads(path.read_bytes())) if path.is_file() else []

    def note_leftovers(self, graph_id: str, topics: Collection[str]) -> None:
        with self._locked(graph_id) as folder:
            _write(folder / _LEFTOVERS, json.dumps(sorted(topics)).encode())

    def _activate(self, folder: Path, version: int, by: str) -> None:
        if _read_active(folder).get("version") != version:
            _write(folder / _ACTIVE, json.dumps({"version": version, "by": by, "at": _now()}).encode())

    def _version(self, graph_id: str, version: int) -> GraphVersion:
        return next(each for each in self.history(graph_id) if each.version == version)

    def _read(self, graph_id: str, version: int) -> Graph:
        path = self._folder_of(graph_id) / f"{version:06d}.pb"
        return from_kept(path.read_bytes(), source=str(path))

    def _folder_of(self, graph_id: str) -> Path:
        return self._folder / check_graph_id(graph_id, "graph id")

    @contextmanager
    def _locked(self, graph_id: str) -> Iterator[Path]:
        folder = self._folder_of(graph_id)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder


def _read_records(folder: Path) -> dict[int, dict[str, Any]]:
    if not folder.is_dir():
        return {}
    return {int(path.stem): json.loads(path.read_bytes()) for path in folder.glob("[0-9]*.json")}


def _read_active(folder: Path) -> dict[str, Any]:
    path = folder / _ACTIVE
    return json.loads(path.read_bytes()) if path.is_file() else {}


def _write(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing, also after a crash."""
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)  # noqa: PTH105 - scratch is a name, not a Path


def _now() -> str:
    return datetime.now(UTC).isoformat()
