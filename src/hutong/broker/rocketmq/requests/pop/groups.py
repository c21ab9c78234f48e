"""Groups that pop: they are share groups (KIP-932), whose settings are as RocketMQ's clients expect.

Strategy: the first pop of a group writes its settings. From then on Kafka's tools show and alter them, and its offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.holders import holder_of
from hutong.broker.rocketmq.records.names import dead_letter_topic
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.groups.directory import GroupKind
from hutong.groups.share.configs import DEAD_LETTER_TOPIC, OFFSET_RESET, POP
from hutong.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.foundation.waiting.pending import Continuation

FROM_FIRST: Final = 0  # an `initMode`


def may_pop(broker: Broker, group: str) -> bool:
    """True for a share group, and for one that is new."""
    return broker.groups.directory.kind(group) in (None, GroupKind.SHARE)


def prepare_group(context: RocketContext, group: str, init_mode: int, then: Continuation[None]) -> None:
    """Make sure that the group is there, and has its settings. Raises RocketRefused, Refused."""
    broker = context.parts.broker
    if broker.share_groups.rules_of(group).is_pop and broker.share_groups.get(group) is not None:
        then(None)
        return
    if not may_pop(broker, group):
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"Group {group[:127]} has offsets of pulls: it cannot pop.")
    if not broker.cluster.is_alone:
        _check_settings(broker, group)
        then(None)
        return
    if not broker.share_groups.ensure(group, holder_of(context.kafka())):
        raise RocketRefused(ResponseCode.SYSTEM_BUSY, "There are too many groups.")
    if broker.share_groups.rules_of(group).is_pop:
        then(None)
        return
    # What the group has of its own stays: an operator has set it.
    defaults = {OFFSET_RESET: "earliest" if init_mode == FROM_FIRST else "latest", DEAD_LETTER_TOPIC: _letters(group)}
    settings: dict[str, str | None] = {**defaults, **broker.group_configs.latest(group), POP: "true"}
    broker.group_configs.alter(group, settings, then)


def _check_settings(broker: Broker, group: str) -> None:
    # The controller writes settings, and the group's coordinator may be another node, too.
    if not broker.share_groups.rules_of(group).is_pop:
        raise RocketRefused(
            ResponseCode.SYSTEM_ERROR, f"In a cluster, set {POP}=true for the group {group[:127]} before it pops."
        )


def _letters(group: str) -> str:
    """The topic of the group's dead letters; empty for a group whose name no topic can have."""
    try:
        return dead_letter_topic(group)
    except RocketRefused:
        return ""
