"""Users who ask the same at the same time share the answer; those of another pipeline have their own rights."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pipestream.errors import RequestInvalid
from pipestream.graph.model import Datasource, Graph, Node
from pipestream.settings import Settings
from pipestream.wire import PipeDoc
from pipestream_airflow.web import questions
from pipestream_airflow.web.gate import Gate
from pipestream_airflow.web.routes.documents import show_stored
from pipestream_airflow.web.routes.trials import ConditionRequest, Sample, try_one_condition

KEY = "streams/acme/s-1/first.pb"


class TwoPipelines:
    """The services of an app with a pipeline of the account ``acme`` and one of ``bert``."""

    def __init__(self):
        self.settings = Settings()
        self.store = Gate("the object store", threads=2, patience_s=60)

    async def find_active(self, pipeline_id):
        return Graph(pipeline_id, "main", (Node("only", "main"),), datasources=(Datasource("d", pipeline_id, "only"),))


@pytest.fixture
def store(monkeypatch):
    """An object store that answers when it is let."""
    go = threading.Event()

    def read(_settings, _key, doc_id, accounts):
        assert go.wait(60)
        if "acme" not in accounts:
            raise RequestInvalid("not the key of a document of these accounts")
        return PipeDoc(doc_id=doc_id)

    monkeypatch.setattr(questions, "read_stored", read)
    return go


def show(pipeline_id, services):
    return show_stored(pipeline_id, "a", KEY, services)


def try_condition(pipeline_id, services):
    wanted = ConditionRequest('doc.doc_id == "a"', Sample(doc_id="a", key=KEY))
    return try_one_condition(pipeline_id, wanted, services)


@pytest.mark.parametrize("ask", [show, try_condition])
def test_a_document_that_one_user_may_read_is_not_shared_with_a_user_of_another_account(store, ask):
    async def run():
        services = TwoPipelines()
        asked = [asyncio.create_task(ask(name, services)) for name in ("acme", "acme", "bert")]
        for _ in range(20):
            await asyncio.sleep(0)
        store.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, foreign = asyncio.run(run())

    assert first == second
    assert not isinstance(first, Exception)
    assert isinstance(foreign, RequestInvalid)
