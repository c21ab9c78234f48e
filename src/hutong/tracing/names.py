"""Names of OpenTelemetry's semantic conventions that are used here, and how many values an attribute may have.

The conventions for messaging and RPC are still called experimental, so their names are written out here, in one place,
instead of imported from a package that renames them. (https://opentelemetry.io/docs/specs/semconv/messaging/, .../rpc/)
"""

from typing import Final

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
OFFSET: Final = "messaging.kafka.offset"
CLIENT_ID: Final = "messaging.client.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
ATTEMPT: Final = "hutong.attempt"
"""Our own: from 2, where a durable message is handled again."""
ERROR_TYPE: Final = "error.type"
PEER_ADDRESS: Final = "network.peer.address"
PEER_PORT: Final = "network.peer.port"

RPC_SYSTEM: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS: Final = "rpc.response.status_code"

BUS: Final = "hutong"
KAFKA: Final = "kafka"
SEND: Final = "send"
REQUEST: Final = "request"
PUBLISH: Final = "publish"
PROCESS: Final = "process"
OTHER: Final = "_OTHER"
NAMES_MAX: Final = 1_000  # destinations, and methods, that metrics distinguish


class BoundedNames:
    """Admit a bounded number of names; any other becomes OTHER."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= NAMES_MAX:
                return OTHER
            self._known.add(name)
        return name
