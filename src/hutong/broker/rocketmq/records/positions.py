"""Physical offsets and ids of messages.

RocketMQ's messages are at a physical offset of the commit log, by which clients name them again. Ours are at an offset
of a partition's log, and each log has a number that is never used again. So a physical offset is both: the upper 23
bits number the log, the lower 40 are the offset in it. No index is needed to find a message by it.

The id of a message, which clients call offsetMsgId, has the address of its node and its physical offset, in hex.
"""

from typing import Final

from hutong.wire.rocketmq.messages import Host

OFFSET_BITS: Final = 40
LOG_IDS_MAX: Final = 1 << 23  # a physical offset is positive in 64 bits
_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1


def physical_offset(log_id: int, offset: int) -> int:
    """The physical offset of a record."""
    return log_id << OFFSET_BITS | offset & _OFFSET_MASK


def log_and_offset(physical: int) -> tuple[int, int]:
    """The number of the log and the offset in it."""
    return physical >> OFFSET_BITS, physical & _OFFSET_MASK


def message_id(store_host: Host, physical: int) -> str:
    """The id of a message that is stored at this node."""
    return (store_host.address + store_host.port.to_bytes(4, "big") + physical.to_bytes(8, "big")).hex().upper()
