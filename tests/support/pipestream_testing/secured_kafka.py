"""A broker of a test's own, which lets in nobody without TLS and a password."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from pipestream.local.java import find_java_home
from pipestream.local.kafka import Kafka
from pipestream.local.ports import HOST, resolve_ports
from pipestream.local.server import Site
from pipestream.local.spec import load_spec
from pipestream.local.starter import Starter, stop_servers
from pipestream.local.state import NO_SECRETS, StackState, state_file, write_state
from pipestream.local.tools import run_tool

USER = "pipestream"
PASSWORD = "open sesame & more"
LIMITED_USER = "limited"
"""May do nothing but what a test grants it; the other one may do everything."""
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecuredKafka(Kafka):
    """As the stack's, but that clients and the broker itself come in over TLS, with a name and a password."""

    @property
    def options(self) -> Mapping[str, str]:
        """Return what a client needs as ``kafka_options``."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def initialise(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        keytool = str(find_java_home() / "bin" / "keytool")
        store = ["-keystore", str(self._key_store), "-storepass", PASSWORD, "-alias", "broker"]
        names = ["-dname", "CN=broker", "-ext", f"san=ip:{HOST}"]
        key = ["-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", *names]
        run_tool([keytool, *key, *store], "making the broker's key")
        run_tool([keytool, "-exportcert", "-rfc", "-file", str(self._certificate), *store], "making its certificate")
        super().initialise()

    def check(self) -> None:
        AdminClient({"bootstrap.servers": self.address, "log_level": 0, **self.options}).list_topics(timeout=2)

    @property
    def _key_store(self) -> Path:
        return self._folder / "broker.p12"

    @property
    def _certificate(self) -> Path:
        return self._folder / "broker.pem"

    def _properties(self) -> dict[str, str | int]:
        login = f'{_LOGIN} required username="{USER}" password="{PASSWORD}" '
        login += f'user_{USER}="{PASSWORD}" user_{LIMITED_USER}="{PASSWORD}";'
        return super()._properties() | {
            "listeners": f"SECURED://{self.address},CONTROLLER://{HOST}:{self.site.ports.kafka_controller}",
            "advertised.listeners": f"SECURED://{self.address}",
            "inter.broker.listener.name": "SECURED",
            "listener.security.protocol.map": "SECURED:SASL_SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller's listener knows no names.
            "super.users": f"User:{USER};User:ANONYMOUS",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._key_store),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._certificate),
        }


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Have such a broker up inside the block, on free ports."""
    spec = load_spec(profile="embedded", folder=folder, free_ports=True, durable=False)
    site = Site(spec, resolve_ports(spec.ports, Kafka.port_names), NO_SECRETS)
    broker, state = SecuredKafka(site), state_file(folder)
    broker.fetch(print)
    write_state(state, StackState(spec.profile, spec.airflow, site.ports))
    try:
        Starter(state, print).start([broker])
        yield broker
    finally:
        stop_servers([broker], state, print)
