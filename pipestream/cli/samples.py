"""``pipestream samples``: documents to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipestream.cli.options import JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, say


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples("pipestream samples", "pipestream samples ./my-documents --count 1000 --seed 8"),
    )(samples)


def samples(
    folder: Annotated[
        Path | None,
        typer.Argument(help="The folder to write to; unless given, the folder of the sample graph's connector."),
    ] = None,
    # The least that holds one of each kind and the broken ones; a test compares it with the generator's own.
    count: Annotated[int, typer.Option(min=19, max=1_000_000, help="How many documents.")] = 240,
    seed: Annotated[int, typer.Option(help="The same seed writes the same documents; another seed writes others.")] = 7,
    json: JsonOption = False,
) -> None:
    """Write sample documents of nine kinds into a folder, ten broken ones among them.

    The broken ones become dead letters in the sample graph. Files of the same names are overwritten, others stay.
    """
    from pipestream.errors import RequestInvalid
    from pipestream.samples.generate import SAMPLES, write_sample_documents

    target = read_settings().sources_folder / SAMPLES if folder is None else folder
    try:
        report = write_sample_documents(target, count, seed)
    except OSError as error:
        raise RequestInvalid(f"{error.filename or target} cannot be written: {error.strerror}") from error
    if json:
        emit_json(report)
        return
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(report.by_kind.items()))
    say(f"{report.documents} documents in {target}: {kinds}; {report.broken} of them are broken")
