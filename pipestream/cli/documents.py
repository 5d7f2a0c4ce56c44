"""``pipestream documents``: show a stored document; delete documents, by id or because they have expired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, say, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.retention.delete import FoundDocument


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(
        epilog=examples(
            "pipestream documents delete --datasource sample-files DOC_ID",
            "pipestream documents delete --datasource sample-files --outputs --yes DOC_ID DOC_ID",
        )
    )(delete)
    group.command(epilog=examples("pipestream documents expire --dry-run"))(expire)
    group.command(
        epilog=examples(
            "pipestream documents show streams/acme/STREAM/NODE.pb",
            "pipestream documents show segments/acme/NODE/2026111723/UUID@9:1024",
        )
    )(show)
    app.add_typer(group, name="documents", help="Show stored documents, and delete those that nobody needs any more.")


def show(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="The key of the object, or KEY@OFFSET:LENGTH in a segment.")
    ],
) -> None:
    """Show a stored document as JSON, by the place that a receipt or a reference names.

    Blobs are left out, and long texts are cut. Of a document in a segment, the length and the checksum are compared.
    """
    from pipestream.documents.fetch import fetch_document
    from pipestream.documents.references import parse_place
    from pipestream.objects.store import open_store
    from pipestream.views.documents import parse_document, show_document

    settings = read_settings()
    found = parse_place(place)
    with open_store(settings.store_uri, settings) as store:
        document = parse_document(fetch_document(store, found), place)
    emit_json(show_document(document, place))


def delete(
    doc_ids: Annotated[list[str], typer.Argument(metavar="DOC_ID...", help="The documents to delete.")],
    datasource: Annotated[
        str, typer.Option("--datasource", "-d", metavar="ID", help="The datasource that they belong to.")
    ],
    outputs: Annotated[
        bool,
        typer.Option(
            "--outputs",
            help="Also the outputs that nodes stored of them. This reads every stored output of the account.",
        ),
    ] = False,
    even_if_referenced: Annotated[
        bool,
        typer.Option(
            "--even-if-referenced",
            help="Also documents that records in Kafka refer to. Those records then become dead letters.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it they are only shown.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete documents from the catalogue and the object store. Without --yes, only show them.

    After an interruption, repeat the command. If nothing is left, it says so and ends with 0.
    """
    from pipestream.retention.delete import delete_documents, find_documents

    settings = read_settings()
    found = find_documents(settings, datasource, doc_ids, with_outputs=outputs)
    if yes:
        delete_documents(settings, datasource, found, even_if_referenced=even_if_referenced)
    if json:
        emit_json({"deleted": yes, "documents": found})
        return
    _show(found)
    there = sum(bool(document.is_catalogued or document.keys) for document in found)
    segments = {key for document in found for key in document.in_segments}
    if not there and not segments:
        say("nothing is left of these documents")
    elif not there:
        say("nothing is left of these documents outside segments")
    elif yes:
        say(f"deleted {there} documents")
    else:
        say("nothing was deleted; repeat the command with --yes to delete them")
    if segments:
        say(
            f"{len(segments)} segments hold outputs of them, together with other documents; `pipestream documents "
            f"expire` deletes a segment when its node's keep_documents_hours have passed and no record refers to it"
        )


def expire(
    grace_hours: Annotated[
        float,
        typer.Option(help="How many hours a document must have been unreferenced before it is deleted; at least 1."),
    ] = 24,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete documents older than their graph keeps them (keep_documents_hours), if nothing in Kafka refers to them.

    A document is deleted when two runs of this command, at least the grace period apart, found it unreferenced. Drains,
    replays and backfills may continue meanwhile.
    """
    from datetime import UTC, datetime, timedelta

    from pipestream.retention.expire import expire_documents

    grace = timedelta(hours=grace_hours)
    done = expire_documents(read_settings(), datetime.now(UTC), grace=grace, dry_run=dry_run)
    if json:
        emit_json(done)
        return
    verb = "would be deleted" if dry_run else "deleted"
    say(
        f"{done.deleted} objects ({done.deleted_bytes:,} bytes) {verb}; {done.unreferenced} more are unreferenced and "
        f"wait for the grace period; {done.objects} objects and {done.records} records looked at"
    )


def _show(found: Sequence[FoundDocument]) -> None:
    show_table(
        ["document", "catalogued", "uploads", "outputs", "in segments", "referenced"],
        [
            [
                each.doc_id,
                each.is_catalogued,
                len(each.uploads),
                len(each.outputs),
                len(each.in_segments),
                len(each.referenced),
            ]
            for each in found
        ],
        numbers=["uploads", "outputs", "in segments", "referenced"],
    )
