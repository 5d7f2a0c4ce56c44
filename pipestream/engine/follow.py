"""Take a stream through the nodes that run in one task: its own and those behind fused edges."""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pipestream.engine.decisions import note_decision
from pipestream.engine.envelopes import envelope_id
from pipestream.engine.process import Emission, Outcome, Services, fail, process_node
from pipestream.errors import (
    Concern,
    ModuleDown,
    PipestreamError,
    StoreRefused,
    StoreUnavailable,
    TerminalError,
    TimeBudgetSpent,
    TransientError,
    printable,
)
from pipestream.graph.flow import destination_of
from pipestream.graph.model import DeadLetterPolicy, Graph, Node
from pipestream.settings import Settings
from pipestream.wire import PipeStream

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a document that fails transiently is tried, and how long to wait in between."""

    max_attempts: int
    initial_ms: float
    max_ms: float
    multiplier: float = 2.0

    def pause_s(self, attempt: int, jitter: float) -> float:
        """Return the pause after a failed attempt; ``jitter`` in [0, 1) takes up to half of it away."""
        full = min(self.initial_ms * self.multiplier ** (attempt - 1), self.max_ms)
        return full * (1 - jitter / 2) / 1000


def retry_policy(node: Node | None, settings: Settings) -> RetryPolicy:
    """Return a node's own policy where it has one, else the installation's."""
    own = node.dead_letters if node else DeadLetterPolicy()
    initial_ms = settings.retry_initial_ms if own.initial_backoff_ms is None else own.initial_backoff_ms
    max_ms = settings.retry_max_ms if own.max_backoff_ms is None else own.max_backoff_ms
    return RetryPolicy(
        max_attempts=own.max_attempts or settings.max_attempts,
        initial_ms=initial_ms,
        max_ms=max(initial_ms, max_ms),
        multiplier=own.backoff_multiplier,
    )


def follow(
    stream: PipeStream,
    graph: Graph,
    services: Services,
    settings: Settings,
    sleep: Callable[[float], None] = time.sleep,
    deadline: float | None = None,
    decisions: list[str] | None = None,
) -> list[Emission]:
    """Process a stream at its node, and on through fused edges; return only what leaves the task.

    A stream that fails at one node becomes a dead letter (or goes to the error-end) of that node; what its
    siblings made stays. Raises only where no document is to blame; then the stream has to be processed again as a
    whole.

    :param deadline: when the time budget of the stream ends, by ``time.monotonic``; None: it has none.
    :param decisions: gets what conditions decided, by the names that the ledger counts it under.
    :raises ModuleDown: a module did not come back while its calls were held back.
    :raises StoreUnavailable, StoreRefused: the store of blobs cannot be read.
    :raises TimeBudgetSpent: the deadline has passed.
    """
    leaving: list[Emission] = []
    waiting = deque([stream])
    while waiting:
        current = waiting.popleft()
        for emission in process_with_retries(current, graph, services, settings, sleep, deadline):
            if decisions is not None:
                note_decision(emission, decisions)
            if is_fused(emission, graph):
                waiting.append(emission.stream)
            else:
                leaving.append(emission)
                _report_end(emission, graph, services)
    return leaving


def _report_end(emission: Emission, graph: Graph, services: Services) -> None:
    """Say that a document has reached an end which nobody processes; other ends say it themselves."""
    if services.progress is None or emission.outcome in (Outcome.EDGE, Outcome.HANDED_OVER):
        return
    end = graph.node_by_id.get(emission.to_node_id)
    if end is None or end.is_bare_end:
        error = printable(emission.error) if emission.error else ""
        services.progress.final(envelope_id(emission.stream), succeeded=emission.error is None, error=error)


def is_fused(emission: Emission, graph: Graph) -> bool:
    """Tell whether an emission stays in this task."""
    return emission.edge is not None and destination_of(emission.edge, graph).is_fused


def process_with_retries(
    stream: PipeStream,
    graph: Graph,
    services: Services,
    settings: Settings,
    sleep: Callable[[float], None],
    deadline: float | None,
) -> list[Emission]:
    """Process a stream at one node, as often as its retry policy says; a failure is an emission too.

    It raises what ``follow`` raises.
    """
    started = services.now()
    attempt = 0
    while True:
        attempt += 1
        try:
            return process_node(stream, graph, services, attempt, deadline)
        except (ModuleDown, TimeBudgetSpent, StoreRefused):
            raise
        except TransientError as error:
            if deadline is not None and time.monotonic() >= deadline:
                # The caller's time is over, not the document's chance: whoever has more time may succeed.
                raise TimeBudgetSpent(f"node {stream.current_node_id}") from error
            policy = retry_policy(graph.node_by_id.get(stream.current_node_id), settings)
            if attempt == policy.max_attempts and isinstance(error, StoreUnavailable):
                raise
            if attempt == policy.max_attempts:
                return [fail(stream, graph, error, attempt, services, started)]
            sleep(policy.pause_s(attempt, random.random()))  # noqa: S311 - jitter, not a secret
        except PipestreamError as error:
            return [fail(stream, graph, error, attempt, services, started)]
        except Exception as error:
            # A bug of ours or of a library's must not lose the document, nor stop the ones behind it.
            log.exception("unexpected error at node %s, stream %s", stream.current_node_id, stream.stream_id)
            unexpected = TerminalError(f"unexpected {type(error).__name__}: {error}")
            unexpected.__cause__ = error
            unexpected.concerns = Concern.RECORD
            return [fail(stream, graph, unexpected, attempt, services, started)]
