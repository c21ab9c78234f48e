"""The description of a node in its registration: its addresses, its rack and its disk.

Knows nothing of where registrations are kept.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from hutong.foundation.errors import ProtocolError

DESCRIPTION_BYTES_MAX: Final = 16 * 1024


class HostPort(msgspec.Struct, frozen=True):
    """An address that others reach."""

    host: str
    port: int


class DiskSpace(msgspec.Struct, frozen=True):
    """The disk with a node's data, some time ago. One that is short has no room for new replicas."""

    total_bytes: int
    free_bytes: int
    is_short: bool = False


class NodeDescription(msgspec.Struct, frozen=True):
    """`peer` is for other nodes, `listeners` are those for Kafka clients, by their names.

    A node that `lacks_metadata` can do nothing in the cluster until it is started again: its journal has failed, or its
    disk is empty although it is in the metadata's set. So it begins where the disk is empty and the set is not known.
    `origin` is the number of its disk: another one after its data folder was lost.
    `unlinked` are the nodes that are registered, and that it has had no link with for a while.
    """

    peer: HostPort
    listeners: dict[str, HostPort]
    rack: str | None = None
    version: str = ""
    lacks_metadata: bool = False
    disk: DiskSpace | None = None  # None: an older version, which does not say
    unlinked: tuple[int, ...] = ()  # an older version does not say either
    origin: int | None = None  # the same


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node that is registered."""

    node: int
    incarnation: int
    description: NodeDescription


def encode_description(description: NodeDescription) -> bytes:
    return msgspec.json.encode(description)


def decode_description(content: bytes) -> NodeDescription:
    """Raises ProtocolError for what no node has written."""
    if len(content) > DESCRIPTION_BYTES_MAX:
        raise ProtocolError(f"a node's description of {len(content)} bytes")
    try:
        return msgspec.json.decode(content, type=NodeDescription)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"a node's description is none: {error}") from None
