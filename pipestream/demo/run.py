"""The demo from an empty folder to a checked result."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestream.connectors.folder import FolderConnector
from pipestream.connectors.ingest import ingest
from pipestream.dead_letters import dead_letter_topics, list_dead_letters, summarize
from pipestream.demo.dag_run import TaskEvent, run_dag
from pipestream.demo.live_intake import hand_off, serving, set_aside, upload
from pipestream.demo.reading import read_doc_ids
from pipestream.demo.summary import Summary, WayIn, count_ways, summarise
from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.errors import StackError
from pipestream.graph.load import load_graph
from pipestream.ids import graph_dag_id
from pipestream.kafka.broker import Broker
from pipestream.leases import open_lease_store
from pipestream.ledger import Ledger
from pipestream.local import Stack, load_spec
from pipestream.project import graphs_folder, make_project
from pipestream.samples.generate import SAMPLES, write_sample_documents
from pipestream.settings import ENV_PREFIX, STACK_PREFIX
from pipestream.topic_names import intake_topic, node_topic
from pipestream.views.audit import audit_graph
from pipestream.views.drained import TopicRow, drained_rows
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.graph.model import Datasource, Graph
    from pipestream.settings import Settings

Tell = Callable[[str], None]

ENGINE = ("engine", "serve", "--port", "0", "--workers", "1")
ENGINE_READY = r"engine ready on (\S+)"
REPOSITORY = ("repository", "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
REPOSITORY_READY = r"http (\S+)"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo did, and where it can be looked at."""

    summary: Summary
    ways: tuple[WayIn, ...]
    rows: tuple[TopicRow, ...]
    dead_letters: tuple[dict[str, Any], ...]
    """Each with the keys of ``pipestream dlq list --json``."""
    seconds: float
    folder: Path
    config_file: Path
    logs: Path


def run_demo(tell: Tell, *, documents: int = 240, keep: bool = False) -> DemoResult:
    """Run sample documents through the sample graph on a stack of its own, and check the results.

    The stack is in ``demo`` below the stack's folder, on free ports, so it can run next to another stack. Its DAGs and
    its graph are there too, as the package contains them. An earlier demo's folder is replaced.

    :param tell: called with each step when it is done.
    :param keep: leave the servers running.
    :raises StackError: a server did not start, the run failed, or another demo is under way.
    """
    started = time.monotonic()
    _forget_settings()
    folder = load_spec().folder / "demo"
    project = folder / "project"
    with _only_demo(folder):
        stack = Stack(load_spec(profile="embedded", folder=folder, project=project, free_ports=True, durable=False))
        _clear(stack, tell)
        make_project(project)
        graph = load_graph(graphs_folder(project) / "sample.yaml", look_up=True)
        with _running(stack, tell, keep=keep):
            settings = stack.settings()
            # Airflow's database takes seconds to prepare, and the documents do not need it.
            with ThreadPoolExecutor(1, "airflow") as pool:
                environment = pool.submit(stack.prepare_airflow)
                ways = _bring_in(graph, stack, documents, tell)
            _run_graph(graph, stack, environment.result(), tell)
            tell("counting what came out, in the ledger and in the topics")
            audits = audit_graph(Broker(settings), Ledger(settings), graph)
            letters = list_dead_letters(settings, dead_letter_topics([graph], settings))
            dead_letters = tuple(summarize(letter) for letter in letters)
            happy = read_doc_ids(settings, node_topic(graph.cluster_id, graph.happy_end))
            summary = summarise(
                sum(map(len, ways.values())),
                audits,
                happy_end_in_topic=len(happy),
                dead_letters_in_topics=len(dead_letters),
            )
    return DemoResult(
        summary=summary,
        ways=tuple(count_ways(ways, happy, [str(letter["doc_id"]) for letter in dead_letters])),
        rows=tuple(drained_rows(audits)),
        dead_letters=dead_letters,
        seconds=time.monotonic() - started,
        folder=folder,
        config_file=stack.config_file,
        logs=folder / "logs",
    )


def _forget_settings() -> None:
    """Drop the settings of this shell: the demo has its own, and its child processes must read the same ones."""
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        if not name.startswith(STACK_PREFIX):
            del os.environ[name]


@contextmanager
def _only_demo(folder: Path) -> Iterator[None]:
    """Prevent a second demo in the same folder from removing the first one's servers."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"another demo is running in {folder}; wait for it to end, or stop it") from None
        yield


def _clear(stack: Stack, tell: Tell) -> None:
    folder = stack.spec.folder
    if folder.is_dir() and any(folder.iterdir()):
        stack.down()
        shutil.rmtree(folder)
        tell(f"removed the last demo's folder {folder}: this one starts from nothing")


@contextmanager
def _running(stack: Stack, tell: Tell, *, keep: bool) -> Iterator[None]:
    if not keep:
        with stack.running(tell):
            yield
        return
    try:
        stack.up(tell)
        yield
    except BaseException:
        stack.down(tell)
        raise


def _bring_in(graph: Graph, stack: Stack, documents: int, tell: Tell) -> dict[str, set[str]]:
    """Apply the graph and bring the sample documents in, by three ways; return the ids that took each."""
    settings = stack.settings()
    with closing(GraphVersions(settings)) as versions, closing(open_lease_store(settings)) as leases:
        applied = apply_graph(graph, settings, leases, versions, applied_by="demo")
    tell(f"applied graph {graph.graph_id}: {len(applied.created)} topics created")
    samples = write_sample_documents(settings.sources_folder / SAMPLES, documents)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(samples.by_kind.items()))
    tell(f"wrote {samples.documents} sample documents: {kinds}; {samples.broken} of them are broken")
    by_http, by_grpc = (settings.sources_folder / name for name in ("by-http", "by-grpc"))
    set_aside(samples.folder, by_http, by_grpc)
    live = _bring_in_live(graph.datasources[0], stack, by_http, by_grpc, tell)
    return {"folder connector": _ingest(graph.datasources[0], samples.folder, settings, tell), **live}


def _ingest(source: Datasource, folder: Path, settings: Settings, tell: Tell) -> set[str]:
    report = ingest(settings, source)
    if report.failed:
        raise StackError(f"{report.failed[0].source} could not be read: {report.failed[0].reason}")
    tell(f"ingested {report.published} documents into {intake_topic(source.datasource_id)} by the connector")
    return {each.doc_id for each in FolderConnector(folder).documents() if isinstance(each, PipeDoc)}


def _bring_in_live(source: Datasource, stack: Stack, by_http: Path, by_grpc: Path, tell: Tell) -> dict[str, set[str]]:
    logs = stack.spec.folder / "logs"
    engine = serving(ENGINE, ENGINE_READY, stack.config_file, logs / "engine.log")
    repository = serving(REPOSITORY, REPOSITORY_READY, stack.config_file, logs / "repository.log")
    with repository as repository_ready, engine as engine_ready:
        http_address, grpc_address = repository_ready(), engine_ready()
        tell(f"started the repository at http://{http_address} and the engine at {grpc_address}")
        uploaded = upload(http_address, source.datasource_id, by_http)
        tell(f"uploaded {len(uploaded)} documents over HTTP: POST /uploads/{source.datasource_id}")
        handed = hand_off(grpc_address, source.datasource_id, by_grpc)
        tell(f"handed {len(handed)} documents to the engine by gRPC: their first node has processed them")
    return {"HTTP upload": set(uploaded), "gRPC handoff": set(handed)}


def _run_graph(graph: Graph, stack: Stack, environment: Mapping[str, str], tell: Tell) -> None:
    dag_id = graph_dag_id(graph.graph_id)
    log_file = stack.spec.folder / "logs" / "dag-run.log"
    tell(f"running DAG {dag_id} through Airflow: a drain on Spark per topic (log: {log_file})")

    def tell_task(event: TaskEvent) -> None:
        if event.state == "started":
            tell(f"  {event.task_id} …")
        else:
            tell(f"  {event.task_id}: {event.state} after {event.seconds:.1f} s")

    run_dag(dag_id, environment, log_file, tell_task)
