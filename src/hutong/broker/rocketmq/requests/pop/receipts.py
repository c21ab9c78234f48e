"""Receipts of popped messages, by which a client acknowledges them.

    extraInfo of an acknowledgement   start offset, time of the pop, invisible time, receipt number, kind of topic,
                                      broker, queue, queue offset; with a space between
    startOffsetInfo of a pop          for each queue: kind of topic, queue, its first offset
    msgOffsetInfo of a pop            for each queue: kind of topic, queue, all offsets with commas

A client makes the first of the other two. RocketMQ has the number of a queue of its own at the place of the receipt
number. The kind of topic is 0 here: 1 and 2 are topics of retries, and messages come again in their own queue.

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from hutong.broker.rocketmq.context import checked_integer

NUMBER_MASK: Final = 2**31 - 1
NODES_APART: Final = 16  # of a cluster, each with numbers of its own
_NUMBER_AT: Final = 3
_NORMAL_TOPIC: Final = 0


def numbers_of(node_id: int) -> Iterator[int]:
    """The receipt numbers of a node: an old receipt of a leader that died must not be one of the next leader's."""
    return count(node_id % NODES_APART * ((NUMBER_MASK + 1) // NODES_APART))


def member_of(number: int) -> str:
    """The member of the share group that holds the messages of a pop."""
    return f"pop-{number}"


def number_of(extra_info: str) -> int:
    """The receipt number. Raises RocketRefused."""
    parts = extra_info.split(" ", _NUMBER_AT + 1)
    return checked_integer("extraInfo", parts[_NUMBER_AT] if len(parts) > _NUMBER_AT else None, 32)


def offset_fields(offsets: Mapping[int, Sequence[int]]) -> dict[str, str]:
    """The fields of a pop's answer that tell which offsets it has, by queue."""
    starts = [f"{_NORMAL_TOPIC} {queue_id} {all_of_it[0]}" for queue_id, all_of_it in offsets.items()]
    lists = [f"{_NORMAL_TOPIC} {queue_id} {','.join(map(str, all_of_it))}" for queue_id, all_of_it in offsets.items()]
    return {"startOffsetInfo": ";".join(starts), "msgOffsetInfo": ";".join(lists), "orderCountInfo": ""}
