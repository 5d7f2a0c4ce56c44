"""``pipestream read``: records of topics, in order of time."""

from __future__ import annotations

import sys
from base64 import b64encode
from datetime import UTC, datetime
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestream.cli.options import JsonOption, examples, read_settings
from pipestream.cli.output import note, say
from pipestream.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.offsets.ordered import OrderedReader


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "pipestream read intake.sample-files",
            "pipestream read intake.sample-files --policy relative_time --time-ms 3600000 --json",
            "pipestream read pipestream.main.enrich --policy latest --follow",
        )
    )(read)


def read(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Topics to read together.")],
    policy: Annotated[
        str,
        typer.Option(help="Where to start: earliest, latest, committed, relative_time or absolute_time."),
    ] = "earliest",
    time_ms: Annotated[
        int | None,
        typer.Option(help="For relative_time how long ago, for absolute_time since 1970: in milliseconds."),
    ] = None,
    group: Annotated[str, typer.Option(help="For committed: the consumer group whose offsets to start at.")] = "",
    cutoff_ms: Annotated[
        int | None,
        typer.Option(help="A partition has caught up at its first record of this time (milliseconds since 1970)."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Most records in a batch.")] = 1_000,
    max_held: Annotated[
        int | None, typer.Option(min=1, help="Most records to hold back; five batches unless given.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new records until Ctrl-C.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the records of topics in order of time, across partitions, and stop at the end. Commits nothing.

    With --json, each record is an object on a line of its own. A key or value that is not UTF-8 is in key_base64 or
    value_base64 instead.
    """
    from pipestream import OrderedReader, SourceTopic

    sources = [SourceTopic.of(topic, policy, time_ms=time_ms, group=group) for topic in topics]
    total = 0
    with OrderedReader(
        read_settings(), sources, cutoff_ms=cutoff_ms, batch_size=batch_size, max_held_messages=max_held
    ) as reader:
        for number, rows in enumerate(_batches(reader, follow), start=1):
            total += len(rows)
            for row in rows:
                sys.stdout.write(dumps(_as_json(row), ensure_ascii=False) + "\n") if json else say(_line(row))
            sys.stdout.flush()
            note(f"batch {number}: {counted(len(rows), 'record')}")
    note(counted(total, "record"))


def _batches(reader: OrderedReader, follow: bool) -> Iterator[list[dict[str, Any]]]:
    while follow or not reader.is_live():
        if rows := reader.poll().to_pylist():
            yield rows


def _line(row: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(row["timestamp_ms"] / 1_000, UTC).isoformat(timespec="milliseconds")
    key = "-" if row["key"] is None else row["key"].decode(errors="replace")
    return f"{moment} {row['topic']}[{row['partition']}] {row['offset']} {key} {len(row['value'] or b'')} bytes"


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    place = {name: row[name] for name in ("topic", "partition", "offset", "timestamp_ms")}
    headers = [{"name": each["name"], **_as_text("value", each["value"])} for each in row["headers"]]
    return {**place, **_as_text("key", row["key"]), **_as_text("value", row["value"]), "headers": headers}


def _as_text(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data or b"").decode()}
