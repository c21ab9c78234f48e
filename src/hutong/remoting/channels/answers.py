"""Answers: those that a side gives by itself, and the values that processors return.

A processor's answer is one of: a list of buffers, which is a whole frame such as `encode_binary` makes (the shortest
way; opaque and flag are the processor's to set); a `Command`, which is given the opaque and the form of its request;
a `Pending`, to be completed with one of these, or with None if no answer will come after all, which counts against the
peer's `unanswered_max`; None, when nothing is to be answered, or the processor answers by `channel.answer` and keeps
count of what it owes by itself. What comes of a oneway request is dropped.

Knows nothing of connections.
"""

from typing import Final, TypeAlias

from hutong.foundation.waiting.pending import Pending
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import IS_RESPONSE, Command, encode

SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
SYSTEM_BUSY: Final = 2
NOT_SUPPORTED: Final = 3
REMARK_MAX: Final = 1_024  # characters of an error's text


ReadyAnswer: TypeAlias = list[Buffer] | Command | None
Answer: TypeAlias = ReadyAnswer | Pending[ReadyAnswer]


def refusal(code: int, text: str) -> Command:
    """An answer that says why there is none."""
    return Command(code, remark=text[:REMARK_MAX])


def frame_of(answer: Command, request: Command) -> list[Buffer]:
    """The answer as a frame that belongs to the request, and in its form."""
    answer.opaque = request.opaque
    answer.flag |= IS_RESPONSE
    return encode(answer, serialization=request.serialization)
