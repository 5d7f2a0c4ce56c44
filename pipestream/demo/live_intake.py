"""Bring a part of the sample documents in live: by HTTP into the repository, by gRPC into the engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from pipestream.connectors.folder import FolderConnector
from pipestream.connectors.media import media_type
from pipestream.errors import StackError
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.local.starter import log_tail
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.settings import CONFIG_VARIABLE
from pipestream.wire import PipeDoc

_READY_S = 120.0
_STOP_S = 30.0
_CALL_S = 60.0
# One of six files of each kind goes in by HTTP, and one by gRPC.
_OF = 6


def set_aside(folder: Path, http: Path, by_grpc: Path) -> None:
    """Move a sixth of the good files to each of two other folders. The broken ones stay for the connector."""
    for kind in sorted(each for each in folder.iterdir() if each.is_dir() and each.name != "broken"):
        for number, file in enumerate(sorted(kind.iterdir())):
            target = {0: http, 1: by_grpc}.get(number % _OF)
            if target is not None:
                target.mkdir(parents=True, exist_ok=True)
                file.rename(target / file.name)


@contextmanager
def serving(arguments: Sequence[str], ready: str, config_file: Path, log_file: Path) -> Iterator[Callable[[], str]]:
    """Run a server of the product, and stop it gracefully.

    Yields a function that waits until the server is ready and returns the address that its first line names. So several
    servers can start side by side. It raises ``StackError`` if the server does not become ready.

    :param ready: a pattern of that line, with the address as its group.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipestream.cli.main", *arguments],
            env={**os.environ, CONFIG_VARIABLE: str(config_file)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield partial(_await_ready, process, ready, log_file)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], ready: str, log_file: Path) -> str:
    """Return a server's address.

    :raises StackError: it did not become ready; the message has the last lines of its log.
    """
    deadline = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(ready, log_file.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise StackError(f"a server of the demo did not become ready\n{log_tail(log_file)}")


def upload(address: str, datasource_id: str, folder: Path) -> list[str]:
    """Upload every file of a folder over HTTP, and return the ids of their documents.

    :raises StackError: one was refused.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    doc_ids = []
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        request = urllib.request.Request(
            f"http://{address}/uploads/{datasource_id}",
            data=data,
            headers={
                "Content-Type": media_type(file.name, data),
                "X-Filename": file.name,
                "X-Document-Id": file.name,
            },
        )
        try:
            with opener.open(request, timeout=_CALL_S) as answer:
                doc_ids.append(str(json.load(answer)["doc_id"]))
        except OSError as error:
            raise StackError(f"uploading {file.name} to {address}: {error}") from error
    return doc_ids


def hand_off(address: str, datasource_id: str, folder: Path) -> list[str]:
    """Hand every file of a folder to the engine, and return the ids of their documents.

    :raises StackError: one was not accepted.
    """
    documents = [each for each in FolderConnector(folder).documents() if isinstance(each, PipeDoc)]
    with grpc.insecure_channel(address) as channel:
        stub: Any = EngineV1ServiceStub(channel)  # type: ignore[no-untyped-call]
        for document in documents:
            request = IntakeHandoffRequest(datasource_id=datasource_id)
            request.stream.document.CopyFrom(document)
            # Repeated with the same key, a call is answered as the first time, and its document goes in once.
            metadata = [(IDEMPOTENCY_KEY, document.doc_id)]
            try:
                response = stub.IntakeHandoff(request, timeout=_CALL_S, metadata=metadata, wait_for_ready=True)
            except grpc.RpcError as error:
                raise StackError(f"handing {document.doc_id} to the engine: {error.code().name}") from error
            if not response.accepted:
                raise StackError(f"the engine did not accept {document.doc_id}: {response.message}")
    return [document.doc_id for document in documents]
