"""Moves documents through a processing graph in batches and backfills that lose nothing.

The names in ``__all__`` are the public API; ``docs/api.md`` has an example of each. Public are also the errors of
``pipestream.errors``, and what ``docs/extending.md`` names for plugins. Everything else may change without notice.
Names are imported when they are first used, so that ``import pipestream`` costs nothing.

Two functions have longer names than their commands, ``drain_topic`` and ``open_ledger``: ``pipestream.drain`` and
``pipestream.ledger`` are packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipestream.version import VERSION

if TYPE_CHECKING:
    from pipestream.api.graphs import apply_graph, delete_graph, load_graph, validate_graph
    from pipestream.api.modes import set_graph_mode, set_topic_mode
    from pipestream.api.runs import backfill_topic, drain_topic, ingest_datasource, open_ledger, replay_dead_letters
    from pipestream.errors import PipestreamError, TerminalError, TransientError
    from pipestream.graph.model import Graph
    from pipestream.modules.declare import declare_module
    from pipestream.modules.module import ModuleContext
    from pipestream.offsets.ordered import OrderedReader
    from pipestream.offsets.source_topic import SourceTopic
    from pipestream.settings import Settings, load_settings
    from pipestream.wire import PipeDoc

__version__ = VERSION

__all__ = [
    "Graph",
    "ModuleContext",
    "OrderedReader",
    "PipeDoc",
    "PipestreamError",
    "Settings",
    "SourceTopic",
    "TerminalError",
    "TransientError",
    "__version__",
    "apply_graph",
    "backfill_topic",
    "declare_module",
    "delete_graph",
    "drain_topic",
    "ingest_datasource",
    "load_graph",
    "load_settings",
    "open_ledger",
    "replay_dead_letters",
    "set_graph_mode",
    "set_topic_mode",
    "validate_graph",
]

_MODULES = {
    "Graph": "graph.model",
    "ModuleContext": "modules.module",
    "OrderedReader": "offsets.ordered",
    "PipeDoc": "wire",
    "PipestreamError": "errors",
    "Settings": "settings",
    "SourceTopic": "offsets.source_topic",
    "TerminalError": "errors",
    "TransientError": "errors",
    "apply_graph": "api.graphs",
    "backfill_topic": "api.runs",
    "declare_module": "modules.declare",
    "delete_graph": "api.graphs",
    "drain_topic": "api.runs",
    "ingest_datasource": "api.runs",
    "load_graph": "api.graphs",
    "load_settings": "settings",
    "open_ledger": "api.runs",
    "replay_dead_letters": "api.runs",
    "set_graph_mode": "api.modes",
    "set_topic_mode": "api.modes",
    "validate_graph": "api.graphs",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
