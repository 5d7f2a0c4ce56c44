"""Each example in ``examples/`` runs as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipestream.errors import ModuleFailed, ModuleUnavailable
from pipestream.modules.module import Answer, EnvelopePlace, ModuleContext, profile_of
from pipestream.modules.resolve import resolve_module
from pipestream.wire import PipeDoc

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def _find_examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


@contextmanager
def program(name: str, *arguments: str):
    """Run an example that is a program; yield its first line of output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


def run(spec: str, document: PipeDoc, **context) -> list[PipeDoc]:
    module = resolve_module(spec)
    try:
        answered = module.process(document, ModuleContext("g", "n", "s", timeout_s=60.0, **context))
    finally:
        module.close()
    return list(answered.documents if isinstance(answered, Answer) else answered)


def document(title: str = "", body: str = "") -> PipeDoc:
    made = PipeDoc(doc_id="d")
    made.search_metadata.title, made.search_metadata.body = title, body
    return made


def test_the_python_function_classifies_and_has_a_schema():
    (made,) = run("python:python_module:classify", document(body="The total is 12"))
    (other,) = run("python:python_module:classify", document(body="The total is 12"), config={"words": ["pump"]})

    assert (made.search_metadata.document_type, other.search_metadata.document_type) == ("INVOICE", "OTHER")
    assert profile_of(resolve_module("python:python_module:classify")).config_schema["type"] == "object"
    with pytest.raises(ModuleFailed, match="the document has no text"):
        run("python:python_module:classify", document())


def test_the_runtime_measures_and_its_crash_is_one_documents_failure():
    (made,) = run("runtime:runtime_module:measure", document(body="four"))

    assert made.search_metadata.metadata["bytes"] == "4"
    with pytest.raises(ModuleUnavailable, match="was killed by SIGSEGV"):
        run("runtime:runtime_module:measure", document(body="four"), config_params={"crash": "yes"})


def test_the_parser_reads_a_file_into_several_documents():
    made = PipeDoc(doc_id="d")
    made.blob_bag.blob.data = b"A-1: pumps\n\nA-2: valves\n"

    parts = run("python:parser_module:read_lines", made)

    assert [(part.doc_id, part.search_metadata.title) for part in parts] == [("d-0", "A-1"), ("d-1", "A-2")]
    assert profile_of(resolve_module("python:parser_module:read_lines")).is_parser


def test_the_grpc_service_shouts():
    with program("grpc_module.py", "0") as line:
        (made,) = run(f"grpc:127.0.0.1:{line.split()[-1]}", document("quiet"))

    assert made.search_metadata.title == "QUIET"


def test_the_program_behind_a_socket_shouts(tmp_path):
    with program("unix_module.py", str(tmp_path / "m.sock")):
        (made,) = run(f"unix:{tmp_path}/m.sock", document("quiet"))
        with pytest.raises(ModuleFailed, match="KeyError: no 'search_metadata'"):
            run(f"unix:{tmp_path}/m.sock", PipeDoc(doc_id="d"))

    assert made.search_metadata.title == "QUIET"


def test_the_actor_splits_an_envelope(tmp_path):
    place = EnvelopePlace("e1", "", ("split", "index"), 0)
    with program("envelope_module.py", str(tmp_path / "m.sock")):
        parts = run(f"unix:{tmp_path}/m.sock", document("two words"), protocol="envelope", envelope=place)

    assert [part.doc_id for part in parts] == ["e1-two", "e1-words"]


def test_every_example_is_short_and_is_listed():
    listed = set(re.findall(r"`(\w+\.py)`", (EXAMPLES / "README.md").read_text()))

    assert listed == {file.name for file in EXAMPLES.glob("*.py")}
    assert all(len(file.read_text().splitlines()) <= 33 for file in EXAMPLES.glob("*.py"))
