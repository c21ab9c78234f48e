"""From ConsumerGroupHeartbeat to a group's event: what is checked before any group is asked.

Pure. Knows the wire's messages and the settings' bounds, and nothing of groups.
"""

from typing import Final

from hutong.groups.assigned.member import MEMBER_BYTES
from hutong.groups.assigned.messages import JOINING, LEAVING, LEAVING_FOR_A_WHILE, NO_TIMEOUT
from hutong.groups.consumer.members.member import declared_bytes
from hutong.groups.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from hutong.groups.consumer.settings import ConsumerGroupSettings
from hutong.groups.requests import GroupCaller
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

_OWN_MEMBER_ID_FROM: Final = 1  # the client makes its id up (KIP-1082)


def heartbeat_error(
    request: ConsumerGroupHeartbeatRequest, api_version: int, settings: ConsumerGroupSettings
) -> HeartbeatReply | None:
    """The reply to an invalid heartbeat, with Kafka's message; None for a valid one."""
    problem = _problem(request, api_version, settings)
    if problem:
        return HeartbeatReply(ErrorCode.INVALID_REQUEST, problem)
    if len(request.group_id.encode()) > settings.name_bytes_max:
        return HeartbeatReply(ErrorCode.INVALID_GROUP_ID, "The group id is too long.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        known = ", ".join(settings.assignors)
        message = f"ServerAssignor {assignor[:100]} is not supported. Supported assignors: {known}."
        return HeartbeatReply(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _problem(request: ConsumerGroupHeartbeatRequest, api_version: int, settings: ConsumerGroupSettings) -> str:
    epoch = request.member_epoch
    # Before version 1 a join has no id yet, and a static member leaves for a while by its instance id.
    needs_id = api_version >= _OWN_MEMBER_ID_FROM or epoch > JOINING or epoch == LEAVING
    checks = (
        (needs_id and not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.instance_id is not None and not request.instance_id.strip(), "InstanceId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (epoch < LEAVING_FOR_A_WHILE, "MemberEpoch is invalid."),
        (epoch == LEAVING_FOR_A_WHILE and request.instance_id is None, "InstanceId can't be null."),
    )
    found = next((message for is_wrong, message in checks if is_wrong), "")
    if not found and epoch == JOINING:
        found = _problem_of_joining(request)
    return found or _too_long(request, settings)


def _problem_of_joining(request: ConsumerGroupHeartbeatRequest) -> str:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return ""


def _too_long(request: ConsumerGroupHeartbeatRequest, settings: ConsumerGroupSettings) -> str:
    """Refuse names that are too long to be stored, and metadata that would take too much memory."""
    names = (request.member_id, request.instance_id, request.rack_id, request.subscribed_topic_regex)
    if any(name is not None and len(name.encode()) > settings.name_bytes_max for name in names):
        return "A name is too long."
    topics = request.subscribed_topic_names
    if topics is not None and len(topics) > settings.topics_per_member_max:
        return f"A member subscribes to at most {settings.topics_per_member_max} topics."
    if topics is not None and any(len(name) > settings.name_bytes_max for name in topics):
        return "A topic name is too long."
    return ""


def heartbeat_event(
    request: ConsumerGroupHeartbeatRequest, caller: GroupCaller, ticket: int, now_ms: int, new_member_id: str
) -> ConsumerHeartbeat:
    """`new_member_id` is used for clients that leave it to the broker to make one up (version 0)."""
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        ticket=ticket,
        now_ms=now_ms,
        member_id=request.member_id or new_member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else frozenset((each.topic_id, at) for each in owned for at in each.partitions),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


def bytes_of_heartbeat(request: ConsumerGroupHeartbeatRequest) -> int:
    """Approximate memory of what this heartbeat declares; 0 where it declares nothing new."""
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return 0
    words = (request.member_id, request.instance_id, request.rack_id)
    return MEMBER_BYTES + declared_bytes(request.subscribed_topic_names or (), request.subscribed_topic_regex, words)
