"""Settings of consumer groups: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) and what reads and deletes them.

GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), GET_SUBSCRIPTIONGROUP_CONFIG (352), DELETE_SUBSCRIPTIONGROUP (207). They are
kept with the settings of Kafka's groups, whose names for them are in `groups.rocketmq_configs`. A group need not be
created before it is used, as with RocketMQ's `autoCreateSubscriptionGroup`.

The client needs ALTER_CONFIGS of the group, DESCRIBE_CONFIGS to see them, and DELETE to have its offsets forgotten.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.kafka import k42_delete_groups
from hutong.broker.rights.authorization import check, permitted
from hutong.broker.rocketmq.records.names import NAME_CHARACTERS_MAX
from hutong.broker.rocketmq.refusals import RocketRefused, code_of
from hutong.broker.rocketmq.requests.admin.asking import check_controlled_here, settled
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.rocketmq_configs import RocketGroupRules, is_ours, rules_of, texts_of, without_ours
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.admin_bodies import DataVersion, SubscriptionGroup, SubscriptionGroups
from hutong.wire.rocketmq.bodies import decode_body, encode_body
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

_POLICY: Final = "CUSTOMIZED"  # the delay levels
_DELETE_VERSION: Final = 2


def handle_put(context: RocketContext) -> Answer:
    check_controlled_here(context)
    asked = decode_body(SubscriptionGroup, context.command.body)
    group_id = asked.groupName
    check(context.kafka(), Operation.ALTER_CONFIGS, ResourceType.GROUP, group_id)
    if not 0 < len(group_id) <= NAME_CHARACTERS_MAX:
        raise _invalid(f"The name of a group has 1 to {NAME_CHARACTERS_MAX} characters.")
    if asked.groupRetryPolicy.get("type", _POLICY) != _POLICY or asked.groupRetryPolicy.get("customizedRetryPolicy"):
        raise _invalid("Messages of a group come again by the delay levels.")
    rules = RocketGroupRules(
        asked.consumeEnable,
        asked.consumeBroadcastEnable,
        asked.notifyConsumerIdsChangedEnable,
        asked.retryMaxTimes,
        asked.retryQueueNums,
        asked.consumeFromMinEnable,
        asked.consumeMessageOrderly,
        asked.consumeTimeoutMinute,
    )
    configs = context.parts.broker.group_configs
    pending: Pending[ReadyAnswer] = Pending()
    wanted = {**configs.latest(group_id), **texts_of(rules)}
    configs.alter(group_id, wanted, partial(settled, pending))
    return pending


def handle_all(context: RocketContext) -> Answer:
    configs = context.parts.broker.group_configs
    names = [group_id for group_id in configs if is_ours(configs.of(group_id))]
    seen = permitted(context.kafka(), Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, names, quietly=True)
    groups = {group_id: _shown(context, group_id) for group_id in names if group_id in seen}
    # Clients of 5.x ask for parts of the table, and stop at the number that the answer names.
    fields = {"totalGroupNum": str(len(groups))}
    return Command(ResponseCode.SUCCESS, fields=fields, body=encode_body(SubscriptionGroups(groups, DataVersion())))


def handle_one(context: RocketContext) -> Answer:
    group_id = context.text("group")
    check(context.kafka(), Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, group_id)
    return Command(ResponseCode.SUCCESS, body=encode_body(_shown(context, group_id)))


def handle_delete(context: RocketContext) -> Answer:
    check_controlled_here(context)
    group_id, kafka = context.text("groupName"), context.kafka(api_version=_DELETE_VERSION)
    check(kafka, Operation.ALTER_CONFIGS, ResourceType.GROUP, group_id)
    configs = context.parts.broker.group_configs
    forgets = context.text("cleanOffset", "false") == "true"
    if forgets:
        check(kafka, Operation.DELETE, ResourceType.GROUP, group_id)
    pending: Pending[ReadyAnswer] = Pending()

    def changed(error: HutongError | None) -> None:
        if error is not None or not forgets:
            settled(pending, error)
            return
        deleted = k42_delete_groups.handle(DeleteGroupsRequest([group_id]), kafka)
        if isinstance(deleted, Pending):
            deleted.then(lambda response: pending.complete(_deleted(response)))
        else:
            pending.complete(_deleted(deleted))

    configs.alter(group_id, without_ours(configs.latest(group_id)), changed)
    return pending


def _deleted(response: DeleteGroupsResponse) -> Command:
    code = response.results[0].error_code
    # It has committed nothing: RocketMQ's broker answers the same.
    if code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return Command(ResponseCode.SUCCESS)
    return refusal(code_of(code), ErrorCode(code).name)


def _invalid(text: str) -> RocketRefused:
    return RocketRefused(ResponseCode.INVALID_PARAMETER, text)


def _shown(context: RocketContext, group_id: str) -> SubscriptionGroup:
    rules = rules_of(context.parts.broker.group_configs, group_id)
    return SubscriptionGroup(
        group_id,
        rules.consumes,
        rules.from_min,
        rules.broadcasts,
        rules.is_orderly,
        rules.retry_queues,
        rules.retry_times,
        {"type": _POLICY},
        notifyConsumerIdsChangedEnable=rules.notifies,
        consumeTimeoutMinute=rules.timeout_minutes,
    )
