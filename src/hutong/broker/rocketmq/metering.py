"""Quotas of users and clients on RocketMQ's port: those of Kafka's clients (KIP-13, KIP-124), by waiting.

Strategy: what a request used is known with its answer: bytes received of a send, bytes sent of a pull, the loop's time
of any. A client that has used too much owes time, and its next request waits for so long before it is handled. Its
connection is read no further once too many wait. A send that would wait longer than its client does is refused at
once, with code 2, instead of being stored after its client has given up.

The client id of a quota is the name of the producer or consumer group.

Decides nothing of quotas. All calls come on the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.handling.session import ClientSession
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.rocketmq.figures import RocketFigures
    from hutong.remoting.channels.answers import Answer, ReadyAnswer

SEND_WAIT_MS_MAX: Final = 2_000  # clients give a send 3 s
WAIT_MS_MAX: Final = 20_000  # and a pull 30 s
_PRODUCE_KEY: Final = 0
_FETCH_KEY: Final = 1
_OTHER_KEY: Final = -1  # of no API that a quota of bytes is about
_SENDS: Final = {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
_PULLS: Final = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE}
_GROUP_FIELDS: Final = ("consumerGroup", "producerGroup", "a", "group")


class Metering:
    """The usage of one node's RocketMQ clients, and the requests that wait for it."""

    def __init__(self, figures: RocketFigures) -> None:
        self._figures = figures
        self._until_ms: dict[ClientSession, int] = {}  # who owes time

    def process(self, handle: Callable[[RocketContext], Answer], context: RocketContext) -> Answer:
        """Handle the request, now or once its client owes nothing. Raises HutongError."""
        session, clock = context.session(_group_of(context)), context.parts.broker.clock
        wait_ms = self._until_ms.get(session, 0) - clock.monotonic_ms()
        if wait_ms <= 0:
            self._until_ms.pop(session, None)
            return self._handled(handle, context, session)
        self._figures.throttled_total += 1
        if wait_ms > (SEND_WAIT_MS_MAX if context.command.code in _SENDS else WAIT_MS_MAX):
            # RocketMQ's words, by which people know flow control in the logs of their clients.
            text = f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {wait_ms}ms"
            raise RocketRefused(ResponseCode.SYSTEM_BUSY, f"{text}, as a quota of its user or group is used up")
        self._figures.throttled_ms_total += wait_ms
        pending: Pending[ReadyAnswer] = Pending()

        def begin() -> None:
            # Nobody waits for it any more, and it would count against those who share its quota.
            if context.channel.owner.has_ended:
                pending.complete(None)
                return
            try:
                answer = self._handled(handle, context, session)
            except HutongError as error:
                answer = answer_of(error)
            if isinstance(answer, Pending):
                answer.then(pending.complete)
            else:
                pending.complete(answer)

        context.parts.timers.add(clock.monotonic_ms() + wait_ms, begin)
        return pending

    def admit(self, context: RocketContext, began_us: int) -> bool:
        """Note the usage of a message that is stored together with others; False for a client that owes time.

        That one's request has to be processed. `began_us` is when the loop began with it. Raises LimitExceeded.
        """
        session, clock = context.session(_group_of(context)), context.parts.broker.clock
        if self._until_ms.get(session, 0) > clock.monotonic_ms():
            return False
        self._note(context, session, None, clock.monotonic_us() - began_us)
        return True

    def forget(self, session: ClientSession) -> None:
        """Forget a connection that has ended. The quota's own debt stays, whichever connection comes next."""
        self._until_ms.pop(session, None)

    def _handled(
        self, handle: Callable[[RocketContext], Answer], context: RocketContext, session: ClientSession
    ) -> Answer:
        clock = context.parts.broker.clock
        began_us = clock.monotonic_us()
        answer = handle(context)
        spent_us = clock.monotonic_us() - began_us
        if not isinstance(answer, Pending):
            self._note(context, session, answer, spent_us)
            return answer
        pending: Pending[ReadyAnswer] = Pending()

        def ready(outcome: ReadyAnswer) -> None:
            self._note(context, session, outcome, spent_us)
            pending.complete(outcome)

        answer.then(ready)
        return pending

    def _note(self, context: RocketContext, session: ClientSession, answer: ReadyAnswer, spent_us: int) -> None:
        code, broker = context.command.code, context.parts.broker
        key = _PRODUCE_KEY if code in _SENDS else _FETCH_KEY if code in _PULLS else _OTHER_KEY
        sent_bytes = 0 if answer is None or isinstance(answer, list) else len(answer.body)
        user, group = context.principal.name, _group_of(context)
        wait_ms = broker.meter.throttle_ms(key, user, group, len(context.command.body), sent_bytes, spent_us)
        if wait_ms and not session.owner.has_ended:
            until_ms = broker.clock.monotonic_ms() + wait_ms
            self._until_ms[session] = max(until_ms, self._until_ms.get(session, 0))


def _group_of(context: RocketContext) -> str:
    fields = context.command.ext()
    return next((fields[name] for name in _GROUP_FIELDS if name in fields), "")
