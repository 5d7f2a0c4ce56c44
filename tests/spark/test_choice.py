from __future__ import annotations

import logging

import pytest

from pipestream.errors import SettingsInvalid, SparkUnavailable
from pipestream.settings import Settings
from pipestream_spark.choice import find_connect

NOBODY = {"spark_connect_url": "sc://127.0.0.1:1", "spark_connect_token": "t"}


@pytest.fixture
def settings(tmp_path):
    def make(**values):
        return Settings(**{"store_uri": tmp_path.as_uri(), **values})

    return make


@pytest.mark.parametrize(
    ("values", "needs_submit", "reason"),
    [
        ({}, "", "spark_connect_url is not set"),
        (NOBODY, "", "no Spark Connect server answers at 127.0.0.1:1"),
        (NOBODY, "the task has options of spark-submit: conf", "options of spark-submit: conf"),
        ({**NOBODY, "store_uri": "file://objects"}, "", "store_uri is a relative path"),
        ({"spark_mode": "submit"}, "", "spark_mode is submit"),
    ],
)
def test_a_drain_that_is_submitted_says_why(settings, caplog, values, needs_submit, reason):
    caplog.set_level(logging.INFO)

    assert find_connect(settings(**values), needs_submit=needs_submit) is None

    assert "this drain is submitted to Spark" in caplog.text
    assert reason in caplog.text


def test_a_drain_that_must_use_a_server_fails_if_none_answers(settings):
    with pytest.raises(SparkUnavailable) as raised:
        find_connect(settings(spark_mode="connect", **NOBODY))

    assert raised.value.transient


@pytest.mark.parametrize("values", [{}, {**NOBODY, "store_uri": "file://objects"}])
def test_a_drain_that_must_use_a_server_and_cannot_fails_for_good(settings, values):
    with pytest.raises(SettingsInvalid):
        find_connect(settings(spark_mode="connect", **values))
