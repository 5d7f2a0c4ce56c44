"""A client of a Spark Connect server. All drains share one session of a server, whose Python daemon is warm.

A session that somebody has closed is refused forever, so its id has a generation that is counted up.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import grpc
from pyspark.sql.connect.client.core import ChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto import AnalyzePlanRequest, UserContext
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub
from pyspark.sql.connect.session import SparkSession

from pipestream.errors import SparkRefused, SparkUnavailable
from pipestream.rpc.spark_connect import ConnectPlace

log = logging.getLogger(__name__)

# The session's key is the user and the id, so that all drains share one whatever user runs them.
USER = "pipestream"
_NAMESPACE = uuid.UUID("5c2a2f0e-3d3b-4a55-9a54-0a2f8f6d1c11")
# As many closed sessions as a server remembers. After that, it accepts the first one again.
_MOST_GENERATIONS = 1_000
_CLOSED = "SESSION_CLOSED"
_ANSWER_TIMEOUT_S = 60.0
# About 10 s in all. PySpark's own policy tries for ten minutes, and the run would keep its lease all that time.
_RETRIES = DefaultPolicy(max_retries=6, initial_backoff=200, backoff_multiplier=2.0, max_backoff=4_000)


def session_id(generation: int) -> str:
    """Return the id of the session that drains share, the same in every process."""
    return str(uuid.uuid5(_NAMESPACE, f"drains {generation}"))


def open_session(place: ConnectPlace) -> SparkSession:
    """Return a client of the session that all drains share. End it with ``session.client.close()``, never ``stop()``.

    :raises SparkUnavailable: there is no answer in time, or the server cannot open a session.
    :raises SparkRefused: it does not accept the token.
    """
    builder = _Channel(place)
    try:
        builder.set(ChannelBuilder.PARAM_SESSION_ID, session_id(_find_generation(builder)))
    except BaseException:
        builder.channel.close()
        raise
    session = SparkSession(builder)  # type: ignore[arg-type] # PySpark's hint is narrower than what it takes
    session.client.set_retry_policies([_RETRIES])
    return session


def _find_generation(builder: _Channel) -> int:
    """Return the first generation whose session is open, or can be opened."""
    stub = SparkConnectServiceStub(builder.channel)  # type: ignore[no-untyped-call]
    for generation in range(_MOST_GENERATIONS):
        request = AnalyzePlanRequest(
            session_id=session_id(generation),
            user_context=UserContext(user_id=USER),
            spark_version=AnalyzePlanRequest.SparkVersion(),
        )
        try:
            stub.AnalyzePlan(request, timeout=_ANSWER_TIMEOUT_S)
        except grpc.RpcError as error:
            if _CLOSED not in (error.details() or ""):
                raise _explain(builder.host, error) from error
            log.info("the shared Spark session %d was closed by somebody; trying the next", generation)
        else:
            return generation
    raise SparkUnavailable(builder.host, f"all its {_MOST_GENERATIONS} sessions were closed; restart it")


def _explain(address: str, error: Any) -> SparkRefused | SparkUnavailable:
    if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return SparkRefused(address, error.details())
    return SparkUnavailable(address, f"{error.code().name}: {error.details()}")


class _Channel(ChannelBuilder):
    """Gives PySpark our channel. Its own one sends a token only to localhost or by TLS with the system's CAs."""

    def __init__(self, place: ConnectPlace) -> None:
        super().__init__(params={ChannelBuilder.PARAM_USER_ID: USER})
        self._place = place
        self.channel = place.channel()

    @property
    def host(self) -> str:
        return self._place.address

    @property
    def token(self) -> None:
        """None for PySpark: the channel sends it."""

    def toChannel(self) -> grpc.Channel:  # noqa: N802
        return self.channel
