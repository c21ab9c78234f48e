"""What the compiled pass takes of some frames, checked against Python's test of each request."""

from hutong.broker.rocketmq.records.translation import origin_end
from hutong.broker.rocketmq.sends import compiled_sends
from hutong.broker.rocketmq.sends.compiled_sends import FoundSend
from hutong.broker.rocketmq.sends.plain_send import plain_send
from hutong.wire.rocketmq.command import IS_RESPONSE, decode
from hutong.wire.rocketmq.messages import Host

LENGTH_BYTES = 4
BORN_HOST = Host(bytes([127, 0, 0, 1]), 5_000)


def taken(data: bytes, frames_max: int = 1_000) -> list[FoundSend]:
    """The messages that are taken. Raises AssertionError where Python makes something else of one."""
    assert compiled_sends.found_sends is not None, "it is compiled"
    found = [FoundSend(*each) for each in compiled_sends.found_sends(data, origin_end(BORN_HOST), frames_max)]
    at = 0
    for each in found:
        frame = data[at + LENGTH_BYTES : each.frame_end]
        assert len(frame) == int.from_bytes(data[at : at + LENGTH_BYTES], "big")
        command = decode(frame)
        assert not command.flag & IS_RESPONSE
        assert plain_send(command, BORN_HOST) == (each.place, each.tail)
        assert (command.serialization, command.code, command.opaque) == (each.form, each.code, each.opaque)
        assert len(command.body) == each.body_bytes
        at = each.frame_end
    return found
