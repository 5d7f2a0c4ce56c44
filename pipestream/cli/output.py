"""What the commands print: tables or JSON on stdout, everything else on stderr."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# A pipe or a file has no width: cells are then written in full, for grep and for logs.
_UNBOUNDED = 10_000


def console(*, stderr: bool = False) -> Console:
    """Return a console on the current stdout or stderr. Highlighting is off, so that only our own styles show."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _UNBOUNDED
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty())


def say(text: str, style: str = "") -> None:
    """Print one line for a person on stdout."""
    console().print(Text(text, style=style))


def note(text: str, style: str = "dim") -> None:
    """Print a progress line on stderr, so that it never mixes with results."""
    console(stderr=True).print(Text(text, style=style))


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str = "",
    numbers: Iterable[str] = (),
    fold: Iterable[str] = (),
) -> None:
    """Print a table.

    :param numbers: columns that are aligned to the right.
    :param fold: columns that may take several lines in a narrow terminal; the others are cut off last.
    """
    right, folded = set(numbers), set(fold)
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column in right,
            overflow="fold" if column in folded else "ellipsis",
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    # A pipe gets no trailing blanks, which a terminal does not show.
    target = console()
    if target.is_terminal:
        target.print(table)
    else:
        with target.capture() as captured:
            target.print(table)
        target.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def emit_json(value: object) -> None:
    """Print JSON on stdout."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def plain(value: object) -> Any:
    """Return a value as JSON can write it."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case Enum():
            return value.value
        case datetime():
            return value.isoformat()
        case Path():
            return str(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case int():
            return f"{value:,}".replace(",", " ") if abs(value) >= 10_000 else str(value)
        case float():
            return f"{value:.1f}"
        case _:
            return str(value)
