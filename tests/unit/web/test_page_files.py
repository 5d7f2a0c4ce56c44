from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient

from pipestream_airflow.web.app import STATIC, PageFiles


def test_a_browser_asks_each_time_whether_a_file_of_the_page_has_changed():
    app = FastAPI()
    app.mount("/static", PageFiles(directory=STATIC))
    with TestClient(app) as client:
        first = client.get("/static/main.js")
        again = client.get("/static/main.js", headers={"If-None-Match": first.headers["etag"]})

    assert first.headers["cache-control"] == again.headers["cache-control"] == "no-cache"
    assert (first.status_code, again.status_code) == (200, 304)
