"""Administrators' requests that handlers of Kafka's APIs carry out: their answers, in RocketMQ's codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from hutong.broker.rocketmq.refusals import answer_of, code_of
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.rocketmq.context import RocketContext

ResponseT = TypeVar("ResponseT")


class ApiResult(Protocol):
    error_code: int
    error_message: str | None


def answered(outcome: ResponseT | Pending[ResponseT], answer: Callable[[ResponseT], Command]) -> Answer:
    """The answer that `answer` makes of a response, now or once it is there."""
    if not isinstance(outcome, Pending):
        return answer(outcome)
    pending: Pending[ReadyAnswer] = Pending()

    def completed(response: ResponseT) -> None:
        try:
            pending.complete(answer(response))
        except HutongError as error:
            pending.complete(answer_of(error))

    outcome.then(completed)
    return pending


def followed(answer: Answer, next_step: Callable[[], Answer]) -> Answer:
    """The answer of a second step, or that of the first where it was not carried out."""
    if isinstance(answer, Pending):
        pending: Pending[ReadyAnswer] = Pending()
        answer.then(lambda first: _go_on(first, next_step, pending))
        return pending
    return next_step() if isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS else answer


def _go_on(first: ReadyAnswer, next_step: Callable[[], Answer], pending: Pending[ReadyAnswer]) -> None:
    if not isinstance(first, Command) or first.code != ResponseCode.SUCCESS:
        pending.complete(first)
        return
    try:
        second = next_step()
    except HutongError as error:
        second = answer_of(error)
    if isinstance(second, Pending):
        second.then(pending.complete)
    else:
        pending.complete(second)


def answer_to(result: ApiResult) -> Command:
    """The answer to a request that came to one result of a Kafka API."""
    if not result.error_code:
        return Command(ResponseCode.SUCCESS)
    text = result.error_message or ErrorCode(result.error_code).name
    return refusal(code_of(result.error_code), text)


def settled(pending: Pending[ReadyAnswer], error: HutongError | None) -> None:
    """Complete an answer that has nothing but its code."""
    pending.complete(Command(ResponseCode.SUCCESS) if error is None else answer_of(error))


def check_controlled_here(context: RocketContext) -> None:
    """Raise LedElsewhere where another node makes such changes."""
    cluster = context.parts.broker.cluster
    if not cluster.is_controller:
        raise LedElsewhere(lambda: cluster.controller_id)
