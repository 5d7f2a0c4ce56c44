"""Write docs/cli.md and the tables of docs/graphs.md, settings.md, metrics.md and scale.md from the code.

With --check, say whether they are current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cli_reference import cli_page
from prometheus_client.metrics import MetricWrapperBase
from pydantic import SecretStr
from scale_model import scale_tables

from pipestream.graph.format import json_schema
from pipestream.local.spec import VARIABLES
from pipestream.settings import ENV_PREFIX, Settings, settings_by_group
from pipestream.telemetry import metrics

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- generated: {} -->", "<!-- end -->"


def graph_tables() -> dict[str, str]:
    """Return one table per level of a graph file."""
    graph = json_schema()
    node = graph["properties"]["nodes"]["items"]
    datasource = graph["properties"]["datasources"]["items"]
    return {
        "graph": _keys(graph),
        "datasource": _keys(datasource),
        "node": _keys(node),
        "dead letters": _keys(node["properties"]["dead_letters"]),
        "hydration": _keys(node["properties"]["hydration"]),
        "persistence": _keys(datasource["properties"]["persistence"]),
        "mapping": _keys(node["properties"]["pre_mappings"]["items"]),
        "edge": _keys(graph["properties"]["edges"]["items"]),
    }


def settings_tables() -> dict[str, str]:
    """Return the product's settings, a table for each group, and those of the local stack."""
    tables = [
        "\n".join([f"## {group}", "", "| variable | default | meaning |", "| --- | --- | --- |", *map(_setting, names)])
        for group, names in settings_by_group().items()
    ]
    stack = ["| variable | meaning |", "| --- | --- |"]
    stack += [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    return {"settings": "\n\n".join(tables), "stack": "\n".join(stack)}


def _setting(name: str) -> str:
    field = Settings.model_fields[name]
    default = field.default
    plain = default.get_secret_value() if isinstance(default, SecretStr) else default
    shown = "" if plain in (None, {}) else plain
    return f"| `{ENV_PREFIX}{name.upper()}` | {f'`{shown}`' if shown != '' else 'none'} | {field.description} |"


def metrics_tables() -> dict[str, str]:
    """Return every metric that servers and workers count."""
    rows = ["| metric | labels | meaning |", "| --- | --- | --- |"]
    for value in vars(metrics).values():
        if isinstance(value, MetricWrapperBase):
            family = next(iter(value.describe()))
            name = f"{family.name}_total" if family.type == "counter" else family.name
            rows.append(f"| `{name}` | {', '.join(value._labelnames)} | {family.documentation} |")
    return {"metrics": "\n".join(rows)}


def _keys(level: dict[str, Any]) -> str:
    required = level.get("required", [])
    rows = ["| key | is | default | meaning |", "| --- | --- | --- | --- |"]
    for key, schema in level["properties"].items():
        name = f"**`{key}`**" if key in required else f"`{key}`"
        default = f"`{_plain(schema['default'])}`" if "default" in schema else ""
        rows.append(f"| {name} | {_kind(schema)} | {default} | {schema.get('description', '')} |")
    return "\n".join(rows)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    names = {"string": "text", "integer": "whole number", "array": "list", "object": "mapping", "boolean": "flag"}
    kind = schema.get("type", "text")
    return names.get(kind, kind)


def fill(text: str, tables: dict[str, str]) -> str:
    """Return ``text`` with each generated part replaced."""
    for name, table in tables.items():
        begin = BEGIN.format(name)
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(END)
        if not found:
            sys.exit(f"no part {begin} … {END}")
        text = f"{before}{begin}\n{table}\n{END}{after}"
    return text


def main() -> None:
    pages = {
        "cli.md": cli_page(),
        "graphs.md": fill((DOCS / "graphs.md").read_text(), graph_tables()),
        "metrics.md": fill((DOCS / "metrics.md").read_text(), metrics_tables()),
        "scale.md": fill((DOCS / "scale.md").read_text(), scale_tables()),
        "settings.md": fill((DOCS / "settings.md").read_text(), settings_tables()),
    }
    for name, filled in pages.items():
        file = DOCS / name
        if "--check" in sys.argv:
            if not file.exists() or filled != file.read_text():
                sys.exit(f"docs/{name} is not what the code says, run `make reference`")
        else:
            file.write_text(filled)


if __name__ == "__main__":
    main()
