"""Every route of the app's own table, with no session, as a viewer, and with hostile input."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.stack

HOSTILE = [
    pytest.param("/pipelines/..%2f..%2fetc", id="a path as an id"),
    pytest.param("/pipelines/" + "a" * 5_000, id="an endless id"),
    pytest.param("/pipelines/{id}/documents/..", id="a document id that climbs"),
    pytest.param("/pipelines/{id}/documents/%00", id="a zero byte"),
    pytest.param("/pipelines/{id}/documents/a/stored?key=../../secrets", id="a key that climbs"),
    pytest.param("/pipelines/{id}/documents/a/stored?key=documents/other-account/x/y.pb", id="another account"),
    pytest.param("/pipelines/{id}/ledger/entries?limit=1000000000", id="a huge page"),
    pytest.param("/pipelines/{id}/ledger/entries?limit=-1", id="a negative page"),
    pytest.param("/pipelines/{id}/ledger/entries?offset=99999999999999999999", id="an endless offset"),
    pytest.param("/pipelines/{id}/ledger/entries?since=yesterday", id="not a time"),
    pytest.param("/pipelines/{id}/ledger/entries?since=2026-01-01T00:00:00", id="a time without a zone"),
    pytest.param("/pipelines/{id}/ledger/entries?since=0001-01-01T00:00:00Z", id="a time before all records"),
    pytest.param("/pipelines/{id}/ledger/series?points=100000", id="endless points"),
    pytest.param("/pipelines/{id}/ledger/series?topic=another.topic", id="a topic of nobody"),
    pytest.param("/pipelines/{id}/dead-letters?limit=0", id="no page"),
    pytest.param("/pipelines/{id}/dead-letters?state=lost", id="no such state"),
    pytest.param("/pipelines/{id}/dead-letters/engine.accepted/0/0", id="a topic that is not of dead letters"),
    pytest.param("/pipelines/{id}/dead-letters/x/-1/0", id="a negative partition"),
    pytest.param("/pipelines/{id}/versions/99999999999999999999", id="an endless version"),
    pytest.param("/pipelines/{id}/diff?from=0&to=-1", id="versions that cannot be"),
    pytest.param("/pipelines/{id}/numbers?window_s=99999999999", id="an endless window"),
]

WRITES = [
    pytest.param("PUT", "/state", {"desired": "perhaps", "replicas": 1}, id="no such state"),
    pytest.param("PUT", "/state", {"desired": "started", "replicas": 0}, id="no replicas"),
    pytest.param("PATCH", "/state", {"replicas": 10**9}, id="too many replicas"),
    pytest.param("PATCH", "/state", {}, id="nothing to change"),
    pytest.param("PATCH", "/state", {"desired": "stopped", "topics": ["intake.other"]}, id="another graph's topic"),
    pytest.param("PUT", "?base_version=1", "- " * 100_000, id="nested YAML"),
    pytest.param("PUT", "?base_version=1", "graph: *x", id="an alias"),
    pytest.param("PUT", "?base_version=1", "graph: another\ncluster: c\nnodes: [{id: a}]", id="another graph"),
    pytest.param("PUT", "?base_version=1", "x" * (5 * 1024 * 1024), id="a huge text"),
    pytest.param("PUT", "?base_version=1", {"graph": "json"}, id="JSON for YAML"),
    pytest.param("DELETE", "", None, id="a deletion of no version"),
    pytest.param("DELETE", "?base_version=99999999999999999999", None, id="a deletion of an endless version"),
    pytest.param("POST", "/rollback", {"version": 10**12, "base_version": 1}, id="an endless version"),
    pytest.param("POST", "/dead-letters/actions", {"act": "purge"}, id="an act that needs an approval"),
    pytest.param("POST", "/dead-letters/actions", {"act": "replay", "letters": ["x"]}, id="not a letter"),
    pytest.param("POST", "/dead-letters/actions", {"act": "replay", "letters": ["other/0/1"]}, id="another's letter"),
    pytest.param("POST", "/dead-letters/actions", {"act": "replay", "action_id": "../x"}, id="an id that climbs"),
    pytest.param("POST", "/conditions/try", {"condition": "doc.no", "sample": {}}, id="no document"),
    pytest.param(
        "POST", "/conditions/try", {"condition": "true", "sample": {"document": {"no_such": 1}}}, id="not a document"
    ),
    pytest.param("POST", "/explain", {"sample": {"document": {}}, "at": "nowhere"}, id="no such node"),
    pytest.param("POST", "/compare", "graph: another\ncluster: c\nnodes: [{id: a}]", id="another graph to compare"),
    pytest.param("POST", "/compare?documents=1000000", "graph: x", id="endless documents to compare"),
    pytest.param("POST", "/compare?since=2026-01-01T00:00:00", "graph: x", id="a comparison without a zone"),
    pytest.param("PATCH", "/datasources/nobody", {"paused": True, "base_version": 1}, id="no such datasource"),
]


ROUTES = """
import json
from fastapi.routing import APIRoute
from pipestream.settings import Settings
from pipestream_airflow.web.app import create_app
from pipestream_airflow.web.services import Services

app = create_app(Services(Settings(leases="none")))
others = [each.path for each in app.routes if not isinstance(each, APIRoute)]
routes = [(method, each.path) for each in app.routes if isinstance(each, APIRoute) for method in each.methods]
print(json.dumps([routes, others]))
"""


@pytest.fixture(scope="module")
def routes(stack) -> list[tuple[str, str]]:
    """Method and path of every route that the app itself has. Airflow is imported in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", ROUTES]
    done = subprocess.run(command, env=stack.prepare_airflow(), capture_output=True, text=True, check=True)
    found, others = json.loads(done.stdout.splitlines()[-1])
    assert others == ["/static"], "only the page's own files have no route with access rights"
    return sorted((method, path) for method, path in found)


def filled(path: str, pipeline_id: str) -> str:
    values = {"pipeline_id": pipeline_id, "version": "1", "partition": "0", "offset": "0", "topic": "dlq.x"}
    return "/pipestream" + re.sub(r"{(\w+)}", lambda name: values.get(name[1], "x"), path)


def test_every_route_asks_for_a_session_and_lets_no_viewer_change_anything(web, routes, pipeline_id):
    nobody = {(m, p): web.call(m, filled(p, pipeline_id), user="").status for m, p in routes}
    writes = [(method, path) for method, path in routes if method != "GET"]
    viewer = {(m, p): web.call(m, filled(p, pipeline_id), user="viewer").status for m, p in writes}

    assert len(routes) > 25
    assert len(writes) > 8
    assert nobody == dict.fromkeys(routes, 401)
    assert viewer == dict.fromkeys(writes, 403)


def test_a_route_that_changes_something_is_in_the_audit_log(web, pipeline_id):
    before = web.call("GET", "/api/v2/eventLogs?event=pipestream_change_state").json()["total_entries"]

    assert web.call("PATCH", f"/pipestream/api/pipelines/{pipeline_id}/state", {"mode": "batch"}).status == 200

    logged = web.call("GET", "/api/v2/eventLogs?event=pipestream_change_state&order_by=-id").json()
    assert logged["total_entries"] == before + 1
    assert logged["event_logs"][0]["owner"] == "admin"


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_question_is_refused_with_a_reason(web, pipeline_id, path):
    reply = web.call("GET", "/pipestream/api" + path.replace("{id}", pipeline_id))

    assert 400 <= reply.status < 500, reply
    assert reply.json()["detail"]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_hostile_change_is_refused_with_a_reason_and_changes_nothing(web, pipeline_id, method, path, body):
    before = web.get(f"/pipelines/{pipeline_id}/state"), web.get(f"/pipelines/{pipeline_id}/history")

    reply = web.call(method, f"/pipestream/api/pipelines/{pipeline_id}{path}", body)

    assert 400 <= reply.status < 500, reply
    assert reply.json()["detail"]
    assert (web.get(f"/pipelines/{pipeline_id}/state"), web.get(f"/pipelines/{pipeline_id}/history")) == before


def test_the_description_of_the_api_has_a_typed_answer_for_every_route(web):
    described = web.get("/openapi.json")

    for path, methods in described["paths"].items():
        for method, each in methods.items():
            answers = [answer for code, answer in each["responses"].items() if code.startswith("2")]
            (content,) = answers[0]["content"].items()
            assert content[0] == "text/plain" or content[1]["schema"], (method, path)
            assert each["summary"], (method, path)
