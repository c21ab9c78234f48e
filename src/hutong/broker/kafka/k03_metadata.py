"""Metadata (key 3, versions 0-13): the nodes, and the topics with their partitions and leaders.

A null list of topics asks for all (in version 0 an empty one does); from 12 topics may be named by id (KIP-516; the
field is there from 10, and refused); from 4 the client says whether a missing topic may be created. A topic that is
created here is answered whole once it is durable: clients need not come back for it. Without an authorizer everybody
may do everything: that is what a client that asks for its authorized operations is told (KIP-430).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.broker import AUTHORIZED_OPERATIONS_NOT_ASKED, CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from hutong.broker.context import Later, RequestContext
from hutong.broker.gather import Gather, error_code_of
from hutong.broker.partition import LEADER_EPOCH, Topic
from hutong.broker.topics import why_missing
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.broker import Broker

API_KEY = 3
ZERO_UUID = bytes(16)
_IDS_FROM_VERSION = 12  # the field is there from 10, but no broker took it


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Later[MetadataResponse]:
    broker = context.broker
    if context.api_version < _IDS_FROM_VERSION and any(_is_by_id(topic) for topic in request.topics or ()):
        return _refused(request)
    response = _about_the_cluster(context, request)
    if request.topics is None or (context.api_version == 0 and not request.topics):
        response.topics = [describe(topic, broker, _operations(request)) for topic in broker.topics.all()]
        return response
    missing = _answer_known(request.topics, broker, response, _operations(request))
    if not missing:
        return response
    if not (request.allow_auto_topic_creation and broker.settings.auto_create_topics):
        for entry in missing:
            entry.error_code = why_missing(entry.name or "")
        return response
    return _create(missing, broker, response, _operations(request))


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


def _refused(request: MetadataRequest) -> MetadataResponse:
    """Topics named by id where that may not be: every one is answered INVALID_REQUEST, and nothing is told besides."""
    topics = [
        MetadataResponseTopic(ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id)
        for asked in request.topics or ()
    ]
    return MetadataResponse(topics=topics)


def _operations(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else AUTHORIZED_OPERATIONS_NOT_ASKED


def _about_the_cluster(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    identity, listener = context.broker.identity, context.listener
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[MetadataResponseBroker(identity.node_id, listener.host, listener.port)],
        cluster_id=identity.cluster_id,
        controller_id=identity.node_id,
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else AUTHORIZED_OPERATIONS_NOT_ASKED,
    )


def _answer_known(
    asked: list[MetadataRequestTopic], broker: Broker, response: MetadataResponse, operations: int
) -> list[MetadataResponseTopic]:
    """Fill in what exists; returns the entries of named topics that do not. Each topic is answered once."""
    missing: list[MetadataResponseTopic] = []
    seen: set[str | bytes] = set()
    for item in asked:
        key: str | bytes = item.topic_id if item.topic_id != ZERO_UUID else item.name or ""
        if key in seen:
            continue
        seen.add(key)
        topic = broker.topics.by_id(key) if isinstance(key, bytes) else broker.topics.get(key)
        if topic is not None:
            response.topics.append(describe(topic, broker, operations))
        elif isinstance(key, bytes):
            response.topics.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, key))
        else:
            entry = MetadataResponseTopic(ErrorCode.NONE, key)
            response.topics.append(entry)
            missing.append(entry)
    return missing


def _create(
    missing: list[MetadataResponseTopic], broker: Broker, response: MetadataResponse, operations: int
) -> MetadataResponse | Later[MetadataResponse]:
    gather = Gather(response)

    def settle(entry: MetadataResponseTopic, outcome: Topic | HutongError) -> None:
        if isinstance(outcome, Topic):
            _fill(entry, outcome, broker, operations)
        else:
            entry.error_code = error_code_of(outcome)
        gather.settled()

    for entry in missing:
        gather.expect()
        try:
            broker.topics.get_or_create(
                entry.name or "",
                broker.settings.default_partitions,
                lambda outcome, entry=entry: settle(entry, outcome),  # type: ignore[misc]
            )
        except Refused as refused:
            settle(entry, refused)
    return gather.returned()


def describe(topic: Topic, broker: Broker, operations: int) -> MetadataResponseTopic:
    """One topic with all its partitions, of which this node is leader and only replica."""
    entry = MetadataResponseTopic()
    _fill(entry, topic, broker, operations)
    return entry


def _fill(entry: MetadataResponseTopic, topic: Topic, broker: Broker, operations: int) -> None:
    node_id = broker.identity.node_id
    entry.error_code = ErrorCode.NONE
    entry.name = topic.name
    entry.topic_id = topic.topic_id
    entry.is_internal = topic.is_internal
    entry.topic_authorized_operations = operations
    entry.partitions = [
        MetadataResponsePartition(
            partition_index=partition.index,
            leader_id=node_id,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=[node_id],
            isr_nodes=[node_id],
        )
        for partition in topic.partitions
    ]
