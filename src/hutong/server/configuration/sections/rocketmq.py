"""The listener for RocketMQ's clients."""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import Address, setting


@dataclass(frozen=True, slots=True)
class RocketMqSettings:
    """The listener for RocketMQ's clients, which find name server and broker there."""

    listen: Address | None = setting(None, "HOST:PORT where they connect; nothing listens where it is not set.")
    advertised: Address | None = setting(None, "HOST:PORT that routes name, where clients reach the node elsewhere.")
    cluster_name: str = setting("DefaultCluster", "The name of the cluster in routes, as `mqadmin -c` takes it.")
    broker_name: str = setting("hutong", "The name of this broker in routes and in the queues of clients.")
