"""The names by which browsers may reach a node, and the pages that may use it.

Strategy: a listener of this machine alone has names that are known, so a stranger's name that was rebound to it is
refused. One of a network has any name that its clients know, unless the settings list them.

Decides nothing about requests.
"""

from collections.abc import Sequence

from hutong.reactor.accept.exposure import is_local
from hutong.server.configuration.settings import Address, Settings
from hutong.web.visitors import EVERYBODY, Visitors


def visitors_of(
    settings: Settings, listen: Address, *, hosts: Sequence[str], origins: Sequence[str] = (), is_secure: bool
) -> Visitors:
    """The visitors of a listener for HTTP. `hosts` and `origins` are those of its settings."""
    names = [*hosts, *own_names(settings, listen)] if hosts or is_local(listen.host) else [EVERYBODY]
    return Visitors(origins, names, is_secure=is_secure)


def own_names(settings: Settings, listen: Address | None) -> list[str]:
    """The hosts of the listener itself, and of the addresses that Kafka clients learn."""
    addresses = [listen, settings.kafka.advertised]
    names = [address.host for address in addresses if address is not None]
    return [*names, *(text.partition("://")[2].rpartition(":")[0] for text in settings.kafka.advertised_listeners)]
