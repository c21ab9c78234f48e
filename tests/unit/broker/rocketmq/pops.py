"""Pops for tests: requests, and receipts as Java's client makes them."""

from typing import Any

from tests.unit.broker.rocketmq.scene import RocketClient

from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import StoredMessage, decode_messages

LONG_MS = 300_000
FIRST = 0  # an initMode


def pop_fields() -> dict[str, Any]:
    return {
        "consumerGroup": "g", "topic": "t", "queueId": -1, "maxMsgNums": 32, "invisibleTime": LONG_MS,
        "pollTime": 20_000, "bornTime": 0, "initMode": FIRST, "expType": "TAG", "exp": "*",
    }  # fmt: skip


async def pop(client: RocketClient, **fields: Any) -> Command:
    return await client.ask_with(RequestCode.POP_MESSAGE, {**pop_fields(), **fields})


class Popped:
    """A message and its receipt, as Java's client makes it."""

    def __init__(self, message: StoredMessage, answer: Command) -> None:
        fields = answer.ext()
        start = next(
            int(each.split(" ")[2])
            for each in fields["startOffsetInfo"].split(";")
            if each.split(" ")[1] == str(message.queue_id)
        )
        self.message = message
        self.body = bytes(message.body)
        self.place = (message.queue_id, message.queue_offset)
        self.times = message.reconsume_times
        self.receipt = (
            f"{start} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 hutong {message.queue_id} "
            f"{message.queue_offset}"
        )

    async def settle(self, client: RocketClient, code: int, **more: object) -> Command:
        queue_id, offset = self.place
        fields = {"consumerGroup": "g", "topic": "t", "queueId": queue_id, "offset": offset, **more}
        return await client.ask_with(code, {**fields, "extraInfo": self.receipt})

    async def acknowledge(self, client: RocketClient) -> int:
        return (await self.settle(client, RequestCode.ACK_MESSAGE)).code


def receipts_of(answer: Command) -> list[Popped]:
    """The messages of an answer; checks that it lists them all."""
    found = [Popped(message, answer) for message in decode_messages(answer.body)]
    listed: dict[int, list[int]] = {}
    for each in answer.ext()["msgOffsetInfo"].split(";"):
        _, queue_id, offsets = each.split(" ")
        listed[int(queue_id)] = [int(offset) for offset in offsets.split(",")]
    assert [each.place for each in found] == [(queue, offset) for queue in listed for offset in listed[queue]]
    return found


async def popped(client: RocketClient, **fields: Any) -> list[Popped]:
    answer = await pop(client, **fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return receipts_of(answer)
