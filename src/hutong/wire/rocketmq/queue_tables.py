"""Tables by queue, in bodies of answers: JSON whose keys are objects, as fastjson writes a Java map.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:7}}

No JSON library writes them, and Java's and Go's clients read nothing else.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hutong.wire.rocketmq.bodies import RocketQueue

_encode: Final = msgspec.json.Encoder().encode


def encode_queue_table(name: str, table: Mapping[RocketQueue, Any], **others: Any) -> bytes:
    """A body with a table by queue, and other fields."""
    entries = b",".join([_encode(queue) + b":" + _encode(value) for queue, value in table.items()])
    fields = [_encode(name) + b":{" + entries + b"}"]
    fields += [_encode(other) + b":" + _encode(value) for other, value in others.items()]
    return b"{" + b",".join(fields) + b"}"
