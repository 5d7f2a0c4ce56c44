from __future__ import annotations

import pytest

from pipestream.errors import SettingsInvalid, SparkUnavailable
from pipestream.rpc.spark_connect import ConnectPlace, connect_place
from pipestream.settings import Settings, load_settings


def place_of(url, **others):
    return connect_place(Settings(spark_connect_url=url, **{"spark_connect_token": "s3cr3t", **others}))


def test_a_server_on_this_machine_is_reached_in_plain_text():
    found = place_of("sc://127.0.0.1:25002")

    assert (found.address, found.ca, found.token) == ("127.0.0.1:25002", None, "s3cr3t")


def test_a_server_on_another_machine_is_reached_by_tls(tmp_path):
    found = place_of("sc://spark.internal", grpc_ca_file=tmp_path / "ca.pem")

    assert (found.address, found.ca) == ("spark.internal:15002", tmp_path / "ca.pem")


def test_without_a_ca_another_machine_is_refused():
    with pytest.raises(SettingsInvalid, match="grpc_ca_file"):
        place_of("sc://spark.internal:443")


def test_plain_text_to_another_machine_has_to_be_asked_for():
    assert place_of("sc://spark:15002/;use_ssl=false").ca is None


def test_a_server_without_a_token_is_refused():
    with pytest.raises(SettingsInvalid, match="spark_connect_token"):
        place_of("sc://127.0.0.1:25002", spark_connect_token=None)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "sc://h:1/;token=abc", "sc://user@h:1", "sc://h:1/;user_id=a"])
def test_a_url_with_anything_else_is_refused(url):
    with pytest.raises(SettingsInvalid, match="SPARK_CONNECT_URL"):
        load_settings(spark_connect_url=url)


def test_no_url_means_no_server():
    assert connect_place(Settings()) is None


def test_the_token_is_not_in_what_is_printed():
    assert "s3cr3t" not in repr(place_of("sc://127.0.0.1:25002"))


def test_where_nothing_listens_the_check_says_so_at_once():
    with pytest.raises(SparkUnavailable, match=r"no Spark Connect server answers at 127\.0\.0\.1:1"):
        ConnectPlace("127.0.0.1", 1, token="t").check()
