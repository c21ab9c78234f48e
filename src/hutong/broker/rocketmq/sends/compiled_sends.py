"""The compiled pass over plain requests to send, where the installation could build it (`_plain_send.c`).

Strategy: it reads many frames by one call, and makes of each the record that `packing.py` makes. It stops in front of
a frame that is cut off or out of the ordinary, such as one with a remark or a text that it leaves to Python. All that
it takes, `plain_send` takes as well, and makes the same of it.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from hutong.broker.rocketmq.records import packing
from hutong.foundation.compiled import compiled_module
from hutong.wire.buffer import Buffer

CONTRACT: Final = 1
"""Number of the contract with the compiled pass: a change of arguments, results or rules counts one up in both."""


class FoundSend(NamedTuple):
    """One request, as the pass returns it: a plain tuple of these."""

    frame_end: int  # where the next frame begins
    place: bytes  # the topic, a zero, and the digits of the queue
    form: int  # of the header, and so of the answer
    code: int
    opaque: int
    tail: bytes  # see `record_tail`
    body_bytes: int


_compiled: Final[Any] = compiled_module("hutong.broker.rocketmq.sends._plain_send", CONTRACT)
found_sends: Final = cast(
    Callable[[Buffer, bytes, int], list[FoundSend]] | None, None if _compiled is None else _compiled.plain_sends
)
"""The requests at the beginning of what a connection has read, given `origin_end` and how many are enough at most."""
joined_records: Final[Callable[[list[bytes]], bytes]] = (
    packing.joined_records if _compiled is None else _compiled.joined_records
)
