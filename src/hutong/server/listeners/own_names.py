"""The names by which the settings themselves call a node: browsers may reach it by them.

Knows nothing of HTTP.
"""

from hutong.server.configuration.settings import Address, Settings


def own_names(settings: Settings, listen: Address | None) -> list[str]:
    """The hosts of the listener itself, and of the addresses that Kafka clients learn."""
    addresses = [listen, settings.kafka.advertised]
    names = [address.host for address in addresses if address is not None]
    return [*names, *(text.partition("://")[2].rpartition(":")[0] for text in settings.kafka.advertised_listeners)]
