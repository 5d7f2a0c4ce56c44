from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipestream.errors import SettingsInvalid
from pipestream.retention.expire import SHORTEST_GRACE
from pipestream.settings import Settings, load_settings
from pipestream_testing.settings_file import write_settings


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIPESTREAM_CONFIG", raising=False)


def test_without_file_or_environment_the_defaults_hold():
    assert load_settings().kafka_bootstrap == "127.0.0.1:9092"


def test_the_environment_beats_the_file_and_the_file_beats_the_default(monkeypatch, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('s3_region = "east"\nchunk_records = 50\n')
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(file))
    monkeypatch.setenv("PIPESTREAM_CHUNK_RECORDS", "60")

    settings = load_settings()

    assert (settings.s3_region, settings.chunk_records) == ("east", 60)


def test_settings_that_are_written_are_read_back_secrets_included(tmp_path, monkeypatch):
    options = {"security.protocol": "SASL_SSL", "sasl.password": 'quote " and \\'}
    settings = Settings(kafka_options=options, consul_token="token", graphs_folder=tmp_path)
    file = tmp_path / "settings.toml"

    write_settings(file, settings)

    monkeypatch.setenv("PIPESTREAM_CONFIG", str(file))
    assert load_settings() == settings
    assert file.stat().st_mode & 0o077 == 0


def test_the_file_that_up_wrote_is_found_by_itself(tmp_path):
    (tmp_path / ".pipestream").mkdir()
    (tmp_path / ".pipestream" / "stack.toml").write_text('s3_region = "local"\n')

    assert load_settings().s3_region == "local"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PIPESTREAM_CHUNK_RECORDS", "many", "PIPESTREAM_CHUNK_RECORDS: Input should be a valid integer"),
        ("PIPESTREAM_LEASE_TTL_S", "1", "PIPESTREAM_LEASE_TTL_S: Input should be greater than or equal to 3"),
        ("PIPESTREAM_LEASES", "zookeeper", "PIPESTREAM_LEASES: must be one of consul, file, none, sql"),
        ("PIPESTREAM_STORE_URI", "/tmp/x", "store_uri must start with file:// or s3://"),
        ("PIPESTREAM_S3_ACCESS_KEY", "k", "set both or neither"),
        ("PIPESTREAM_KAFKA_BOOTSTRP", "x", "unknown setting PIPESTREAM_KAFKA_BOOTSTRP"),
        ("PIPESTREAM_CONFIG", "nowhere.toml", "PIPESTREAM_CONFIG names nowhere.toml"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_was_expected(monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingsInvalid) as caught:
        load_settings()

    assert expected in str(caught.value)


def test_an_unknown_key_in_the_file_is_refused_by_name(monkeypatch, tmp_path):
    (tmp_path / "my.toml").write_text('kafka_bootstrp = "x"\n')
    monkeypatch.setenv("PIPESTREAM_CONFIG", "my.toml")

    with pytest.raises(SettingsInvalid, match="KAFKA_BOOTSTRP"):
        load_settings()


def test_a_file_that_is_not_toml_is_refused_by_name(monkeypatch, tmp_path):
    (tmp_path / "my.toml").write_text("s3_region = = 3")
    monkeypatch.setenv("PIPESTREAM_CONFIG", "my.toml")

    with pytest.raises(SettingsInvalid, match=r"my\.toml"):
        load_settings()


def test_secrets_do_not_show_when_settings_are_printed():
    settings = Settings(
        postgres_dsn="postgresql://u:hunter2@h/db",
        s3_access_key="AK",
        s3_secret_key="hunter3",
        kafka_options={"sasl.password": "hunter4"},
    )

    assert "hunter" not in repr(settings)
    assert "hunter" not in settings.model_dump_json()


def test_options_of_kafka_are_a_table_in_the_file_with_or_without_quotes(monkeypatch, tmp_path):
    (tmp_path / "my.toml").write_text(
        '[kafka_options]\n"security.protocol" = "SASL_SSL"\nsasl.username = "me"\nsocket.keepalive.enable = true\n'
    )
    monkeypatch.setenv("PIPESTREAM_CONFIG", "my.toml")

    options = load_settings().kafka_options

    assert {name: value.get_secret_value() for name, value in options.items()} == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "me",
        "socket.keepalive.enable": "true",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("{}", {}),
        ('{"sasl.password": "p\\"w", "client.rack": 3}', {"sasl.password": 'p"w', "client.rack": "3"}),
    ],
)
def test_options_of_kafka_are_json_in_the_environment(monkeypatch, text, expected):
    monkeypatch.setenv("PIPESTREAM_KAFKA_OPTIONS", text)

    options = load_settings().kafka_options

    assert {name: value.get_secret_value() for name, value in options.items()} == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hunter2", "must be a JSON object"),
        ('["hunter2"]', "must be a JSON object"),
        ('{"sasl.password": ["hunter2"]}', "sasl.password must be text"),
        (
            '{"sasl.pasword": "hunter2"}',
            "sasl.pasword is not a connection option; did you mean sasl.password?",
        ),
        ('{"hunting": "hunter2"}', "hunting is not a connection option; known are broker.address.family,"),
        (
            '{"security.protocol": "hunter2"}',
            "security.protocol must be one of plaintext, ssl, sasl_plaintext, sasl_ssl",
        ),
        ('{"bootstrap.servers": "hunter2"}', "bootstrap.servers cannot be set: say it with kafka_bootstrap"),
        ('{"group.id": "hunter2"}', "group.id cannot be set: the run chooses it"),
        ('{"transactional.id": "hunter2"}', "transactional.id cannot be set: the run chooses it"),
        ('{"enable.idempotence": false}', "enable.idempotence cannot be set: exactly once rests on it"),
        ('{"isolation.level": "hunter2"}', "isolation.level cannot be set: a range is read"),
    ],
)
def test_options_of_kafka_that_cannot_be_set_are_refused_with_the_reason(monkeypatch, text, reason):
    monkeypatch.setenv("PIPESTREAM_KAFKA_OPTIONS", text)

    with pytest.raises(SettingsInvalid) as caught:
        load_settings()

    assert f"PIPESTREAM_KAFKA_OPTIONS: {reason}" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_refused_setting_does_not_show_its_secrets():
    with pytest.raises(ValidationError) as caught:
        Settings(kafka_options={"sasl.password": "hunter2", "sasl.nonsense": "hunter3"}, s3_access_key="hunter4")

    assert "hunter" not in str(caught.value)


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        load_settings().s3_region = "other"


def test_every_setting_says_what_it_is_for():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_a_wave_of_sub_ranges_is_shorter_than_documents_may_look_unreferenced():
    longest_s = SHORTEST_GRACE.total_seconds() / 2

    assert Settings(sub_range_wave_s=longest_s).sub_range_wave_s == longest_s
    with pytest.raises(ValidationError):
        Settings(sub_range_wave_s=longest_s + 1)
