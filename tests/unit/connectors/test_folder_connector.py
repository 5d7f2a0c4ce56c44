from __future__ import annotations

import hashlib
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipestream.connectors.connector import Found, LeftOut, Seen, Unreadable
from pipestream.connectors.files import document_id
from pipestream.connectors.folder import FolderConnector, NewFilesConnector
from pipestream.connectors.registry import make_connector
from pipestream.errors import ConnectorInvalid, SourceUnreadable
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.graph.model import Connector
from pipestream.ids import check_key_part
from pipestream.plugins import PluginContext
from pipestream.settings import Settings
from pipestream.wire import PipeDoc
from pipestream_testing.remembered import Remembered

STORED = Path(__file__).resolve().parents[2] / "data" / "pipedocs"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "files"
    made.mkdir()
    return made


def write(folder: Path, name: str, data: bytes = b"text\n", modified_at_s: int = 1_700_000_000) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    os.utime(file, (modified_at_s, modified_at_s))
    return file


def found(folder: Path, **options: object) -> list[PipeDoc | Unreadable]:
    return list(FolderConnector(folder, **options).documents())


def paths(items: list[PipeDoc | Unreadable]) -> list[str]:
    return [item.source if isinstance(item, Unreadable) else item.search_metadata.source_path for item in items]


def test_a_file_becomes_a_document_with_its_bytes_and_what_is_known_of_them(folder):
    write(folder, "reports/ö 1.html", b"<html></html>")

    (document,) = found(folder)

    blob, metadata = document.blob_bag.blob, document.search_metadata
    assert (blob.data, blob.filename, blob.size_bytes) == (b"<html></html>", "ö 1.html", 13)
    assert (blob.mime_type, metadata.mime_type) == ("text/html", "text/html")
    assert blob.checksum == hashlib.sha256(b"<html></html>").hexdigest()
    assert blob.checksum_type == wire.CHECKSUM_TYPE_SHA256
    assert (metadata.title, metadata.content_length) == ("ö 1", 13)
    assert metadata.source_path == "reports/ö 1.html"
    assert metadata.source_uri == "file:///reports/%C3%B6%201.html"
    assert list(metadata.source_path_segments) == ["reports", "ö 1.html"]
    assert metadata.last_modified_date.seconds == 1_700_000_000
    assert document.doc_id_derivation.method == wire.DOC_ID_DERIVATION_METHOD_SOURCE_PATH


def test_files_come_in_the_order_of_their_paths(folder):
    for name in ("b.txt", "a/z.txt", "a.txt", "B.txt", "a/b/c.txt"):
        write(folder, name)

    assert paths(found(folder)) == ["B.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt"]


def test_the_same_files_elsewhere_are_the_same_documents(folder, tmp_path):
    write(folder, "a/b.txt", b"one")
    write(folder, "c.csv", b"x,y\n")
    shutil.copytree(folder, tmp_path / "elsewhere")

    assert found(folder) == found(tmp_path / "elsewhere")


def test_a_pattern_and_no_recursion_choose_the_files(folder):
    for name in ("a.txt", "b.md", "sub/c.txt"):
        write(folder, name)

    assert paths(found(folder, pattern="*.txt")) == ["a.txt", "sub/c.txt"]
    assert paths(found(folder, recursive=False)) == ["a.txt", "b.md"]


def test_hidden_files_and_folders_are_left_out(folder):
    for name in (".hidden", ".git/config", "a.txt"):
        write(folder, name)

    assert paths(found(folder)) == ["a.txt"]


def test_a_file_above_the_limit_is_reported_and_the_others_are_read(folder):
    write(folder, "a.txt", b"x" * 10)
    write(folder, "b.txt", b"x" * 11)
    write(folder, "c.txt", b"x")

    first, big, last = found(folder, max_bytes=10)

    assert big == Unreadable("b.txt", "11 bytes, above the limit of 10; raise max_bytes or split it")
    assert paths([first, last]) == ["a.txt", "c.txt"]


def test_a_link_is_followed_only_inside_the_folder(folder, tmp_path):
    secret = write(tmp_path, "secret.txt", b"secret")
    inside = write(folder, "a.txt", b"inside")
    (folder / "in.txt").symlink_to(inside)
    (folder / "out.txt").symlink_to(secret)
    (folder / "gone.txt").symlink_to(folder / "nothing")

    a, gone, linked, out = found(folder)

    assert (a.blob_bag.blob.data, linked.blob_bag.blob.data) == (b"inside", b"inside")
    assert out == Unreadable("out.txt", "a symbolic link that leads out of the folder")
    assert gone == Unreadable("gone.txt", "No such file or directory")


def test_a_pipe_is_reported_instead_of_being_waited_for(folder):
    os.mkfifo(folder / "pipe")

    assert found(folder) == [Unreadable("pipe", "neither a file nor a link to one")]


def test_a_name_that_is_not_text_is_reported(folder):
    Path(os.fsdecode(os.fsencode(folder) + b"/bad-\xff.txt")).write_bytes(b"x")

    assert found(folder) == [Unreadable("bad-?.txt", "the file's name is not UTF-8; rename it")]


def test_stored_documents_are_taken_as_they_are(folder):
    for file in STORED.glob("*.pb"):
        shutil.copy(file, folder)

    documents = found(folder)

    assert [document.SerializeToString() for document in documents] == [
        file.read_bytes() for file in sorted(STORED.glob("*.pb"))
    ]


def test_a_stored_document_without_an_id_is_named_after_its_path(folder):
    write(folder, "a.pb", b"\x12\x03\x0a\x01t")

    (document,) = found(folder)

    assert document.doc_id == document_id("a.pb")
    assert document.search_metadata.title == "t"


@pytest.mark.parametrize("data", [b"", b"plain text", b"\x9a\x06\x02hi"])
def test_a_pb_file_that_is_not_a_document_is_reported(folder, data):
    write(folder, "a.pb", data)

    (unreadable,) = found(folder)

    assert unreadable.source == "a.pb"
    assert unreadable.reason.startswith("not a PipeDoc")


@pytest.mark.parametrize("path", ["a.txt", "ü/ü.txt", "../../x", "-", "...", "x" * 300, "a b/c d.txt", "日本.txt"])
def test_every_path_gives_an_id_that_can_be_part_of_a_key(path):
    assert check_key_part(document_id(path), "id")


def test_paths_that_look_alike_have_different_ids():
    alike = ["a/b.txt", "a-b.txt", "a b.txt", "a_b.txt", "A/b.txt", "x/" * 100 + "a", "y/" * 100 + "a"]

    assert len({document_id(path) for path in alike}) == len(alike)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SourceUnreadable, match="none is not a folder"):
        found(tmp_path / "none")


def connect(sources_folder: Path | str = "elsewhere", **options: object) -> NewFilesConnector:
    return make_connector(Connector("folder", options), PluginContext(Settings(sources_folder=sources_folder)))


def test_a_graph_makes_a_connector_by_kind(folder):
    made = connect(path=str(folder), pattern="*.md", recursive=False, max_documents=5)

    assert (made.folder, made.max_documents) == (FolderConnector(folder, "*.md", recursive=False), 5)


def test_a_relative_path_starts_from_the_folder_of_sources_and_not_from_the_current_one(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert connect(folder, path="inner").folder == FolderConnector(folder / "inner")


def changes(folder: Path, memory: Remembered, *, later_s: float = 60.0) -> list[Found]:
    """Run the connector as if it were some seconds later."""
    connector = replace(connect(path=str(folder)), now=lambda: time.time() + later_s)
    return [each for each in memory.keep(list(connector.changes(memory))) if not isinstance(each, Seen)]


def test_only_what_changed_since_an_earlier_run_is_read(folder):
    memory = Remembered()
    for name in ("a.txt", "b.txt", "c.txt"):
        write(folder, name)
    first = changes(folder, memory)
    write(folder, "b.txt", b"changed\n")
    write(folder, "d.txt")

    again = changes(folder, memory)

    assert paths(first) == ["a.txt", "b.txt", "c.txt"]
    left_out = [each.source for each in again if isinstance(each, LeftOut)]
    assert left_out == ["a.txt", "c.txt"]
    assert paths([each for each in again if not isinstance(each, LeftOut)]) == ["b.txt", "d.txt"]


def test_a_file_that_was_replaced_by_one_of_its_size_and_time_is_read_again(folder):
    memory = Remembered()
    write(folder, "a.txt", b"one\n")
    changes(folder, memory)
    write(folder, "new", b"two\n").rename(folder / "a.txt")

    (again,) = changes(folder, memory)

    assert again.blob_bag.blob.data == b"two\n"


def test_a_file_that_changed_a_moment_ago_is_read_again(folder):
    memory = Remembered()
    write(folder, "a.txt")

    moments = [changes(folder, memory, later_s=later_s) for later_s in (0.0, 0.0, 60.0, 60.0)]

    assert [isinstance(each, LeftOut) for (each,) in moments] == [False, False, False, True]


def test_a_file_that_changed_a_moment_before_it_was_read_is_read_again_however_long_its_document_took(folder):
    write(folder, "a.txt")
    clock = [time.time()]
    found = replace(connect(path=str(folder)), now=lambda: clock[0]).changes(Remembered())

    next(found)
    clock[0] += 60.0

    assert next(found).state == {}


def test_a_file_that_cannot_be_read_is_tried_again(folder):
    memory = Remembered()
    (folder / "a.txt").symlink_to("/etc/hostname")
    (folder / os.fsdecode(b"\xff.txt")).write_text("x")

    first, again = changes(folder, memory), changes(folder, memory)

    assert first == again
    assert {type(each) for each in again} == {Unreadable}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("ftp", {}, "there is no connector 'ftp'; there are: csv, .*folder"),
        ("folder", {}, "path is missing"),
        ("folder", {"path": ""}, "path is missing"),
        ("folder", {"path": "x", "patern": "*"}, "unknown option patern; it has max_bytes, max_documents, path"),
        ("folder", {"path": 5}, "path must be str, not 5"),
        ("folder", {"path": "x", "recursive": "yes"}, "recursive must be bool, not 'yes'"),
        ("folder", {"path": "x", "max_bytes": True}, "max_bytes must be int, not True"),
    ],
)
def test_a_connector_that_cannot_be_made_says_why(kind, options, message):
    with pytest.raises(ConnectorInvalid, match=message):
        make_connector(Connector(kind, options), PluginContext(Settings()))
