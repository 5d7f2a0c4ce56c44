from __future__ import annotations

import importlib
import json
import sys

import pytest

from pipestream.cli.main import main
from pipestream.connectors.registry import make_connector
from pipestream.errors import ConnectorInvalid, GraphInvalid, PluginBroken, SettingsInvalid
from pipestream.graph.load import check_graph_text
from pipestream.graph.model import Connector
from pipestream.leases import open_lease_store
from pipestream.modules.module import ModuleContext
from pipestream.modules.remote import GrpcModule
from pipestream.modules.resolve import parse_module, resolve_module
from pipestream.modules.transports import EngineAddress, open_transport, parse_engine
from pipestream.plugins import PluginContext, PluginGroup, find_plugin
from pipestream.plugins.registry import list_plugins
from pipestream.settings import Settings, load_settings
from pipestream.wire import PipeDoc
from pipestream_testing.acme import install_acme

GRAPH = b"""
graph: g
cluster: main
datasources:
  - {id: d, account: acme, entry: shout, connector: {kind: acme-lines, file: lines.txt}}
nodes:
  - {id: shout, module: "acme:shout"}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return install_acme(tmp_path_factory.mktemp("acme"))


@pytest.fixture
def acme(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("acme_plugins", None)


@pytest.fixture
def context():
    return PluginContext(Settings(plugin_secrets={"acme.token": "open sesame"}))


def problems(text: bytes) -> list[str]:
    return [str(problem) for problem in check_graph_text(text, "g.yaml", look_up=True).problems]


@pytest.mark.usefixtures("acme")
def test_a_factory_gets_the_options_the_settings_and_its_secret(context):
    connector = make_connector(Connector("acme-lines", {"file": "lines.txt"}), context)

    assert connector.file == context.settings.sources_folder / "lines.txt"
    assert connector.token == "open sesame"


@pytest.mark.usefixtures("acme")
def test_a_secret_that_is_not_set_is_named_with_the_setting():
    with pytest.raises(SettingsInvalid, match=r"'acme\.token' is not set; add it to the setting plugin_secrets"):
        make_connector(Connector("acme-lines", {"file": "x"}), PluginContext(Settings()))


@pytest.mark.usefixtures("acme")
def test_what_a_factory_refuses_is_reported_as_the_graphs_fault(context):
    with pytest.raises(ConnectorInvalid, match="acme-lines connector: file is missing; name the file"):
        make_connector(Connector("acme-lines", {}), context)
    with pytest.raises(GraphInvalid, match="'acme:whisper' is not a module: acme has no 'whisper'; it has shout"):
        resolve_module("acme:whisper", context)


@pytest.mark.usefixtures("acme")
def test_a_module_kind_makes_modules(context):
    module = resolve_module("acme:shout", context)
    document = PipeDoc()
    document.search_metadata.title = "hello"

    (produced,) = module.process(document, ModuleContext("g", "n", "s"))

    assert produced.search_metadata.title == "HELLO"


@pytest.mark.usefixtures("acme")
def test_a_graph_may_name_what_is_installed_and_is_told_what_is_wrong_with_it(monkeypatch):
    monkeypatch.setenv("PIPESTREAM_PLUGIN_SECRETS", '{"acme.token": "x"}')

    assert problems(GRAPH) == []
    assert problems(GRAPH.replace(b"acme:shout", b"acme:sing"))[0].startswith("g.yaml:7: nodes[0].module: 'acme:sing'")
    assert "cannot be imported: ModuleNotFoundError" in problems(GRAPH.replace(b"acme-lines", b"acme-broken"))[0]


@pytest.mark.usefixtures("acme")
def test_reading_a_graph_without_looking_things_up_imports_no_plugin():
    assert check_graph_text(GRAPH, "g.yaml").problems == ()
    assert parse_module("acme:anything").kind == "acme"
    assert "acme_plugins" not in sys.modules


def test_a_graph_that_names_what_is_not_installed_is_refused():
    assert any("'acme:shout' is not a module" in problem for problem in problems(GRAPH))
    assert any("there is no connector 'acme-lines'; there are: csv, " in problem for problem in problems(GRAPH))


@pytest.mark.usefixtures("acme")
def test_a_broken_plugin_breaks_only_its_own_use(context):
    with pytest.raises(PluginBroken, match=r"the connector 'acme-broken' of package acme-plugins 1\.2\.3 cannot be"):
        make_connector(Connector("acme-broken", {}), context)

    assert make_connector(Connector("folder", {"path": "x"}), context)


@pytest.mark.usefixtures("acme")
def test_a_built_in_name_cannot_be_taken(context):
    module = resolve_module("grpc:127.0.0.1:1", context)

    assert isinstance(module, GrpcModule)
    module.close()


@pytest.mark.usefixtures("acme")
def test_a_lease_store_is_chosen_by_the_setting(monkeypatch):
    monkeypatch.setenv("PIPESTREAM_LEASES", "acme-memory")

    store = open_lease_store(load_settings())

    assert type(store).__name__ == "NoLeaseStore"


def test_a_lease_store_that_is_not_installed_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setenv("PIPESTREAM_LEASES", "acme-memory")

    with pytest.raises(SettingsInvalid, match=r"PIPESTREAM_LEASES: .*must be one of consul, file, none, sql"):
        load_settings()


@pytest.mark.usefixtures("acme")
def test_the_command_lists_every_plugin_with_its_package_and_what_is_wrong_with_it(capsys):
    code = main(["plugins", "--json"])

    rows = {(row["kind"], row["name"], row["package"]): row for row in json.loads(capsys.readouterr().out)}
    assert code == 2
    assert rows["connector", "acme-lines", "acme-plugins"]["version"] == "1.2.3"
    assert rows["connector", "acme-lines", "acme-plugins"]["error"] == ""
    assert "ModuleNotFoundError" in rows["connector", "acme-broken", "acme-plugins"]["error"]
    assert "never used: grpc is built in" in rows["module kind", "grpc", "acme-plugins"]["error"]
    assert rows["lease store", "sql", "pipestream-airflow"]["error"] == ""


def test_everything_that_is_built_in_can_be_loaded():
    for group in PluginGroup:
        for plugin in list_plugins(group):
            assert callable(plugin.load()), plugin


@pytest.mark.usefixtures("acme")
def test_a_transport_is_named_by_the_nodes_engine(context):
    transport = open_transport("acme-file://out.txt", context)

    assert type(transport).__name__ == "FileTransport"
    assert parse_engine("acme-file://out.txt") == EngineAddress("acme-file", "out.txt")


@pytest.mark.usefixtures("acme")
def test_a_transport_that_takes_no_deadline_is_refused_before_the_first_document(context, monkeypatch):
    transport = importlib.import_module("acme_plugins").FileTransport
    closed = []
    monkeypatch.setattr(transport, "process", lambda self, stream, idempotency_key, timeout_s: None)
    monkeypatch.setattr(transport, "close", lambda self: closed.append(self))

    with pytest.raises(PluginBroken, match=r"FileTransport\.process does not take a deadline; let it be process\("):
        open_transport("acme-file://out.txt", context)

    assert len(closed) == 1
    text = GRAPH.replace(b"nodes:\n", b"nodes:\n  - {id: away, type: connector, engine: 'acme-file://out.txt'}\n")
    assert any("does not take a deadline" in problem and "nodes[0].engine" in problem for problem in problems(text))


def test_an_engine_is_host_and_port_unless_it_names_a_transport():
    assert parse_engine("acme-file:50051") == EngineAddress("grpc", "acme-file:50051")


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("acme-file:///out.txt", "cannot be used: the file must be relative to sources_folder"),
        ("elsewhere://x", "is not an address (write HOST:PORT or acme-file://TARGET)"),
        ("grpc://host:1", "is not an address"),
    ],
)
def test_a_graph_with_an_engine_that_cannot_be_is_refused(engine, told):
    text = GRAPH.replace(b"nodes:\n", b"nodes:\n  - {id: away, type: connector, engine: '%s'}\n" % engine.encode())

    assert any(told in problem and "nodes[0].engine" in problem for problem in problems(text))


def test_a_name_that_nobody_provides_is_not_a_plugin():
    assert find_plugin(PluginGroup.CONNECTOR, "ftp") is None


@pytest.mark.usefixtures("acme")
def test_two_packages_with_one_name_are_named(installed, tmp_path, monkeypatch):
    other = tmp_path / "other_acme-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-acme\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[pipestream.connectors]\nacme-lines = other:open\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(PluginBroken, match="both acme-plugins and other-acme provide it; uninstall one of them"):
        find_plugin(PluginGroup.CONNECTOR, "acme-lines")
