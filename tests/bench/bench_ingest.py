"""Ingest files of 1 KB from a folder and from an S3 prefix; against the requests for the same documents alone.

What is ingested is stored, remembered in the catalogue and published, each document once; that is checked by the intake
topic before a rate is reported. The rivals make the same requests and do nothing else. The rival of the folder puts the
objects that were just stored once more, from memory, under names of the same length and depth: a server that keeps
objects in a folder makes a folder for each. The rival of the S3 prefix gets a file before each.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pipestream.connectors.ingest import ingest
from pipestream.graph.model import Connector, Datasource
from pipestream.objects.store import ObjectStore, open_store
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.bench import sized
from pipestream_testing.courses import read_keys

pytestmark = [pytest.mark.stack, pytest.mark.slow]

# A run begins with a tenth of a second or more for connections and the producer, however few files there are.
FILES = sized(5_000, 2_000)
ROUNDS = sized(3, 2)
THREADS = 16
BODY = "x" * 1_000


def datasource_of(settings, name: str, connector: Connector) -> Datasource:
    TopicAdmin(settings).create([TopicSpec(f"intake.{name}", 2, None, Purpose.INTAKE)])
    return Datasource(name, "acme", "triage", connector=connector)


def ingested_per_s(settings, datasource: Datasource) -> float:
    started = time.perf_counter()
    report = ingest(settings, datasource)
    took_s = time.perf_counter() - started
    assert (report.new, report.published, report.failed) == (FILES, FILES, [])
    published = Counter(
        key for keys in read_keys(settings, f"intake.{datasource.datasource_id}").values() for key in keys
    )
    assert len(published) == published.total() == FILES
    return FILES / took_s


def stored_objects(store: ObjectStore, datasource: Datasource) -> list[tuple[str, bytes]]:
    """Return what was stored for a datasource, under other names."""
    place = f"documents/acme/{datasource.datasource_id}"
    objects = [(f"{place}-alone{key.removeprefix(place)}", store.get(key)) for key in store.list(place)]
    assert len(objects) == FILES
    return objects


def assert_all_stored(store: ObjectStore, datasource: Datasource) -> None:
    assert sum(1 for _ in store.list(f"documents/acme/{datasource.datasource_id}-alone")) == FILES


def put_per_s(settings, datasource: Datasource) -> float:
    with open_store(settings.store_uri, settings) as store:
        objects = stored_objects(store, datasource)
        started = time.perf_counter()
        store.put_many(objects)
        took_s = time.perf_counter() - started
        assert_all_stored(store, datasource)
    return FILES / took_s


def copied_per_s(settings, folder: Path, datasource: Datasource) -> float:
    def copy(name: str, key: str, data: bytes) -> None:
        store.get(f"files/{name}")
        store.put(key, data)

    names = [file.name for file in folder.iterdir()]
    with open_store(settings.store_uri, settings) as store, ThreadPoolExecutor(THREADS) as pool:
        keys, documents = zip(*stored_objects(store, datasource), strict=True)
        started = time.perf_counter()
        for _ in pool.map(copy, names, keys, documents):
            pass
        took_s = time.perf_counter() - started
        assert_all_stored(store, datasource)
    return FILES / took_s


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "files"
    made.mkdir()
    for number in range(FILES):
        (made / f"file-{number:06}.txt").write_text(f"{number} {BODY}")
    return made


@pytest.fixture
def prefix(settings, folder):
    """The same files below a prefix of the stack's S3: the options of the connector."""
    with open_store(settings.store_uri, settings) as store:
        store.put_many([(f"files/{file.name}", file.read_bytes()) for file in folder.iterdir()])
    place = urlsplit(settings.store_uri)
    return {"bucket": place.netloc, "prefix": f"{place.path.strip('/')}/files"}


def test_files_that_are_ingested(settings, unique, scenario, folder, prefix):
    made = scenario("ingest", "Ingest files of 1 KB into S3")
    rates: dict[str, list[float]] = {"folder": [], "put alone": [], "S3 listing": [], "get and put alone": []}
    for number in range(ROUNDS):
        of_folder = datasource_of(settings, f"{unique}-f{number}", Connector("folder", {"path": str(folder)}))
        rates["folder"].append(ingested_per_s(settings, of_folder))
        rates["put alone"].append(put_per_s(settings, of_folder))
        of_s3 = datasource_of(settings, f"{unique}-s{number}", Connector("s3", prefix))
        rates["S3 listing"].append(ingested_per_s(settings, of_s3))
        rates["get and put alone"].append(copied_per_s(settings, folder, of_s3))
    for name, found in rates.items():
        made.add(name, "documents/s", *found, is_rival=name.endswith("alone"))
    for name, rival in (("folder", "put alone"), ("S3 listing", "get and put alone")):
        made.want_ratio(f"of objects alone, {name}", name, rival, at_least=0.8)
