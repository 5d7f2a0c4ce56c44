"""How long servers may take to stop. Killed earlier, they would leave work behind."""

from __future__ import annotations

from collections.abc import Callable

from pipestream.errors import SettingsInvalid
from pipestream.settings import Settings, load_settings

# For what is not calls: connections, leases, the last spans, a busy machine.
_SPARE_S = 10.0
# A parent is given that much longer than its workers, so that it is still there to kill those that hang.
_PARENT_S = 5.0


def worker_stop_s(server: str, settings: Settings) -> float:
    """Return how long one process of a server may take to finish what it has accepted.

    A server of another name, which has a command of its own, may take as long as the slowest of ours.
    """
    calls_s = settings.grpc_stop_s
    slots_s = settings.sidecar_stop_s
    needed = {
        # Calls first, then the slots that they use.
        "engine": calls_s + calls_s,
        # gRPC first, then HTTP.
        "repository": calls_s + calls_s,
        "sidecar": slots_s + calls_s,
        "stream": slots_s,
    }
    return needed.get(server, max(needed.values())) + _SPARE_S


def server_stop_s(server: str, settings: Settings) -> float:
    """Return how long a server may take as a whole: its workers, and the parent that waits for them."""
    return worker_stop_s(server, settings) + _PARENT_S


def stop_time_s(server: str, warn: Callable[[str], None] = lambda _: None) -> float:
    """Return how long a server that is to be stopped now may take.

    :param warn: told if the settings cannot be read. They must not keep a server up, so it gets the default time.
    """
    try:
        return server_stop_s(server, load_settings())
    except SettingsInvalid as error:
        warn(f"servers get the default time to stop, because the settings are not valid: {error}")
        return server_stop_s(server, Settings.model_construct())
