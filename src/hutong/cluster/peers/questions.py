"""Questions and answers as commands, and back.

Strategy: the code of a question is the code of its command, and its fields are ext fields. An answer has code 0, or one
of `PeerAnswerCode`. A refusal has its wire error code as a field and its message as the remark.

Knows nothing of connections, nor of what is asked.
"""

from enum import IntEnum
from typing import Final, Protocol

from hutong.cluster.peers.figures import PeerFigures
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.port import PeerAsked, PeerMessage
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import (
    NOT_SUPPORTED,
    REMARK_MAX,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    Answer,
    ReadyAnswer,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.command import FRAME_BYTES_MAX, HEADER_BYTES_MAX, Command

QUESTION_CODE_MIN: Final = 1
QUESTION_CODE_MAX: Final = 0x3FFF
BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - HEADER_BYTES_MAX - 4
"""Of a question or an answer: 15 MiB."""
_CODE_FIELD: Final = "code"
_CODE_CHARACTERS_MAX: Final = 11


class PeerAnswerCode(IntEnum):
    """The code of a command that answers. Those but the last are of remoting itself."""

    ANSWERED = 0
    FAILED = SYSTEM_ERROR
    BUSY = SYSTEM_BUSY
    UNKNOWN = NOT_SUPPORTED
    REFUSED = 4


_ERROR_OF: Final = {
    PeerAnswerCode.FAILED: ErrorCode.UNKNOWN_SERVER_ERROR,
    PeerAnswerCode.BUSY: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    PeerAnswerCode.UNKNOWN: ErrorCode.UNSUPPORTED_VERSION,
}
"""The wire error code of an answer that has none of its own."""


class QuestionOwner(Protocol):
    """The link of a question. `owed` counts those that are not answered yet."""

    owed: int

    @property
    def partner(self) -> PeerIdentity: ...

    @property
    def figures(self) -> PeerFigures: ...


def check_question_code(code: int) -> None:
    """Raises ValueError for a code that is no question's."""
    if not QUESTION_CODE_MIN <= code <= QUESTION_CODE_MAX:
        raise ValueError(f"the code of a question is {QUESTION_CODE_MIN} to {QUESTION_CODE_MAX}, not {code}")


def answering(asked: PeerAsked, command: Command, link: QuestionOwner, questions_max: int) -> Answer:
    """The answer to a question, at once or later. Raises ProtocolError."""
    question, figures = question_of(command), link.figures
    figures.questions_in_total += 1
    figures.bytes_in_total += len(question.body)
    if link.owed >= questions_max:
        return answer_command(LimitExceeded("questions_max", questions_max))
    answer: Pending[ReadyAnswer] = Pending()
    link.owed += 1

    def then(outcome: PeerMessage | HutongError) -> None:
        link.owed -= 1
        answered = answer_command(outcome)
        figures.bytes_out_total += len(answered.body)
        answer.complete(answered)

    try:
        asked(link.partner.node, question, then)
    except Refused as error:
        then(error)
    # The endpoint answers for it, and nobody calls `then` any more.
    except Exception:
        link.owed -= not answer.is_complete
        raise
    return answer


def too_large(message: PeerMessage) -> Refused:
    """The refusal of a body that no frame has room for."""
    text = f"{len(message.body)} bytes for another node; {BODY_BYTES_MAX} are allowed"
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, text)


def question_command(question: PeerMessage) -> Command:
    """The command that asks. Raises ValueError for a code that is no question's."""
    check_question_code(question.code)
    return Command(question.code, fields=dict(question.fields) or None, body=question.body)


def question_of(command: Command) -> PeerMessage:
    """Raises ProtocolError."""
    return PeerMessage(command.code, command.ext(), command.body)


def answer_command(outcome: PeerMessage | HutongError) -> Command:
    """The command that answers: a refusal for every error, which is Refused at the one who asked."""
    if isinstance(outcome, PeerMessage) and len(outcome.body) > BODY_BYTES_MAX:
        outcome = too_large(outcome)
    if isinstance(outcome, PeerMessage):
        return Command(PeerAnswerCode.ANSWERED, fields=dict(outcome.fields) or None, body=outcome.body)
    fields = {_CODE_FIELD: str(int(_code_of(outcome)))}
    return Command(PeerAnswerCode.REFUSED, fields=fields, remark=str(outcome)[:REMARK_MAX])


def answer_of(command: Command) -> PeerMessage | HutongError:
    """The answer; Refused, or the ProtocolError of one that cannot be read."""
    try:
        fields = command.ext()
        if command.code == PeerAnswerCode.ANSWERED:
            return PeerMessage(command.code, fields, command.body)
        if command.code == PeerAnswerCode.REFUSED:
            return Refused(_number_of(fields.get(_CODE_FIELD, "")), command.remark or "")
    except ProtocolError as error:
        return error
    for code, wire_code in _ERROR_OF.items():
        if command.code == code:
            return Refused(wire_code, command.remark or f"the other node answers: {code.name}")
    return ProtocolError(f"an answer with code {command.code}")


def _code_of(error: HutongError) -> int:
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, Expired):
        return ErrorCode.REQUEST_TIMED_OUT
    if isinstance(error, LimitExceeded):
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _number_of(text: str) -> int:
    # Bounded before `int`, which takes long for a long one.
    digits = text.removeprefix("-")
    if len(text) > _CODE_CHARACTERS_MAX or not (digits.isascii() and digits.isdigit()):
        raise ProtocolError(f"{text[:_CODE_CHARACTERS_MAX]!r} is no error code")
    return int(text)
