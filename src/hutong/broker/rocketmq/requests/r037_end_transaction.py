"""END_TRANSACTION (37): a producer commits a half message, or rolls it back.

Clients ask oneway, and also in answer to a check. Only a client of the same producer group and user may end it: by a
connection whose heartbeats name the group, the one that has sent it, or, as long as that is open, another of the same
address, as RocketMQ's proxy does. It must know the message's id. For all others there is no such message. Where the end
gets lost, or comes before a node has read its log, the client is asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.halves.decisions import HalfOutcome
from hutong.broker.rocketmq.halves.machine import Claim
from hutong.broker.rocketmq.records.positions import log_and_offset
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.wire.rocketmq.codes import TRANSACTION_COMMITTED, TRANSACTION_ROLLED_BACK, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.rocketmq.halves.driver import HalfMessages
    from hutong.foundation.errors import HutongError

UNKNOWN: Final = 0  # the client does not know yet: it is asked again
_OUTCOMES: Final = {TRANSACTION_COMMITTED: HalfOutcome.COMMITTED, TRANSACTION_ROLLED_BACK: HalfOutcome.ROLLED_BACK}


def handle(context: RocketContext) -> Answer:
    asked = context.integer("commitOrRollback", UNKNOWN, bits=32)
    if asked == UNKNOWN:
        return Command(ResponseCode.SUCCESS)
    outcome = _OUTCOMES.get(asked)
    if outcome is None:
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"{asked} is no end of a transaction.")
    physical = context.integer("commitLogOffset")
    # Two names of the same place: who has made one up does not know the other.
    if log_and_offset(physical)[1] != context.integer("tranStateTableOffset"):
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"No half message is at {physical}.")
    pending: Pending[ReadyAnswer] = Pending()

    def stored(error: HutongError | None) -> None:
        pending.complete(Command(ResponseCode.SUCCESS) if error is None else answer_of(error))

    claim = claim_of(context, context.text("producerGroup"))
    _halves(context, claim).end(physical, claim, outcome, stored)
    return pending


def _halves(context: RocketContext, claim: Claim) -> HalfMessages:
    """The half messages, where this node has them. Raises RocketRefused, LedElsewhere."""
    parts = context.parts
    try:
        return parts.halves.here()
    except LedElsewhere:
        # A node alone has none yet; and another node has no heartbeats of this connection.
        if parts.broker.cluster.is_alone or not claim.is_producer:
            raise RocketRefused(
                ResponseCode.SYSTEM_ERROR, f"This connection has no half message of the group {claim.group:.100}."
            ) from None
        raise


def claim_of(context: RocketContext, group: str) -> Claim:
    """The client as the owner of a transaction of this producer group."""
    keys = (context.text("transactionId", ""), context.text("msgId", ""))
    # The node that has the connection knows its heartbeats and sends, and checks them before it hands the command over.
    number, address = context.number, context.channel.peer.address
    is_producer = context.is_handed_over or context.parts.clients.may_end_halves(group, number, address)
    return Claim(group, str(context.principal), keys, context.number, is_producer)
