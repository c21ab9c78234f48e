"""Groups that pop: they are share groups (KIP-932), whose settings are as RocketMQ's clients expect.

    alone        the first pop makes the group, and writes its settings
    in a cluster the node that pops asks the coordinator to make the group, and the controller to write the settings;
                 it pops once it has heard of them

Strategy: from then on Kafka's tools show and alter the settings, and the group's offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.holders import holder_of
from hutong.broker.rocketmq.cluster.elsewhere import ask_coordinator, check_coordinated_here
from hutong.broker.rocketmq.records.names import dead_letter_topic
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.foundation.errors import HutongError, Refused
from hutong.groups.directory import GroupKind
from hutong.groups.share.configs import DEAD_LETTER_TOPIC, OFFSET_RESET, POP
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.bodies import POP_MODE, RequestModeRequest, encode_body
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.coordinators.broker_shard import BrokerShard
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.foundation.waiting.pending import Continuation

ALL_TOPICS: Final = "*"
FROM_FIRST: Final = 0  # an `initMode`
KNOWN_MS_MAX: Final = 5_000  # until this node knows what the controller has written
_CODES: Final = frozenset(ResponseCode)
_NOT_KNOWN: Final = Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The group's settings are on their way.")


def coordinators_of(context: RocketContext, group: str) -> Broker | BrokerShard:
    """The coordinators of a group, which are on this node. Raises LedElsewhere, and Refused while they load."""
    check_coordinated_here(context, group)
    shard = context.parts.broker.shard_of(group)
    if shard.coordination.groups is not ErrorCode.NONE:
        raise Refused(shard.coordination.groups, "The coordinator of the group is not loaded yet.")
    return shard


def may_pop(shard: Broker | BrokerShard, group: str) -> bool:
    """True for a share group, and for one that is new, at its coordinators."""
    return shard.groups.directory.kind(group) in (None, GroupKind.SHARE)


def make_group(context: RocketContext, shard: Broker | BrokerShard, group: str) -> None:
    """Make sure that the group is there, at its coordinators. Raises RocketRefused."""
    if not may_pop(shard, group):
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"Group {group[:127]} has offsets of pulls: it cannot pop.")
    if not shard.share_groups.ensure(group, holder_of(context.kafka())):
        raise RocketRefused(ResponseCode.SYSTEM_BUSY, "There are too many groups.")


def prepare_group(context: RocketContext, group: str, init_mode: int, then: Continuation[None]) -> None:
    """Make sure that the group is there, and has its settings. Raises RocketRefused, Refused."""
    broker = context.parts.broker
    is_ready = broker.share_groups.rules_of(group).is_pop
    if not broker.cluster.is_alone:
        if is_ready:
            then(None)
        else:
            _prepare_elsewhere(context, group, init_mode, then)
        return
    make_group(context, broker, group)
    if is_ready:
        then(None)
    else:
        broker.group_configs.alter(group, {**_settings(broker, group, init_mode)}, then)


def _prepare_elsewhere(context: RocketContext, group: str, init_mode: int, then: Continuation[None]) -> None:
    from hutong.broker.configs.remote_configs import set_remotely  # late: a node alone never needs it

    broker = context.parts.broker

    def made(answer: Command) -> None:
        if answer.code == ResponseCode.SUCCESS:
            set_remotely(broker.cluster, group, _settings(broker, group, init_mode), written)
        else:
            code = answer.code if answer.code in _CODES else ResponseCode.SYSTEM_ERROR
            then(RocketRefused(ResponseCode(code), answer.remark or ""))

    def written(error: HutongError | None) -> None:
        if error is not None:
            then(error)
            return
        broker.cluster.ask_again(look, lambda outcome: outcome is _NOT_KNOWN, KNOWN_MS_MAX, then)

    def look(answered: Continuation[None]) -> None:
        answered(None if broker.share_groups.rules_of(group).is_pop else _NOT_KNOWN)

    request = RequestModeRequest(ALL_TOPICS, group, POP_MODE)
    ask_coordinator(context, group, Command(RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_body(request)), made)


def _settings(broker: Broker, group: str, init_mode: int) -> dict[str, str]:
    defaults = {OFFSET_RESET: "earliest" if init_mode == FROM_FIRST else "latest", DEAD_LETTER_TOPIC: _letters(group)}
    # What the group has of its own stays: an operator has set it.
    return {**defaults, **broker.group_configs.latest(group), POP: "true"}


def _letters(group: str) -> str:
    """The topic of the group's dead letters; empty for a group whose name no topic can have."""
    try:
        return dead_letter_topic(group)
    except RocketRefused:
        return ""
