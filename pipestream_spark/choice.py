"""Choose how a drain on Spark runs: on a Spark Connect server that is up, or by a spark-submit of its own."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.errors import ExtraMissing, PipestreamError, SettingsInvalid
from pipestream.rpc.spark_connect import connect_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.rpc.spark_connect import ConnectPlace
    from pipestream.settings import Settings
    from pipestream_spark.connect_runner import ConnectRunner

log = logging.getLogger("pipestream.drain")


def find_connect(
    settings: Settings, *, needs_submit: str = "", variables: Mapping[str, str] | None = None
) -> ConnectRunner | None:
    """Return a runner on the Spark Connect server, or None: the drain is to be submitted. The log says which, and why.

    :param needs_submit: why only a spark-submit can do it; empty if both can.
    :param variables: settings that are not in the environment. Those that are not secret go to the server's workers.
    :raises SettingsInvalid: the setting is ``connect``, and the drain cannot run there.
    :raises SparkRefused: the same, and the server does not accept the token.
    :raises SparkUnavailable: the same, and the server does not answer.
    """
    if settings.spark_mode == "submit":
        log.info("this drain is submitted to Spark: spark_mode is submit")
        return None
    try:
        place = _place(settings, needs_submit)
        place.check()
        runner = _open_runner(place, settings, variables)
    except PipestreamError as error:
        if settings.spark_mode == "connect":
            raise
        log.info("this drain is submitted to Spark, because it cannot use a Spark Connect server: %s", error)
        return None
    log.info("this drain runs on the Spark Connect server at %s", place.address)
    return runner


def _place(settings: Settings, needs_submit: str) -> ConnectPlace:
    if needs_submit:
        raise SettingsInvalid(needs_submit)
    place = connect_place(settings)
    if place is None:
        raise SettingsInvalid("spark_connect_url is not set, so there is no Spark Connect server")
    _, _, path = settings.store_uri.partition("file://")
    if path and not Path(path).is_absolute():
        raise SettingsInvalid(
            "store_uri is a relative path, and the workers of a Spark Connect server have another working folder; make "
            "it absolute"
        )
    return place


def _open_runner(place: ConnectPlace, settings: Settings, variables: Mapping[str, str] | None) -> ConnectRunner:
    # Only here: without a server, PySpark's second of imports is not needed in this process.
    try:
        from pipestream_spark.connect import open_session
        from pipestream_spark.connect_runner import ConnectRunner
    except ImportError as error:
        raise ExtraMissing("spark", error.name or "pyspark") from error
    return ConnectRunner(open_session(place), settings, variables)
